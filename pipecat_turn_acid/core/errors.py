# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What can go wrong, split by who has to act."""


class TurnAcidError(Exception):
    """Root of everything this package raises."""


class UsageError(TurnAcidError):
    """The caller has a bug. Nothing was changed."""


class IllegalTransitionError(UsageError):
    """A turn or a round was asked for a move that its state does not allow."""


class UnknownToolCallError(UsageError):
    """A result names a tool call that was never staged.

    Parameters:
        tool_call_id: The id that nobody staged.
    """

    def __init__(self, message: str, *, tool_call_id: str):
        """Name the id that nobody staged.

        Args:
            message: What was attempted, and the way out.
            tool_call_id: The id that nobody staged.
        """
        super().__init__(message)
        self.tool_call_id = tool_call_id


class DuplicateToolCallError(UsageError):
    """Two calls that are staged at the same time share an id.

    Parameters:
        tool_call_id: The id that is used twice.
    """

    def __init__(self, message: str, *, tool_call_id: str):
        """Name the id that is used twice.

        Args:
            message: What was attempted, and the way out.
            tool_call_id: The id that is used twice.
        """
        super().__init__(message)
        self.tool_call_id = tool_call_id


class InvalidMessageError(UsageError, TypeError):
    """A message, a tool call or a result does not have the shape it must have."""


class StaleEpochError(TurnAcidError):
    """The turn that this write belongs to is over. Nothing was changed.

    Lateness is normal: whoever receives late work catches this, once, and
    reports it.

    Parameters:
        epoch: The turn that the write named.
    """

    def __init__(self, message: str, *, epoch: int):
        """Name the turn that is over.

        Args:
            message: What arrived too late.
            epoch: The turn that the write named.
        """
        super().__init__(message)
        self.epoch = epoch
