# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Where the calls take place: two bots that hear the same caller at the same time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.clocks.base_clock import BaseClock
from pipecat.processors.aggregators.llm_response_universal import LLMUserAggregatorParams
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies

from examples.demo import bot as bots
from examples.demo import call, ears, line, voice
from examples.demo.diary import Diary
from pipecat_turn_acid.testing.server import ScriptedChatServer
from pipecat_turn_acid.testing.speech import ScriptedTransport, ScriptedTTSService, User
from pipecat_turn_acid.testing.virtual_time import VirtualClock

RECORDINGS: Final = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "speech"


class Progress(Protocol):
    """Told what is being loaded."""

    def __call__(self, what: str, /) -> None:
        """Say that ``what`` is being loaded now."""
        ...


@dataclass(frozen=True)
class Setting:
    """How the demo is run.

    Parameters:
        audio: Whether the caller is heard, or read.
        virtual: Whether time is virtual; then the scripted server needs no port.
        port: Where the scripted server listens; 0 for any free port.
        api_key: The key for the real service, or None for the scripted server.
        base_url: Where the real service is, or None for OpenAI.
        model: Which model to ask, or None for Pipecat's default.
        save: Where to put recordings of the calls, or None.
    """

    audio: bool = True
    virtual: bool = False
    port: int = 0
    api_key: str | None = None
    base_url: str | None = None
    model: str | None = None
    save: Path | None = None


class LoadingError(RuntimeError):
    """Something that is installed cannot be loaded; the message says what and why."""


async def perform(
    setting: Setting,
    kits: list[bots.Kit],
    diaries: list[Diary],
    *,
    progress: Progress = lambda what: None,
    ready: Callable[[], None] = lambda: None,
) -> list[call.Outcome]:
    """Hold the same call with a bot of each kit, at the same time.

    Args:
        setting: How.
        kits: What the bots are made of.
        diaries: Where to note what happens, one for each kit.
        progress: Told what is being loaded.
        ready: Called when everything is loaded and the calls begin.

    Returns:
        What became of each call.

    Raises:
        LoadingError: A model or the voice cannot be loaded.
        OSError: The scripted server cannot have its port.
    """
    loading = ""

    def note(what: str, /) -> None:
        nonlocal loading
        loading = what
        progress(what)

    async with _model(setting) as model:
        try:
            places = [
                (_audio if setting.audio else _text)(setting, kit, model, diary, note)
                for kit, diary in zip(kits, diaries, strict=True)
            ]
        except Exception as error:
            raise LoadingError(f"{loading or 'the bot'} cannot be loaded: {error}") from error
        ready()
        clocks: list[BaseClock | None] = [VirtualClock() if setting.virtual else None for _ in kits]
        return list(
            await asyncio.gather(
                *(_hold(place, clock) for place, clock in zip(places, clocks, strict=True))
            )
        )


@dataclass(frozen=True)
class _Place:
    bot: bots.Bot
    say: Callable[[call.Line], Awaitable[None]]
    leave: Callable[[], None] = lambda: None


async def _hold(place: _Place, clock: BaseClock | None) -> call.Outcome:
    try:
        return await call.hold(place.bot, place.say, clock=clock)
    finally:
        place.leave()


@asynccontextmanager
async def _model(setting: Setting) -> AsyncIterator[bots.Model]:
    if setting.api_key:
        yield bots.Model(setting.model, setting.api_key, setting.base_url)
        return
    server = ScriptedChatServer(bots.script(), latency=0.3, pace=0.03)
    if setting.virtual:
        yield bots.Model(None, "scripted", client=server.client)
    else:
        async with server.serve(port=setting.port) as base_url:
            yield bots.Model(None, "scripted", base_url)
    server.raise_for_script()


def _audio(
    setting: Setting, kit: bots.Kit, model: bots.Model, diary: Diary, progress: Progress
) -> _Place:
    progress(f"{kit.name}: turn detection (Silero, Smart Turn)")
    user_params = LLMUserAggregatorParams(
        vad_analyzer=SileroVADAnalyzer(),
        user_turn_strategies=UserTurnStrategies(),
        # A machine that is busy may need this long to recognise what was said.
        user_turn_stop_timeout=15.0,
    )
    progress(f"{kit.name}: speech recognition (Whisper tiny.en)")
    stt = ears.local_stt()
    progress(f"{kit.name}: voice (eSpeak NG)")
    tts = voice.EspeakTTSService(sample_rate=line.SAMPLE_RATE)
    transport = line.Line()
    bot = bots.build(
        kit,
        model=model,
        transport=transport,
        stt=stt,
        tts=tts,
        user_params=user_params,
        diary=diary,
    )

    async def say(what: call.Line) -> None:
        await transport.play(line.read_recording(RECORDINGS / what.recording))

    def leave() -> None:
        if setting.save:
            transport.save(setting.save / f"{kit.name.lower().replace(' ', '-')}.wav")

    return _Place(bot, say, leave)


def _text(
    setting: Setting, kit: bots.Kit, model: bots.Model, diary: Diary, progress: Progress
) -> _Place:
    tts = ScriptedTTSService()
    transport = ScriptedTransport(voice=tts.voice)
    bot = bots.build(
        kit,
        model=model,
        transport=transport,
        stt=None,
        tts=tts,
        user_params=LLMUserAggregatorParams(
            user_turn_strategies=UserTurnStrategies(
                stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.3)]
            )
        ),
        diary=diary,
    )
    user = User(transport.input())

    async def say(what: call.Line) -> None:
        await user.says(what.text)

    return _Place(bot, say)
