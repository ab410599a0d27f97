# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Real speech against the example bot in virtual time, with a barge-in at many offsets.

Recordings go through Silero, Smart Turn and Whisper; answers come over the OpenAI client, are
spoken by eSpeak NG with the time of each word, and are played at the pace of speech.
"""

import asyncio
import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pipecat.frames.frames import InterruptionFrame, TTSTextFrame
from pipecat.observers.base_observer import BaseObserver, FramePushed
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.transports.base_output import BaseOutputTransport
from pipecat.workers.runner import WorkerRunner

from examples import daily_bot
from examples.demo import ears, line, voice
from examples.kit import model
from examples.kit.shop import Shop
from pipecat_turn_acid import (
    TransactionalLLMAssistantAggregator,
    TransactionalLLMContext,
    TransactionalOpenAILLMService,
)
from pipecat_turn_acid.testing import virtual_time
from pipecat_turn_acid.testing.checks import check_history, errors
from pipecat_turn_acid.testing.server import Outcome
from tests.examples.devtools import SPEECH

pytestmark = pytest.mark.timeout(900)

OFFSETS = [tenths / 10 for tenths in range(0, 140, 5)]
"""When the caller speaks again, in seconds from the end of the first sentence."""

QUIET_SECS = 3.0


class OnceHeard:
    """Whisper, which hears the same in the same samples and so need not listen twice."""

    def __init__(self, model: Any):
        self._model = model
        self._heard: dict[bytes, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def transcribe(self, audio: Any, **options: Any) -> Any:
        key = audio.tobytes()
        if key not in self._heard:
            segments, info = self._model.transcribe(audio, **options)
            self._heard[key] = list(segments), info
        return self._heard[key]


@pytest.fixture(scope="module", autouse=True)
def one_whisper():
    from faster_whisper import WhisperModel
    from pipecat.services.whisper import stt

    loaded: dict[str, OnceHeard] = {}

    def load(name: str, **options: Any) -> OnceHeard:
        if name not in loaded:
            loaded[name] = OnceHeard(WhisperModel(name, **options))
        return loaded[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stt, "WhisperModel", load)
        yield


@pytest.fixture(scope="module")
def espeak() -> voice.EspeakVoice:
    return voice.EspeakVoice()


@dataclass
class Call:
    """What became of one call."""

    history: list[dict[str, Any]]
    said: str
    outcomes: list[Outcome]
    refusals: list[Any]
    is_stuck: bool
    booked: str | None

    @property
    def calls(self) -> list[str]:
        return [c["function"]["name"] for m in self.history for c in m.get("tool_calls", [])]


class Listener(BaseObserver):
    """Writes down the words that were played, and when anything happened last."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._said = asyncio.Event()

    async def on_push_frame(self, data: FramePushed) -> None:
        if isinstance(data.source, BaseOutputTransport):
            if isinstance(data.frame, TTSTextFrame):
                self.words.append(data.frame.text.strip())
                self._said.set()
            elif isinstance(data.frame, InterruptionFrame):
                self.words.append("|")

    async def until_quiet(self, is_busy: Callable[[], bool]) -> None:
        """Wait until no word has been played for a while, and the bot is not busy."""
        quiet = False
        while not quiet:
            self._said.clear()
            try:
                await asyncio.wait_for(self._said.wait(), QUIET_SECS)
            except TimeoutError:
                quiet = not is_busy()


def hold(espeak: voice.EspeakVoice, first: str, second: str, offset: float) -> Call:
    """Hold a call: say something, say something else so many seconds later, and listen."""

    async def main() -> Call:
        server = model.server()
        transport, shop, listener = line.Line(), Shop(), Listener()
        worker = daily_bot.build(
            transport,
            stt=ears.local_stt(),
            llm=server.service(
                TransactionalOpenAILLMService,
                settings=OpenAILLMService.Settings(system_instruction=daily_bot.INSTRUCTIONS),
            ),
            tts=voice.EspeakTTSService(voice=espeak),
            shop=shop,
            clock=virtual_time.VirtualClock(),
            observers=[listener],
            enable_turn_tracking=False,
            idle_timeout_secs=None,
        )
        started = asyncio.Event()

        @worker.event_handler("on_pipeline_started")
        async def on_pipeline_started(*_: Any) -> None:
            started.set()

        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(worker)
        running = asyncio.create_task(runner.run())
        await started.wait()
        await asyncio.sleep(0.5)
        await transport.play(line.read_recording(SPEECH / f"{first}.wav"))
        await asyncio.sleep(offset)
        await transport.play(line.read_recording(SPEECH / f"{second}.wav"))

        (assistant,) = worker._iter_processors(
            worker._pipeline, TransactionalLLMAssistantAggregator
        )
        context = assistant.context
        assert isinstance(context, TransactionalLLMContext)
        await listener.until_quiet(
            lambda: bool(context.staged) or any(r.outcome is Outcome.OPEN for r in server.requests)
        )
        call = Call(
            history=[copy.deepcopy(dict(m)) for m in context.get_messages() if isinstance(m, dict)],
            said=" ".join(listener.words),
            outcomes=[record.outcome for record in server.requests],
            refusals=[finding for record in server.requests for finding in record.findings],
            is_stuck=assistant.has_function_calls_in_progress or bool(context.staged),
            booked=shop.booked,
        )
        await worker.cancel()
        await running
        server.raise_for_script()
        return call

    return virtual_time.run(main)


@pytest.mark.parametrize("offset", OFFSETS)
def test_whenever_the_caller_corrects_the_order_the_right_one_is_answered(
    offset: float, espeak: voice.EspeakVoice
):
    """Before the tool, in it, in the middle of the answer, after it: the caller never waits."""
    call = hold(espeak, "order-ask", "order-correct", offset)

    assert call.refusals == []
    assert Outcome.REFUSED not in call.outcomes and Outcome.BROKEN not in call.outcomes
    assert errors(check_history(call.history)) == []
    assert not call.is_stuck
    assert call.said.endswith("Order 4472 is out for delivery and arrives today.")
    assert call.history[-1] == {
        "role": "assistant",
        "content": "Order 4472 is out for delivery and arrives today.",
    }
    answered = [m["content"] for m in call.history if m["role"] == "tool"]
    # The first lookup is there if it was finished, and only then.
    assert ["4472" in content for content in answered] in ([True], [False, True])


@pytest.mark.parametrize("offset", OFFSETS[::4])
def test_whenever_the_caller_moves_the_booking_it_ends_at_the_right_time(
    offset: float, espeak: voice.EspeakVoice
):
    """A booking may have been made before it was cut; the shop and the history agree on it."""
    call = hold(espeak, "booking-ask", "booking-correct", offset)

    assert call.refusals == []
    assert errors(check_history(call.history)) == []
    assert not call.is_stuck
    assert call.booked == "four o'clock"
    assert "The demo is booked for four o'clock." in call.said
    assert call.history[-1]["role"] == "assistant"
    assert call.history[-1]["content"].startswith("The demo is booked for four o'clock.")


def test_a_call_sounds_the_same_every_time(espeak: voice.EspeakVoice):
    """A failure at an offset can be repeated, word by word."""
    first = hold(espeak, "order-ask", "order-correct", 2.0)
    again = hold(espeak, "order-ask", "order-correct", 2.0)

    assert (first.said, first.history) == (again.said, again.history)
