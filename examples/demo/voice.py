# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A local voice for the bot: eSpeak NG from a wheel, with the time of every word.

Nothing is downloaded and nothing has to be installed beside the wheel ``espeakng-loader``. The
voice is robotic and that is welcome here: in a recording of the call nobody mistakes the bot for
the caller.
"""

import asyncio
import ctypes
import re
import threading
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import numpy as np
import soxr
from pipecat.frames.frames import ErrorFrame, Frame, TTSAudioRawFrame
from pipecat.services.settings import TTSSettings
from pipecat.services.tts_service import TTSService

# From espeak-ng/speak_lib.h, whose interface has been stable since eSpeak 1.29.
_AUDIO_OUTPUT_SYNCHRONOUS = 2
_INITIALIZE_DONT_EXIT = 0x8000
_CHARS_UTF8 = 1
_POS_CHARACTER = 1
_PARAMETER_RATE = 1
_EVENT_LIST_TERMINATED = 0
_EVENT_WORD = 1

VOICE_PACKAGE = "espeakng-loader==0.2.4"

_NUMBER = re.compile(r"\d{3,}")


class VoiceError(RuntimeError):
    """eSpeak NG cannot be loaded or does not speak; the message says why."""


@dataclass(frozen=True)
class Speech:
    """A spoken text.

    Parameters:
        audio: 16-bit mono samples, as bytes.
        sample_rate: Samples per second.
        words: The words of the text as it was given, each with the second at which it starts.
    """

    audio: bytes
    sample_rate: int
    words: list[tuple[str, float]]

    @property
    def seconds(self) -> float:
        """How long the speech lasts."""
        return len(self.audio) / 2 / self.sample_rate


class _Event(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    ]


_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)


class EspeakVoice:
    """eSpeak NG, loaded into this process.

    The library keeps its state in globals, so it speaks one text at a time. It also adds a flutter
    that goes on from text to text, so what was said once is kept: the same text always gives the
    same samples.
    """

    _lock = threading.Lock()

    def __init__(self, *, voice: str = "en-us", words_per_minute: int = 165):
        """Load the library and its data from the installed wheel.

        Args:
            voice: Name of an eSpeak NG voice.
            words_per_minute: How fast to speak.

        Raises:
            VoiceError: The wheel is missing, or its library does not work on this machine.
        """
        try:
            import espeakng_loader
        except ImportError as error:
            raise VoiceError("the package espeakng-loader is not installed") from error
        try:
            self._library = ctypes.CDLL(espeakng_loader.get_library_path())
            data_path = espeakng_loader.get_data_path()
        except (OSError, RuntimeError) as error:
            raise VoiceError(f"eSpeak NG cannot be loaded: {error}") from error
        self._said: dict[str, Speech] = {}
        self._samples = bytearray()
        self._word_starts: list[tuple[int, float]] = []
        self._callback = _Callback(self._on_synthesized)
        with self._lock:
            rate = self._library.espeak_Initialize(
                _AUDIO_OUTPUT_SYNCHRONOUS, 0, data_path.encode(), _INITIALIZE_DONT_EXIT
            )
            if rate <= 0:
                raise VoiceError(f"eSpeak NG does not accept its data in {data_path}")
            self.sample_rate = int(rate)
            if self._library.espeak_SetVoiceByName(voice.encode()) != 0:
                raise VoiceError(f"eSpeak NG has no voice {voice!r}")
            self._library.espeak_SetParameter(_PARAMETER_RATE, words_per_minute, 0)

    def say(self, text: str) -> Speech:
        """Speak a text.

        Numbers of three digits and more are read digit by digit, as one reads an order number.

        Args:
            text: What to say.

        Returns:
            The samples, and the words of ``text`` with their times. A word that the voice passes
            over gets the time of the word before it.

        Raises:
            VoiceError: eSpeak NG refused the text.
        """
        if text in self._said:
            return self._said[text]
        words = text.split()
        spoken, starts = _spell_numbers(words)
        encoded = spoken.encode()
        with self._lock:
            self._library.espeak_SetSynthCallback(self._callback)
            self._samples.clear()
            self._word_starts.clear()
            status = self._library.espeak_Synth(
                encoded, len(encoded) + 1, 0, _POS_CHARACTER, 0, _CHARS_UTF8, None, None
            )
            if status != 0:
                raise VoiceError(f"eSpeak NG failed with status {status}")
            audio, heard = bytes(self._samples), list(self._word_starts)
        times: list[tuple[str, float]] = []
        previous = 0.0
        for index, word in enumerate(words):
            end = starts[index + 1] if index + 1 < len(words) else len(spoken) + 1
            first = [at for position, at in heard if starts[index] <= position < end]
            previous = max(previous, min(first)) if first else previous
            times.append((word, previous))
        speech = self._said[text] = Speech(audio, self.sample_rate, times)
        return speech

    def _on_synthesized(self, samples, count: int, events) -> int:
        if samples and count > 0:
            self._samples += ctypes.string_at(samples, count * 2)
        index = 0
        while events and events[index].type != _EVENT_LIST_TERMINATED:
            if events[index].type == _EVENT_WORD:
                # Positions count from 1.
                position = events[index].text_position - 1
                self._word_starts.append((position, events[index].audio_position / 1000))
            index += 1
        return 0


def _spell_numbers(words: list[str]) -> tuple[str, list[int]]:
    """Join words into the text to speak, and tell where each of them starts in it."""
    starts: list[int] = []
    spoken = ""
    for word in words:
        spoken += " " if spoken else ""
        starts.append(len(spoken))
        spoken += _NUMBER.sub(lambda match: " ".join(match.group()), word)
    return spoken, starts


class EspeakTTSService(TTSService):
    """Pipecat text-to-speech on eSpeak NG, with word timestamps and without a network."""

    def __init__(self, *, voice: EspeakVoice | None = None, **kwargs):
        """Initialize the service.

        Args:
            voice: The loaded voice. Services may share one.
            **kwargs: Passed to ``TTSService``.

        Raises:
            VoiceError: No voice was given and it cannot be loaded.
        """
        super().__init__(
            push_text_frames=False,
            push_start_frame=True,
            push_stop_frames=True,
            settings=TTSSettings(model=None, voice="espeak-ng", language=None),
            **kwargs,
        )
        self._voice = voice or EspeakVoice()
        # A turn's sentences share a context, whose words are timed from its first sample.
        self._timed_context: str | None = None
        self._timed_seconds = 0.0

    def can_generate_metrics(self) -> bool:
        """Tell Pipecat that latency can be measured here."""
        return True

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame | None, None]:
        """Speak a text.

        Args:
            text: What to say.
            context_id: The audio context that it belongs to.

        Yields:
            The audio, after the times of its words have been queued.
        """
        try:
            speech = await asyncio.to_thread(self._voice.say, text)
        except VoiceError as error:
            yield ErrorFrame(error=f"{self}: {error}")
            return
        if context_id != self._timed_context:
            self._timed_context, self._timed_seconds = context_id, 0.0
        offset = self._timed_seconds
        self._timed_seconds += speech.seconds
        await self.add_word_timestamps(
            [(word, offset + at) for word, at in speech.words], context_id
        )
        samples = np.frombuffer(speech.audio, dtype=np.int16)
        if speech.sample_rate != self.sample_rate:
            samples = soxr.resample(samples, speech.sample_rate, self.sample_rate)
        yield TTSAudioRawFrame(samples.tobytes(), self.sample_rate, 1, context_id=context_id)
