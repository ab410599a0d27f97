# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""An OpenAI that runs here: chat, speech and transcription, without a key.

Chat follows a script, and refuses a history that OpenAI would refuse. Speech is eSpeak NG and
transcription is Whisper ``tiny.en``. For a bot that knows nothing of it::

    python -m examples.kit.model --port 8080
    OPENAI_BASE_URL=http://127.0.0.1:8080/v1 OPENAI_API_KEY=scripted python examples/swap.py
"""

import argparse
import asyncio
import email
import email.policy
import io
import json
import re
import wave
from typing import Any, Final

import numpy as np
import soxr

from examples.demo import ears, voice
from pipecat_turn_acid.testing.http import (
    HttpRequest,
    HttpResponse,
    failure,
    headers_for,
    json_response,
)
from pipecat_turn_acid.testing.script import ChatRequest, Reply, Script
from pipecat_turn_acid.testing.server import ScriptedChatServer

SPEECH_RATE: Final = 24_000
_WHISPER_RATE: Final = 16_000

_HOURS: Final = "We are open from nine to six on every day but Sunday."
_REFUNDS: Final = (
    "Refunds take fourteen days. They go to the card that you paid with. "
    "You can send the parcel back from any post office, and we pay the postage."
)
_TIMES: Final = {
    "three": re.compile(r"\b(three|3)\b"),
    # Whisper tiny.en hears "four o'clock" as "for a clock".
    "four": re.compile(r"\b(four|4|for a clock)\b"),
}


def server(**options: Any) -> ScriptedChatServer:
    """Create the server; it serves when it is told to.

    Args:
        **options: Passed to ``ScriptedChatServer``.
    """
    options.setdefault("latency", 0.3)
    options.setdefault("pace", 0.03)
    scripted = ScriptedChatServer(script(), **options)
    scripted.route("POST", "/v1/audio/speech", _Mouth().speak)
    scripted.route("POST", "/v1/audio/transcriptions", _Ears().transcribe)
    return scripted


# --- chat --------------------------------------------------------------------------------------


def script() -> Script:
    """What the model answers. It goes by the history that it is shown, as a model does."""
    model = Script(otherwise=Reply().say("Ask me for an order, for refunds, or for a demo."))
    model.on(user=lambda said: bool(order_in(said))).say(
        lambda request: f"Let me check {order_in(request.user)} for you."
    ).call("lookup_order", lambda request: {"order": order_in(request.user)})
    model.on(after_tool="lookup_order").say(_status)

    # A booking that was cut may have been made all the same, so it is looked up first.
    model.on(user=lambda said: bool(time_in(said)), when=_booking_was_cut).say(
        "One moment please."
    ).call("my_booking", {})
    model.on(user=lambda said: bool(time_in(said))).say(
        lambda request: f"Booking the demo for {time_in(request.user)} o'clock."
    ).call("book_demo", lambda request: {"time": f"{time_in(request.user)} o'clock"})
    model.on(after_tool="my_booking", when=lambda request: bool(time_in(request.user))).call(
        "book_demo", lambda request: {"time": f"{time_in(request.user)} o'clock"}
    )
    model.on(after_tool="book_demo").say(_booked)

    model.on(user="hours").say(_HOURS)
    model.on(user="refund").say(_REFUNDS)
    model.on(user="thank").say("You are welcome.")
    return model


def order_in(text: str) -> str:
    """Return the last number of four digits, however they are grouped; empty if none."""
    joined = re.sub(r"(?<=\d)[\s,.-]+(?=\d)", "", text)
    return (re.findall(r"\d{4}", joined) or [""])[-1]


def time_in(text: str) -> str:
    """Return the first of the hours that a demo can be booked for; empty if none."""
    if "clock" not in text.casefold() or order_in(text):
        return ""
    return next((hour for hour, said in _TIMES.items() if said.search(text.casefold())), "")


def _status(request: ChatRequest) -> str:
    found = request.result("lookup_order")
    if "arrives" not in found:
        return f"I cannot find order {found['order']}."
    return f"Order {found['order']} is {found['status']} and arrives {found['arrives']}."


def _booking_was_cut(request: ChatRequest) -> bool:
    try:
        return "INTERRUPTED" in str(request.answer("book_demo").content)
    except LookupError:
        return False


def _booked(request: ChatRequest) -> str:
    booked = request.result("book_demo")
    moved = f" I moved it from {booked['moved_from']}." if "moved_from" in booked else ""
    return f"The demo is booked for {booked['booked']}.{moved}"


# --- speech ------------------------------------------------------------------------------------


class _Mouth:
    def __init__(self) -> None:
        self._voice: voice.EspeakVoice | None = None

    async def speak(self, request: HttpRequest) -> HttpResponse:
        try:
            body = json.loads(request.body)
            text, form = str(body["input"]), body.get("response_format", "mp3")
        except (ValueError, KeyError, TypeError):
            return failure(400, "Missing required parameter: 'input'.")
        if form not in ("pcm", "wav"):
            return failure(400, f"This server speaks pcm and wav, not {form}.")
        try:
            samples = await asyncio.to_thread(self._say, text)
        except voice.VoiceError as error:
            return failure(500, str(error))
        if form == "pcm":
            return HttpResponse(200, headers_for("audio/pcm"), samples)
        return HttpResponse(200, headers_for("audio/wav"), wav(samples, SPEECH_RATE))

    def _say(self, text: str) -> bytes:
        self._voice = self._voice or voice.EspeakVoice()
        speech = self._voice.say(text)
        samples = np.frombuffer(speech.audio, dtype=np.int16)
        return soxr.resample(samples, speech.sample_rate, SPEECH_RATE).tobytes()


class _Ears:
    def __init__(self) -> None:
        self._model: Any = None

    async def transcribe(self, request: HttpRequest) -> HttpResponse:
        try:
            samples, rate = read_wav(_file_in(request))
        except (KeyError, EOFError, wave.Error, ValueError) as error:
            return failure(400, f"Audio file might be corrupted or unsupported: {error}")
        try:
            text = await asyncio.to_thread(self._hear, samples, rate)
        except ears.ModelError as error:
            return failure(500, str(error))
        return json_response(200, {"text": text})

    def _hear(self, samples: bytes, rate: int) -> str:
        if self._model is None:
            folder = ears.model_folder()
            ears.verify_model(folder)
            from faster_whisper import WhisperModel

            self._model = WhisperModel(str(folder), device="cpu", compute_type="int8")
        audio = np.frombuffer(samples, dtype=np.int16).astype(np.float32) / 32768
        if rate != _WHISPER_RATE:
            audio = soxr.resample(audio, rate, _WHISPER_RATE)
        segments, _ = self._model.transcribe(audio, language="en")
        return " ".join(segment.text.strip() for segment in segments)


def wav(samples: bytes, rate: int) -> bytes:
    """Put samples into a WAV file.

    Args:
        samples: Mono, 16 bit.
        rate: Samples per second.
    """
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(samples)
    return file.getvalue()


def read_wav(data: bytes) -> tuple[bytes, int]:
    """Read mono samples of 16 bit, and their rate, from a WAV file.

    Args:
        data: The file.

    Raises:
        ValueError: It has another format.
        wave.Error: It is no WAV file.
    """
    with wave.open(io.BytesIO(data), "rb") as file:
        if (file.getnchannels(), file.getsampwidth()) != (1, 2):
            raise ValueError("not mono with 16 bit")
        return file.readframes(file.getnframes()), file.getframerate()


def _file_in(request: HttpRequest) -> bytes:
    """Return the part named ``file`` of a multipart form."""
    head = f"content-type: {request.headers.get('content-type', '')}\r\n\r\n".encode()
    form = email.message_from_bytes(head + request.body, policy=email.policy.HTTP)
    for part in form.iter_parts():
        if part.get_param("name", header="content-disposition") == "file":
            content = part.get_payload(decode=True)
            if isinstance(content, bytes):
                return content
    raise KeyError("file")


async def _serve(host: str, port: int) -> None:
    async with server().serve(host, port) as base_url:
        print(f"OPENAI_BASE_URL={base_url} OPENAI_API_KEY=scripted", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="An OpenAI-compatible server that needs no key.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    given = parser.parse_args()
    try:
        asyncio.run(_serve(given.host, given.port))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
