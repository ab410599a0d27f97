# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The scripted voice, loudspeakers and user, each on its own."""

import asyncio
from typing import Any

import pytest
from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    EndFrame,
    Frame,
    InterimTranscriptionFrame,
    InterruptionFrame,
    TranscriptionFrame,
    TTSSpeakFrame,
    TTSTextFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.workers.runner import WorkerRunner

from pipecat_turn_acid.testing.speech import (
    SAMPLE_RATE,
    ScriptedHttpTTSService,
    ScriptedTransport,
    ScriptedTTSService,
    User,
    Voice,
)
from pipecat_turn_acid.testing.virtual_time import VirtualClock


class Recorder(FrameProcessor):
    """Keeps what passes, with the virtual second in which it did."""

    def __init__(self):
        super().__init__()
        self.frames: list[tuple[float, Frame]] = []

    async def process_frame(self, frame, direction):
        await super().process_frame(frame, direction)
        loop = asyncio.get_running_loop()
        self.frames.append((getattr(loop, "elapsed"), frame))  # noqa: B009
        await self.push_frame(frame, direction)

    def of(self, *kinds) -> list[Any]:
        return [frame for _, frame in self.frames if isinstance(frame, kinds)]

    def at(self, kind):
        return [round(at, 6) for at, frame in self.frames if isinstance(frame, kind)]


class Stage:
    """A running pipeline of given parts with a recorder at its end."""

    def __init__(self, *parts):
        self.recorder = Recorder()
        self.worker = PipelineWorker(
            Pipeline([*parts, self.recorder]),
            clock=VirtualClock(),
            enable_rtvi=False,
            enable_turn_tracking=False,
            idle_timeout_secs=None,
        )

    async def __aenter__(self):
        started = asyncio.Event()
        self.worker.add_event_handler("on_pipeline_started", lambda *_: started.set())
        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(self.worker)
        self._running = asyncio.create_task(runner.run())
        await started.wait()
        return self

    async def __aexit__(self, *_):
        await self.worker.queue_frame(EndFrame())
        await self._running


@pytest.mark.parametrize("service", [ScriptedTTSService, ScriptedHttpTTSService])
async def test_what_is_said_is_heard_word_by_word(virtual_time, service):
    voice = Voice()
    transport = ScriptedTransport(voice=voice)
    async with Stage(service(voice=voice), transport.output()) as stage:
        await stage.worker.queue_frame(TTSSpeakFrame("One two three. Four five."))
        await asyncio.sleep(5)
    assert [one.word for one in transport.heard] == ["One", "two", "three.", "Four", "five."]
    begun = [one.at for one in transport.heard]
    assert begun == sorted(begun)
    assert begun[-1] - begun[0] == pytest.approx(4 * voice.seconds_per_word, abs=0.1)
    assert len(stage.recorder.of(BotStartedSpeakingFrame)) == 1
    spoken = stage.recorder.at(BotStoppedSpeakingFrame)[0] - begun[0] + 1000
    assert spoken == pytest.approx(5 * voice.seconds_per_word, abs=0.11)


async def test_a_voice_with_word_timestamps_times_every_word(virtual_time):
    voice = Voice()
    transport = ScriptedTransport(voice=voice)
    async with Stage(ScriptedTTSService(voice=voice), transport.output()) as stage:
        await stage.worker.queue_frame(TTSSpeakFrame("One two three."))
        await asyncio.sleep(5)
    texts = [frame.text for frame in stage.recorder.of(TTSTextFrame)]
    assert texts == ["One", "two", "three."]
    for shown, heard in zip(stage.recorder.at(TTSTextFrame), transport.heard, strict=True):
        assert shown == pytest.approx(heard.at - 1000, abs=0.1)


async def test_a_voice_without_them_shows_the_text_when_it_has_been_said(virtual_time):
    voice = Voice()
    transport = ScriptedTransport(voice=voice)
    async with Stage(ScriptedHttpTTSService(voice=voice), transport.output()) as stage:
        await stage.worker.queue_frame(TTSSpeakFrame("One two three."))
        await asyncio.sleep(5)
    assert [frame.text for frame in stage.recorder.of(TTSTextFrame)] == ["One two three."]
    (shown,) = stage.recorder.at(TTSTextFrame)
    assert shown >= transport.heard[-1].at - 1000


@pytest.mark.parametrize("service", [ScriptedTTSService, ScriptedHttpTTSService])
async def test_an_interruption_silences_the_voice(virtual_time, service):
    voice = Voice()
    transport = ScriptedTransport(voice=voice)
    async with Stage(service(voice=voice), transport.output()) as stage:
        await stage.worker.queue_frame(TTSSpeakFrame("One two three four five six."))
        await asyncio.sleep(1.0)
        heard = len(transport.heard)
        await stage.worker.queue_frame(InterruptionFrame())
        await asyncio.sleep(5)
        assert 1 <= heard == len(transport.heard) < 6
        await stage.worker.queue_frame(TTSSpeakFrame("Seven."))
        await asyncio.sleep(5)
    assert transport.heard[-1].word == "Seven."


def test_a_voice_is_known_by_its_samples():
    async def main():
        voice = Voice(seconds_per_word=0.1)
        first, second = voice.begin("Hello there"), voice.begin("Bye")
        audio = voice.say(first, "Hello") + voice.say(first, "there")
        assert len(audio) == 2 * 2 * 0.1 * SAMPLE_RATE
        half = len(audio) // 4
        assert [one[0] for one in voice.hear(audio[half : 3 * half])] == ["Hello", "there"]
        assert voice.hear(bytes(100)) == []
        padded = voice.say(second, "Bye")[:20] + bytes(20)
        assert [(word, one.text) for word, one, _ in voice.hear(padded)] == [("Bye", "Bye")]

    asyncio.run(main())


async def test_a_user_is_reported_as_a_detector_and_a_recogniser_would(virtual_time):
    transport = ScriptedTransport()
    async with Stage(transport.input()) as stage:
        user = User(transport.input(), stt_latency=0.25)
        before = virtual_time.elapsed
        await user.says("Where is my order?")
        await asyncio.sleep(0.01)
    reported = [
        (round(at - before, 6), type(frame))
        for at, frame in stage.recorder.frames
        if isinstance(
            frame,
            (
                VADUserStartedSpeakingFrame,
                VADUserStoppedSpeakingFrame,
                InterimTranscriptionFrame,
                TranscriptionFrame,
            ),
        )
    ]
    assert reported == [
        (0.0, VADUserStartedSpeakingFrame),
        (0.3, InterimTranscriptionFrame),
        (0.6, InterimTranscriptionFrame),
        (0.9, InterimTranscriptionFrame),
        (1.4, VADUserStoppedSpeakingFrame),
        (1.65, TranscriptionFrame),
    ]
    (final,) = stage.recorder.of(TranscriptionFrame)
    assert final.text == "Where is my order?" and final.finalized


async def test_a_user_says_one_thing_at_a_time(virtual_time):
    transport = ScriptedTransport()
    async with Stage(transport.input()) as stage:
        user = User(transport.input())
        await asyncio.gather(user.says("One."), user.barges_in("Two.", after=0.1), user.coughs())
        assert not user.speaking
    assert [frame.text for frame in stage.recorder.of(TranscriptionFrame)] == ["One.", "Two."]
    kinds = (VADUserStartedSpeakingFrame, VADUserStoppedSpeakingFrame)
    assert [type(frame) for frame in stage.recorder.of(*kinds)] == list(kinds) * 3
