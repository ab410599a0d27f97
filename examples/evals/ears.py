# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What Pipecat's evals hear the bot with."""

from collections.abc import Mapping
from typing import Any

from pipecat.services.stt_service import STTService

from examples.demo.ears import local_stt


def transcriber(config: Mapping[str, Any]) -> STTService:
    """Create the speech recognition that a scenario's ``transcription.factory`` names.

    Args:
        config: The scenario's block; nothing in it matters here.
    """
    return local_stt()
