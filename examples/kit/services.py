# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Which services a bot talks to, by environment.

OPENAI_API_KEY   without it, a scripted model runs here
STT, TTS         local (the default) or openai; a provider of your own is one line below
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from pipecat.services.stt_service import STTService
from pipecat.services.tts_service import TTSService

_ServiceT = TypeVar("_ServiceT")


@dataclass(frozen=True)
class Endpoint:
    """Where the OpenAI services are.

    Parameters:
        api_key: The key.
        base_url: Where, or None for OpenAI itself.
    """

    api_key: str
    base_url: str | None


class SettingError(ValueError):
    """The environment asks for something that does not exist; the message says what does."""


@asynccontextmanager
async def endpoint() -> AsyncIterator[Endpoint]:
    """OpenAI, or without a key a stand-in that runs for the duration of the block."""
    if api_key := os.environ.get("OPENAI_API_KEY"):
        yield Endpoint(api_key, os.environ.get("OPENAI_BASE_URL"))
        return
    from examples.kit import model

    async with model.server().serve() as base_url:
        yield Endpoint("scripted", base_url)


def check() -> None:
    """Find out whether what the environment asks for exists.

    Raises:
        SettingError: It does not.
    """
    _chosen("STT", _STT)
    _chosen("TTS", _TTS)


def ears(at: Endpoint) -> STTService:
    """Create the speech recognition that ``STT`` names.

    Args:
        at: Where the OpenAI services are.

    Raises:
        SettingError: There is no such thing.
    """
    return _chosen("STT", _STT)(at)


def voice(at: Endpoint) -> TTSService:
    """Create the voice that ``TTS`` names.

    Args:
        at: Where the OpenAI services are.

    Raises:
        SettingError: There is no such thing.
    """
    return _chosen("TTS", _TTS)(at)


def _local_stt(at: Endpoint) -> STTService:
    from examples.demo.ears import local_stt

    return local_stt()


def _openai_stt(at: Endpoint) -> STTService:
    from pipecat.services.openai.stt import OpenAISTTService

    return OpenAISTTService(api_key=at.api_key, base_url=at.base_url)


def _local_tts(at: Endpoint) -> TTSService:
    from examples.demo.voice import EspeakTTSService

    return EspeakTTSService()


def _openai_tts(at: Endpoint) -> TTSService:
    from pipecat.services.openai.tts import OpenAITTSService

    return OpenAITTSService(api_key=at.api_key, base_url=at.base_url)


_STT: Final[dict[str, Callable[[Endpoint], STTService]]] = {
    "local": _local_stt,
    "openai": _openai_stt,
}
_TTS: Final[dict[str, Callable[[Endpoint], TTSService]]] = {
    "local": _local_tts,
    "openai": _openai_tts,
}


def _chosen(
    variable: str, services: dict[str, Callable[[Endpoint], _ServiceT]]
) -> Callable[[Endpoint], _ServiceT]:
    name = os.environ.get(variable) or "local"
    if name not in services:
        raise SettingError(f"{variable}={name}: choose one of {', '.join(services)}")
    return services[name]
