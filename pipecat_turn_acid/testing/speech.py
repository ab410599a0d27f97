# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A bot's voice, a pair of loudspeakers, and a user, all scripted.

The services and the transport are real Pipecat base classes with everything above the network in
place: audio contexts, word timestamps, the output's audio and clock queues. What is scripted is
the other end. The audio is not sound: every sample of a word holds that word's number, so the
output knows which word it is playing, and when, whatever became of the frames about it.

Everything here works in real time too; with
:func:`pipecat_turn_acid.testing.virtual_time.run` it costs none.
"""

import asyncio
import itertools
import struct
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from pipecat.frames.frames import (
    CancelFrame,
    EndFrame,
    Frame,
    InterimTranscriptionFrame,
    LLMTextFrame,
    OutputAudioRawFrame,
    StartFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    TTSStoppedFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.settings import TTSSettings
from pipecat.services.tts_service import TTSService
from pipecat.transports.base_input import BaseInputTransport
from pipecat.transports.base_output import BaseOutputTransport
from pipecat.transports.base_transport import BaseTransport, TransportParams
from pipecat.utils.time import time_now_iso8601

SAMPLE_RATE = 8000
"""What the scripted voice and output use, so that nothing is resampled."""


@dataclass(frozen=True)
class Utterance:
    """One text that the bot asked its voice to say, usually a sentence.

    Parameters:
        number: Counted from 1 in the order they were asked for.
        text: The whole text.
        at: When it was asked for, in seconds of the running loop.
    """

    number: int
    text: str
    at: float


@dataclass(frozen=True)
class Heard:
    """One word that the output began to play.

    Parameters:
        word: The word.
        at: When its first sample was played, in seconds of the running loop.
        utterance: What it is a part of.
    """

    word: str
    at: float
    utterance: Utterance


@dataclass
class Voice:
    """What a text sounds like, and how to recognise it.

    Parameters:
        seconds_per_word: How long a word takes to say.
        utterances: All that was asked for, in order.
    """

    seconds_per_word: float = 0.35
    utterances: list[Utterance] = field(default_factory=list)
    _words: list[tuple[str, Utterance]] = field(default_factory=list, repr=False)

    def begin(self, text: str) -> Utterance:
        """Note that a text is about to be said.

        Args:
            text: The text.

        Returns:
            The text as an utterance of its own.
        """
        now = asyncio.get_running_loop().time()
        self.utterances.append(Utterance(len(self.utterances) + 1, text, now))
        return self.utterances[-1]

    def say(self, utterance: Utterance, word: str) -> bytes:
        """Return a word's audio: 16 bit mono samples that all hold the word's number.

        Args:
            utterance: What the word is a part of.
            word: The word.
        """
        self._words.append((word, utterance))
        samples = round(self.seconds_per_word * SAMPLE_RATE)
        return struct.pack("<h", len(self._words)) * samples

    def hear(self, audio: bytes) -> list[tuple[str, Utterance, int]]:
        """Recognise the words in a piece of audio.

        Args:
            audio: 16 bit mono samples as :meth:`say` makes them.

        Returns:
            Word, utterance and number of each word in it, in order; silence is left out.
        """
        # A word is longer than a chunk, so the ends of a chunk name all that is in it.
        ends = (*struct.unpack("<h", audio[:2]), *struct.unpack("<h", audio[-2:]))
        numbers = dict.fromkeys(number for number in ends if number)
        return [(*self._words[number - 1], number) for number in numbers]


class ScriptedTTSService(TTSService):
    """A voice behind a persistent connection, with word timestamps.

    Text goes out as it comes; audio and timestamps come back on a task of their own, in the order
    asked for, a little faster than they are played.
    """

    def __init__(
        self,
        *,
        voice: Voice | None = None,
        latency: float = 0.12,
        speed: float = 4.0,
        **kwargs: object,
    ):
        """Create a voice.

        Args:
            voice: What texts sound like; the output needs the same one.
            latency: Seconds from a text to its first audio.
            speed: How much faster audio is made than it is played.
            **kwargs: Passed to ``TTSService``.
        """
        super().__init__(
            push_text_frames=False,
            push_start_frame=True,
            sample_rate=SAMPLE_RATE,
            settings=_SETTINGS(),
            **kwargs,  # pyright: ignore[reportArgumentType]
        )
        self.voice = voice or Voice()
        self._latency = latency
        self._speed = speed
        self._requests: asyncio.Queue[tuple[str, Utterance | None]] = asyncio.Queue()
        self._said: dict[str, float] = {}
        self._connection: asyncio.Task[None] | None = None

    async def start(self, frame: StartFrame) -> None:
        """Open the connection.

        Args:
            frame: The frame that starts the pipeline.
        """
        await super().start(frame)
        self._connection = self.create_task(self._receive())

    async def stop(self, frame: EndFrame) -> None:
        """Close the connection once everything has been said.

        Args:
            frame: The frame that ends the pipeline.
        """
        await super().stop(frame)
        await self._disconnect()

    async def cancel(self, frame: CancelFrame) -> None:
        """Close the connection at once.

        Args:
            frame: The frame that cancels the pipeline.
        """
        await super().cancel(frame)
        await self._disconnect()

    async def cleanup(self) -> None:
        """Close the connection if it is still open."""
        await super().cleanup()
        await self._disconnect()

    async def flush_audio(self, context_id: str | None = None) -> None:
        """Tell the other end that no more text follows for a context.

        Args:
            context_id: The context.
        """
        if context_id:
            await self._requests.put((context_id, None))

    async def on_audio_context_interrupted(self, context_id: str) -> None:
        """Make the other end forget a context.

        Args:
            context_id: The context.
        """
        self._said.pop(context_id, None)
        await super().on_audio_context_interrupted(context_id)

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame | None, None]:
        """Send a text; its audio arrives elsewhere.

        Args:
            text: The text to say.
            context_id: The audio context it belongs to.

        Yields:
            Nothing but the sign that audio will come.
        """
        await self._requests.put((context_id, self.voice.begin(text)))
        yield None

    async def _disconnect(self) -> None:
        if self._connection:
            await self.cancel_task(self._connection)
            self._connection = None

    async def _receive(self) -> None:
        while True:
            context_id, utterance = await self._requests.get()
            if utterance is None:
                if self.audio_context_available(context_id):
                    await self.append_to_audio_context(
                        context_id, TTSStoppedFrame(context_id=context_id)
                    )
                    await self.remove_audio_context(context_id)
                self._said.pop(context_id, None)
                continue
            await asyncio.sleep(self._latency)
            for word in utterance.text.split():
                if not self.audio_context_available(context_id):
                    break
                offset = self._said.get(context_id, 0.0)
                self._said[context_id] = offset + self.voice.seconds_per_word
                audio = self.voice.say(utterance, word)
                await self.append_to_audio_context(
                    context_id, TTSAudioRawFrame(audio, SAMPLE_RATE, 1, context_id=context_id)
                )
                await self.add_word_timestamps([(word, offset)], context_id)
                await asyncio.sleep(self.voice.seconds_per_word / self._speed)


class ScriptedHttpTTSService(TTSService):
    """A voice that answers each text with its audio, without word timestamps."""

    def __init__(
        self,
        *,
        voice: Voice | None = None,
        latency: float = 0.2,
        speed: float = 4.0,
        **kwargs: object,
    ):
        """Create a voice.

        Args:
            voice: What texts sound like; the output needs the same one.
            latency: Seconds from a text to its first audio.
            speed: How much faster audio is made than it is played.
            **kwargs: Passed to ``TTSService``.
        """
        super().__init__(
            push_start_frame=True,
            push_stop_frames=True,
            sample_rate=SAMPLE_RATE,
            settings=_SETTINGS(),
            **kwargs,  # pyright: ignore[reportArgumentType]
        )
        self.voice = voice or Voice()
        self._latency = latency
        self._speed = speed

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame | None, None]:
        """Turn a text into audio.

        Args:
            text: The text to say.
            context_id: The audio context it belongs to.

        Yields:
            The audio, a word at a time.
        """
        utterance = self.voice.begin(text)
        await asyncio.sleep(self._latency)
        for word in text.split():
            audio = self.voice.say(utterance, word)
            yield TTSAudioRawFrame(audio, SAMPLE_RATE, 1, context_id=context_id)
            await asyncio.sleep(self.voice.seconds_per_word / self._speed)


def _SETTINGS() -> TTSSettings:  # noqa: N802 - a constant, made anew for each service
    return TTSSettings(model=None, voice=None, language=None)


class ScriptedTransport(BaseTransport):
    """Loudspeakers that play at the pace of speech, and a microphone with a user before it.

    Without audio the text itself is what the user reads, as it passes the output.
    """

    def __init__(self, *, voice: Voice | None = None, audio: bool = True, chunk_ms: int = 100):
        """Create both ends.

        Args:
            voice: What texts sound like; the voice service needs the same one.
            audio: Whether audio is played, or text shown.
            chunk_ms: How much audio is written at a time, in steps of 10 ms.
        """
        super().__init__()
        self.voice = voice or Voice()
        self.heard: list[Heard] = []
        params = TransportParams(
            audio_out_enabled=audio,
            audio_out_sample_rate=SAMPLE_RATE,
            audio_out_10ms_chunks=chunk_ms // 10,
            audio_out_end_silence_secs=0,
        )
        self._scripted_input = _Microphone(params)
        self._scripted_output = _Loudspeaker(params, self.voice, self.heard, show_text=not audio)

    def input(self) -> BaseInputTransport:
        """Return the microphone."""
        return self._scripted_input

    def output(self) -> BaseOutputTransport:
        """Return the loudspeakers."""
        return self._scripted_output


class _Microphone(BaseInputTransport):
    async def start(self, frame: StartFrame) -> None:
        await super().start(frame)
        await self.set_transport_ready(frame)


class _Loudspeaker(BaseOutputTransport):
    def __init__(
        self, params: TransportParams, voice: Voice, heard: list[Heard], *, show_text: bool
    ):
        super().__init__(params)
        self._voice = voice
        self._heard = heard
        self._show_text = show_text
        self._shown = itertools.count(1)
        self._last_number = 0

    async def start(self, frame: StartFrame) -> None:
        await super().start(frame)
        await self.set_transport_ready(frame)

    async def write_audio_frame(self, frame: OutputAudioRawFrame) -> bool:
        now = asyncio.get_running_loop().time()
        for word, utterance, number in self._voice.hear(frame.audio):
            if number != self._last_number:
                self._last_number = number
                self._heard.append(Heard(word, now, utterance))
        await asyncio.sleep(len(frame.audio) / (2 * frame.num_channels * frame.sample_rate))
        return True

    async def write_transport_frame(self, frame: Frame) -> None:
        if self._show_text and isinstance(frame, LLMTextFrame):
            now = asyncio.get_running_loop().time()
            self._heard.append(Heard(frame.text, now, Utterance(next(self._shown), "", now)))


@dataclass
class Said:
    """Something the user said.

    Parameters:
        text: The words.
        begun: When the detector reported it, in seconds of the running loop.
        recognised: When the words were known; None while they are not.
    """

    text: str
    begun: float
    recognised: float | None = None


class User:
    """A user who speaks on cue, as a microphone, a voice detector and a recogniser report it.

    The bot's own turn strategies decide what that means. One thing is said at a time: what is said
    while something else is being said follows it.
    """

    def __init__(
        self,
        microphone: FrameProcessor,
        *,
        seconds_per_word: float = 0.3,
        vad_start: float = 0.2,
        vad_stop: float = 0.2,
        stt_latency: float = 0.15,
        interim: bool = True,
    ):
        """Place a user before a microphone.

        Args:
            microphone: Where the frames about the user enter the pipeline.
            seconds_per_word: How fast the user speaks.
            vad_start: Seconds of speech before the detector believes it.
            vad_stop: Seconds of silence before the detector believes them.
            stt_latency: Seconds from the detected end to the final transcription.
            interim: Whether the recogniser reports words before the end.
        """
        self._microphone = microphone
        self._seconds_per_word = seconds_per_word
        self._vad_start = vad_start
        self._vad_stop = vad_stop
        self._stt_latency = stt_latency
        self._interim = interim
        self._mouth = asyncio.Lock()
        self.said: list[Said] = []

    @property
    def speaking(self) -> bool:
        """Whether the user is saying something, or it is still being recognised."""
        return self._mouth.locked()

    async def says(self, text: str) -> None:
        """Say something, and return when it has been recognised.

        Args:
            text: What to say.
        """
        async with self._mouth:
            loop = asyncio.get_running_loop()
            said = Said(text, loop.time())
            self.said.append(said)
            await self._starts()
            words = text.split()
            for count in range(1, len(words) + 1):
                await asyncio.sleep(self._seconds_per_word)
                if self._interim and count < len(words):
                    await self._microphone.push_frame(
                        InterimTranscriptionFrame(
                            " ".join(words[:count]), "user", time_now_iso8601()
                        )
                    )
            await self._stops()
            await asyncio.sleep(self._stt_latency)
            said.recognised = loop.time()
            await self._microphone.push_frame(
                TranscriptionFrame(text, "user", time_now_iso8601(), finalized=True)
            )

    async def barges_in(self, text: str, *, after: float = 0.0) -> None:
        """Say something, whether or not the bot has finished.

        Args:
            text: What to say.
            after: Seconds from now.
        """
        await asyncio.sleep(after)
        await self.says(text)

    async def coughs(self, seconds: float = 0.4) -> None:
        """Make a noise that the detector takes for speech and that holds no words.

        Args:
            seconds: How long the noise lasts.
        """
        async with self._mouth:
            await self._starts()
            await asyncio.sleep(seconds)
            await self._stops()

    async def _starts(self) -> None:
        await self._microphone.push_frame(
            VADUserStartedSpeakingFrame(start_secs=self._vad_start, timestamp=time.time())
        )

    async def _stops(self) -> None:
        await asyncio.sleep(self._vad_stop)
        await self._microphone.push_frame(
            VADUserStoppedSpeakingFrame(stop_secs=self._vad_stop, timestamp=time.time())
        )
