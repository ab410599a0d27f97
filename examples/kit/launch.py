# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Finds out before a bot starts what it lacks, and says what to do about it."""

import argparse
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from examples.demo import needs
from examples.kit import services

_KEYS: Final = {
    "DAILY_API_KEY": "the key of a Daily account, from https://dashboard.daily.co/developers",
    "OPENAI_API_KEY": "the key for the model, from https://platform.openai.com/api-keys",
}
_INSTEAD: Final = (
    "Without them the same bot runs in your browser:\n  python -m examples.daily_bot -t webrtc"
)


def asks_for_daily(arguments: Sequence[str]) -> bool:
    """Whether the bot is to join a Daily room.

    Args:
        arguments: The command line of Pipecat's runner.
    """
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("-t", "--transport")
    parser.add_argument("-d", "--direct", action="store_true")
    asked, _ = parser.parse_known_args(arguments)
    return asked.direct or asked.transport == "daily"


def missing(arguments: Sequence[str]) -> str:
    """Say what is missing for the bot to run as it is asked to.

    Args:
        arguments: The command line of Pipecat's runner.

    Returns:
        What to tell the user; empty if nothing is missing.
    """
    is_daily = asks_for_daily(arguments)
    lines: list[str] = []
    if is_daily:
        unset = [name for name in _KEYS if not os.environ.get(name)]
        lines += [f"{name} is not set: {_KEYS[name]}." for name in unset]
        if unset:
            lines.append(_INSTEAD)
    transport = "daily" if is_daily else "webrtc"
    module = {"daily": "daily", "webrtc": "aiortc"}[transport]
    if find_spec(module) is None:
        lines.append(
            f"Pipecat's {transport} transport is not installed. "
            f"Run `make setup`, or: pip install 'pipecat-ai[{transport},runner]'"
        )
    try:
        services.check()
    except services.SettingError as error:
        lines.append(str(error))
    if _uses_local_audio():
        lines += [f"{p.what}. {p.remedy}" for p in needs.missing_audio(Path(), [])]
    return "\n".join(lines)


def _uses_local_audio() -> bool:
    asked = {os.environ.get(name) or "local" for name in ("STT", "TTS")}
    return "local" in asked or not os.environ.get("OPENAI_API_KEY")
