# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What a transactional context tells those who listen.

Events name ids and sizes, never texts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pipecat_turn_acid.core import Orphan, ToolRound

StaleKind = Literal["calls", "result", "run", "text", "interruption", "transition", "state"]


@dataclass(frozen=True, slots=True)
class StaleWork:
    """Work of a turn that was over when it arrived.

    Parameters:
        kind: What arrived.
        epoch: The turn on whose behalf it was done.
        tool_call_id: Which call, where it is about one.
        reason: Why it was fenced, in a few words.
    """

    kind: StaleKind
    epoch: int
    tool_call_id: str | None = None
    reason: str = "the turn is over"


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A turn has begun.

    Parameters:
        epoch: Its number.
    """

    epoch: int


@dataclass(frozen=True, slots=True)
class TurnEnding:
    """The user barged in, and the turn's rounds are about to be settled.

    Parameters:
        epoch: The turn.
    """

    epoch: int


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """A turn is over, and its rounds are settled.

    Parameters:
        epoch: The turn.
    """

    epoch: int


@dataclass(frozen=True, slots=True)
class RoundStaged:
    """A round was opened.

    Parameters:
        round: The round.
    """

    round: ToolRound


@dataclass(frozen=True, slots=True)
class RoundSpliced:
    """What the model waits for is in the history; other calls of the round still run.

    Parameters:
        round: The round.
    """

    round: ToolRound


@dataclass(frozen=True, slots=True)
class RoundCommitted:
    """Every call of a round has its result in the history.

    Parameters:
        round: The round.
    """

    round: ToolRound


@dataclass(frozen=True, slots=True)
class RoundRolledBack:
    """A round was dropped.

    Parameters:
        round: The round.
    """

    round: ToolRound


@dataclass(frozen=True, slots=True)
class StaleFenced:
    """Late work was turned away.

    Parameters:
        what: The work.
    """

    what: StaleWork


@dataclass(frozen=True, slots=True)
class HistoryRepaired:
    """A request was sent without calls or results that had come apart.

    Parameters:
        orphans: What was repaired in the request. The history is unchanged.
    """

    orphans: tuple[Orphan, ...]


@dataclass(frozen=True, slots=True)
class HookFailed:
    """A callback of ``on_round_committed`` raised.

    Parameters:
        round: The round it was called for, which stays committed.
        error: What it raised.
    """

    round: ToolRound
    error: Exception


TurnEvent: TypeAlias = (
    TurnStarted
    | TurnEnding
    | TurnEnded
    | RoundStaged
    | RoundSpliced
    | RoundCommitted
    | RoundRolledBack
    | StaleFenced
    | HistoryRepaired
    | HookFailed
)

TurnListener: TypeAlias = Callable[[TurnEvent], None]
