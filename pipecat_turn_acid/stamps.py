# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Which turn a frame belongs to, carried in the frame's public metadata."""

from typing import Final

from pipecat.frames.frames import Frame

EPOCH_KEY: Final = "turn_epoch"
OWED_KEY: Final = "turn_owed"
AFTER_WORDS_KEY: Final = "turn_after_words"
ADMITTED_KEY: Final = "turn_admitted"
CONVERSATION_KEY: Final = "turn_conversation"
"""In a speculation: the context that its own is a copy of."""


def stamp(frame: Frame, epoch: int) -> None:
    """Write down on whose behalf a frame was made, unless it already says so.

    Args:
        frame: The frame.
        epoch: The turn's number.
    """
    frame.metadata.setdefault(EPOCH_KEY, epoch)


def epoch_of(frame: Frame) -> int | None:
    """The turn that a frame names; None when it names none.

    A context frame names the turn that asked for the run, an interruption the
    turn that it ends.

    Args:
        frame: Any frame.
    """
    return frame.metadata.get(EPOCH_KEY)
