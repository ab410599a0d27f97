# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A telephone line: recordings go in at the pace of speech, the bot's voice comes out at it.

To the bot it is a transport like any other. Both directions are recorded, so that the call can be
listened to afterwards.
"""

import asyncio
import wave
from pathlib import Path
from typing import Final

import numpy as np
from pipecat.frames.frames import (
    CancelFrame,
    EndFrame,
    InputAudioRawFrame,
    OutputAudioRawFrame,
    StartFrame,
)
from pipecat.transports.base_input import BaseInputTransport
from pipecat.transports.base_output import BaseOutputTransport
from pipecat.transports.base_transport import BaseTransport, TransportParams

SAMPLE_RATE: Final = 16_000
_CHUNK_SECS: Final = 0.02


class RecordingError(RuntimeError):
    """A recording is missing or has another format; the message says which."""


def read_recording(path: Path) -> bytes:
    """Read what a caller says: 16 kHz, mono, 16 bit.

    Args:
        path: A WAV file.

    Returns:
        The samples.

    Raises:
        RecordingError: There is no such file, or it has another format.
    """
    try:
        with wave.open(str(path), "rb") as file:
            found = file.getframerate(), file.getnchannels(), file.getsampwidth()
            samples = file.readframes(file.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        raise RecordingError(f"cannot read the recording {path.name}: {error}") from error
    if found != (SAMPLE_RATE, 1, 2):
        raise RecordingError(
            f"the recording {path.name} has {found[0]} Hz, {found[1]} channel(s) and "
            f"{8 * found[2]} bit, not {SAMPLE_RATE} Hz, 1 channel and 16 bit"
        )
    return samples


class Line(BaseTransport):
    """A call between recordings and a bot."""

    def __init__(self) -> None:
        """Create both ends of a line that nobody speaks on."""
        super().__init__()
        params = TransportParams(
            audio_in_enabled=True,
            audio_in_sample_rate=SAMPLE_RATE,
            audio_out_enabled=True,
            audio_out_sample_rate=SAMPLE_RATE,
            audio_out_10ms_chunks=2,
            audio_out_end_silence_secs=0,
        )
        self._caller = _Caller(params)
        self._earpiece = _Earpiece(params)

    def input(self) -> BaseInputTransport:
        """Return the end that the caller speaks into."""
        return self._caller

    def output(self) -> BaseOutputTransport:
        """Return the end that the caller listens to."""
        return self._earpiece

    async def play(self, samples: bytes) -> None:
        """Let the caller say something, and return when it has been said.

        Args:
            samples: A recording, as from :func:`read_recording`.
        """
        await self._caller.say(samples)

    def save(self, path: Path) -> None:
        """Write the call so far as a WAV file: the caller on the left, the bot on the right.

        Args:
            path: Where to write.
        """
        left = np.frombuffer(bytes(self._caller.recorded), dtype=np.int16)
        right = np.zeros_like(left)
        for at, audio in self._earpiece.played:
            start = round((at - self._caller.started_at) * SAMPLE_RATE)
            part = np.frombuffer(audio, dtype=np.int16)[max(0, -start) :]
            part = part[: max(0, len(right) - max(0, start))]
            right[max(0, start) : max(0, start) + len(part)] = part
        with wave.open(str(path), "wb") as file:
            file.setnchannels(2)
            file.setsampwidth(2)
            file.setframerate(SAMPLE_RATE)
            file.writeframes(np.column_stack([left, right]).tobytes())


class _Caller(BaseInputTransport):
    """Sends what the caller says, and silence while nothing is said, as a microphone does."""

    def __init__(self, params: TransportParams):
        super().__init__(params)
        self.recorded = bytearray()
        self.started_at = 0.0
        self._unsaid = bytearray()
        self._silent = asyncio.Event()
        self._silent.set()
        self._sending: asyncio.Task[None] | None = None

    async def start(self, frame: StartFrame) -> None:
        await super().start(frame)
        await self.set_transport_ready(frame)
        self._sending = self.create_task(self._send())

    async def stop(self, frame: EndFrame) -> None:
        await self._hang_up()
        await super().stop(frame)

    async def cancel(self, frame: CancelFrame) -> None:
        await self._hang_up()
        await super().cancel(frame)

    async def cleanup(self) -> None:
        await super().cleanup()
        await self._hang_up()

    async def say(self, samples: bytes) -> None:
        self._silent.clear()
        self._unsaid += samples
        await self._silent.wait()

    async def _hang_up(self) -> None:
        if self._sending:
            await self.cancel_task(self._sending)
            self._sending = None
        self._silent.set()

    async def _send(self) -> None:
        size = int(_CHUNK_SECS * SAMPLE_RATE) * 2
        loop = asyncio.get_running_loop()
        self.started_at = due = loop.time()
        while True:
            chunk = bytes(self._unsaid[:size])
            del self._unsaid[:size]
            chunk += bytes(size - len(chunk))
            self.recorded += chunk
            await self.push_audio_frame(InputAudioRawFrame(chunk, SAMPLE_RATE, 1))
            if not self._unsaid:
                self._silent.set()
            due += _CHUNK_SECS
            await asyncio.sleep(max(0.0, due - loop.time()))


class _Earpiece(BaseOutputTransport):
    """Takes as long to play audio as the audio lasts."""

    def __init__(self, params: TransportParams):
        super().__init__(params)
        self.played: list[tuple[float, bytes]] = []
        self._free_at = 0.0

    async def start(self, frame: StartFrame) -> None:
        await super().start(frame)
        await self.set_transport_ready(frame)

    async def write_audio_frame(self, frame: OutputAudioRawFrame) -> bool:
        loop = asyncio.get_running_loop()
        begins = max(loop.time(), self._free_at)
        self.played.append((begins, frame.audio))
        self._free_at = begins + len(frame.audio) / (2 * frame.sample_rate)
        await asyncio.sleep(self._free_at - loop.time())
        return True
