# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Every legal move of a turn and of a tool round.

These two tables are the rules. What is missing from them is illegal, and the
state diagram in ``docs/`` is generated from them.
"""

from enum import StrEnum
from typing import Final, TypeVar

from pipecat_turn_acid.core.errors import IllegalTransitionError


class TurnState(StrEnum):
    """Whether the current turn may still write.

    Parameters:
        LIVE: The turn may stage, commit and run.
        OVER: The user has barged in; the next turn has not begun.
    """

    LIVE = "live"
    OVER = "over"


class TurnMove(StrEnum):
    """What can happen to the current turn.

    Parameters:
        BEGIN: A new turn takes over.
        END: The user barged in.
    """

    BEGIN = "begin"
    END = "end"


class RoundState(StrEnum):
    """Where a tool round stands.

    Parameters:
        STAGED: At least one call has no result yet. Not visible.
        COMPLETE: Every call has its result. Not visible yet, never dropped.
        COMMITTED: Part of the history, whole.
        ROLLED_BACK: Dropped. What still arrives for it is fenced.
        FENCED: Asked for by a turn that was already over; never staged.
    """

    STAGED = "staged"
    COMPLETE = "complete"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    FENCED = "fenced"


class RoundMove(StrEnum):
    """What can happen to a tool round.

    Parameters:
        RESULT: A call is answered, and others still are not.
        LAST_RESULT: The last unanswered call is answered.
        COMMIT: The round is spliced into the history.
        ROLLBACK: The round is dropped.
    """

    RESULT = "stage a result"
    LAST_RESULT = "stage the last result"
    COMMIT = "commit"
    ROLLBACK = "roll back"


TURN_TRANSITIONS: Final[dict[TurnState, dict[TurnMove, TurnState]]] = {
    TurnState.LIVE: {TurnMove.BEGIN: TurnState.LIVE, TurnMove.END: TurnState.OVER},
    # An interruption arrives as several copies; each may ask again.
    TurnState.OVER: {TurnMove.BEGIN: TurnState.LIVE, TurnMove.END: TurnState.OVER},
}

ROUND_TRANSITIONS: Final[dict[RoundState, dict[RoundMove, RoundState]]] = {
    RoundState.STAGED: {
        RoundMove.RESULT: RoundState.STAGED,
        RoundMove.LAST_RESULT: RoundState.COMPLETE,
        RoundMove.ROLLBACK: RoundState.ROLLED_BACK,
    },
    # There is no rollback: a complete round is never lost.
    RoundState.COMPLETE: {RoundMove.COMMIT: RoundState.COMMITTED},
    RoundState.COMMITTED: {},
    # An interruption and a shutdown may both ask.
    RoundState.ROLLED_BACK: {RoundMove.ROLLBACK: RoundState.ROLLED_BACK},
    RoundState.FENCED: {RoundMove.ROLLBACK: RoundState.FENCED},
}

StateT = TypeVar("StateT", TurnState, RoundState)
MoveT = TypeVar("MoveT", TurnMove, RoundMove)


def next_state(
    table: dict[StateT, dict[MoveT, StateT]], state: StateT, move: MoveT, subject: str
) -> StateT:
    """Look a move up in its table.

    Args:
        table: The table that holds the subject's legal moves.
        state: Where the subject stands.
        move: What is asked of it.
        subject: How an error message names it, such as ``"round 3 of turn 2"``.

    Returns:
        The state after the move.

    Raises:
        IllegalTransitionError: The table has no such move.
    """
    try:
        return table[state][move]
    except KeyError:
        raise IllegalTransitionError(f"can't {move}: {subject} is {state}") from None
