# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What the example bots share: the scripted model's endpoints, the shop, and the settings."""

import asyncio
from collections.abc import Awaitable, Callable

import numpy as np
import pytest
from openai import AsyncOpenAI, BadRequestError

from examples.demo import line
from examples.kit import launch, model, services
from examples.kit.shop import Shop
from pipecat_turn_acid.testing import virtual_time
from tests.examples.devtools import SETTINGS, SPEECH


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)


def with_client(ask: Callable[[AsyncOpenAI], Awaitable[object]]) -> object:
    async def main() -> object:
        async with (
            model.server().serve() as base_url,
            AsyncOpenAI(api_key="scripted", base_url=base_url, max_retries=0) as client,
        ):
            return await ask(client)

    return asyncio.run(main())


def test_what_is_spoken_here_is_speech():
    """The speech endpoint gives samples at the rate at which OpenAI's does."""

    async def ask(client: AsyncOpenAI) -> bytes:
        speech = await client.audio.speech.create(
            input="Order 4472 arrives today.", model="tts-1", voice="alloy", response_format="pcm"
        )
        return await speech.aread()

    samples = np.frombuffer(with_client(ask), dtype=np.int16)  # pyright: ignore

    assert 1.5 < len(samples) / model.SPEECH_RATE < 5
    assert np.abs(samples).max() > 3000


@pytest.mark.parametrize("rate", [line.SAMPLE_RATE, 24_000])
def test_what_is_said_is_understood_here(rate: int):
    """The transcription endpoint hears a recording, whatever its rate."""
    import soxr

    recording = np.frombuffer(line.read_recording(SPEECH / "order-ask.wav"), dtype=np.int16)
    samples = soxr.resample(recording, line.SAMPLE_RATE, rate).tobytes()

    async def ask(client: AsyncOpenAI) -> str:
        heard = await client.audio.transcriptions.create(
            file=("audio.wav", model.wav(samples, rate), "audio/wav"), model="whisper-1"
        )
        return heard.text

    assert model.order_in(str(with_client(ask))) == "4471"


def test_what_cannot_be_spoken_or_heard_is_refused():
    """A client gets the status that OpenAI would give it, and a reason."""

    async def noise(client: AsyncOpenAI) -> object:
        return await client.audio.transcriptions.create(
            file=("audio.wav", b"noise", "audio/wav"), model="whisper-1"
        )

    async def mp3(client: AsyncOpenAI) -> object:
        return await client.audio.speech.create(input="Hello.", model="tts-1", voice="alloy")

    for ask, reason in ((noise, "corrupted or unsupported"), (mp3, "not mp3")):
        with pytest.raises(BadRequestError, match=reason):
            with_client(ask)


def test_a_booking_that_nobody_waits_for_is_made_all_the_same():
    """So the record of a cut call is true when it says that it may have completed."""

    async def main() -> str | None:
        shop = Shop()
        booking = asyncio.create_task(shop.book("three o'clock"))
        await asyncio.sleep(0.1)
        booking.cancel()
        return shop.booked

    assert virtual_time.run(main) == "three o'clock"


@pytest.mark.parametrize(
    ("said", "order", "time"),
    [
        ("What is the status of order 4471?", "4471", ""),
        ("order 44 71, sorry, I meant order 44-72", "4472", ""),
        ("Please book the demo at 3 o'clock.", "", "three"),
        ("No wait, make it for a clock instead.", "", "four"),
        ("Tell me about refunds.", "", ""),
    ],
)
def test_the_model_understands_what_whisper_hears(said: str, order: str, time: str):
    """It goes by what was recognised, not by what was read out."""
    assert (model.order_in(said), model.time_in(said)) == (order, time)


def test_a_service_that_does_not_exist_is_named_before_the_bot_starts(
    monkeypatch: pytest.MonkeyPatch,
):
    """Not when the first caller is on the line."""
    monkeypatch.setenv("STT", "loca")

    with pytest.raises(services.SettingError, match="STT=loca: choose one of local, openai"):
        services.check()
    assert "STT=loca: choose one of local, openai" in launch.missing(["-t", "webrtc"])


def test_nothing_is_missing_after_the_set_up():
    """What the development extra installs is all that the browser bot needs."""
    assert launch.missing(["-t", "webrtc"]) == ""
    assert launch.missing([]) == ""
