# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The rules of a turn, without IO: rounds, epochs, legal moves, message order.

Nothing in here awaits, logs, reads a clock or knows Pipecat. A function returns
a fact or raises; the shells around it act.
"""

from pipecat_turn_acid.core.errors import (
    DuplicateToolCallError,
    IllegalTransitionError,
    InvalidMessageError,
    StaleEpochError,
    TurnAcidError,
    UnknownToolCallError,
    UsageError,
)
from pipecat_turn_acid.core.messages import (
    Orphan,
    OrphanKind,
    ToolCall,
    encode_content,
    repair,
    require_messages,
)
from pipecat_turn_acid.core.states import (
    ROUND_TRANSITIONS,
    TURN_TRANSITIONS,
    RoundMove,
    RoundState,
    TurnMove,
    TurnState,
)
from pipecat_turn_acid.core.turns import ToolRound, TurnEnd, Turns

__all__ = [
    "ROUND_TRANSITIONS",
    "TURN_TRANSITIONS",
    "DuplicateToolCallError",
    "IllegalTransitionError",
    "InvalidMessageError",
    "Orphan",
    "OrphanKind",
    "RoundMove",
    "RoundState",
    "StaleEpochError",
    "ToolCall",
    "ToolRound",
    "TurnAcidError",
    "TurnEnd",
    "TurnMove",
    "TurnState",
    "Turns",
    "UnknownToolCallError",
    "UsageError",
    "encode_content",
    "repair",
    "require_messages",
]
