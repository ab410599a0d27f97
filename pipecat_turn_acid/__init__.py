# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Pipecat drop-ins that make each user turn a transaction.

Everything here is loaded when it is first used, so that a bot pays for nothing
that it does not need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipecat_turn_acid.aggregators import (
        TransactionalLLMAssistantAggregator,
        TransactionalLLMContextAggregatorPair,
        TransactionalLLMUserAggregator,
    )
    from pipecat_turn_acid.context import FenceOutcome, TransactionalLLMContext
    from pipecat_turn_acid.core import RoundState, ToolRound
    from pipecat_turn_acid.flows import TransactionalFlowManager
    from pipecat_turn_acid.journal import TurnJournal
    from pipecat_turn_acid.llm import TransactionalLLMMixin, transactional
    from pipecat_turn_acid.openai import TransactionalOpenAILLMService
    from pipecat_turn_acid.policy import TurnPolicy, side_effects

_HOMES = {
    "FenceOutcome": "context",
    "RoundState": "core",
    "ToolRound": "core",
    "TransactionalFlowManager": "flows",
    "TransactionalLLMAssistantAggregator": "aggregators",
    "TransactionalLLMContext": "context",
    "TransactionalLLMContextAggregatorPair": "aggregators",
    "TransactionalLLMMixin": "llm",
    "TransactionalLLMUserAggregator": "aggregators",
    "TransactionalOpenAILLMService": "openai",
    "TurnJournal": "journal",
    "TurnPolicy": "policy",
    "side_effects": "policy",
    "transactional": "llm",
}

__all__ = [
    "FenceOutcome",
    "RoundState",
    "ToolRound",
    "TransactionalFlowManager",
    "TransactionalLLMAssistantAggregator",
    "TransactionalLLMContext",
    "TransactionalLLMContextAggregatorPair",
    "TransactionalLLMMixin",
    "TransactionalLLMUserAggregator",
    "TransactionalOpenAILLMService",
    "TurnJournal",
    "TurnPolicy",
    "side_effects",
    "transactional",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
