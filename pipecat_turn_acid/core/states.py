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
        STAGED: At least one awaited call has no result yet. Not visible.
        COMPLETE: Every awaited call has its result. Not visible yet, never dropped.
        OUTLIVING: What the model waits for is in the history, or there is no such
            call; the calls that may outlive the turn still run.
        COMMITTED: Every call has its result in the history.
        ROLLED_BACK: Dropped. What still arrives for it is fenced.
        FENCED: Asked for by a turn that was already over; never staged.
    """

    STAGED = "staged"
    COMPLETE = "complete"
    OUTLIVING = "outliving"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    FENCED = "fenced"


class RoundMove(StrEnum):
    """What can happen to a tool round.

    Parameters:
        RESULT: An awaited call is answered, and others still are not.
        LAST_RESULT: The last unanswered awaited call is answered.
        SPLICE: The awaited calls become history, and others still run.
        COMMIT: The last call has its result in the history.
        LET_OUTLIVE: No call is awaited after all.
        ROLLBACK: The round is dropped.
    """

    RESULT = "stage a result"
    LAST_RESULT = "stage the last result"
    SPLICE = "commit what is awaited"
    COMMIT = "commit"
    LET_OUTLIVE = "let outlive"
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
        RoundMove.LET_OUTLIVE: RoundState.OUTLIVING,
        RoundMove.ROLLBACK: RoundState.ROLLED_BACK,
    },
    # There is no rollback: a complete round is never lost.
    RoundState.COMPLETE: {
        RoundMove.SPLICE: RoundState.OUTLIVING,
        RoundMove.COMMIT: RoundState.COMMITTED,
    },
    # There is no rollback: a barge-in does not cancel what outlives the turn.
    RoundState.OUTLIVING: {RoundMove.COMMIT: RoundState.COMMITTED},
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
