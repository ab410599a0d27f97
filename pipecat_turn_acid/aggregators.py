# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The pair of aggregators, and its two halves."""

from typing import cast

from loguru import logger
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMAssistantAggregatorParams,
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)

from pipecat_turn_acid.assistant_aggregator import TransactionalLLMAssistantAggregator
from pipecat_turn_acid.context import TransactionalLLMContext
from pipecat_turn_acid.policy import TurnPolicy
from pipecat_turn_acid.turn_aware import adopt
from pipecat_turn_acid.user_aggregator import TransactionalLLMUserAggregator

__all__ = [
    "TransactionalLLMAssistantAggregator",
    "TransactionalLLMContextAggregatorPair",
    "TransactionalLLMUserAggregator",
]


class TransactionalLLMContextAggregatorPair(LLMContextAggregatorPair):
    """An `LLMContextAggregatorPair` of transactional aggregators.

    Use it in place of the stock pair, with a `TransactionalLLMContext`. On a
    plain `LLMContext` it warns once and works as stock.
    """

    def __init__(
        self,
        context: LLMContext,
        *,
        user_params: LLMUserAggregatorParams | None = None,
        assistant_params: LLMAssistantAggregatorParams | None = None,
        add_tool_change_messages: bool | None = None,
        realtime_service_mode: bool | None = None,
        policy: TurnPolicy | None = None,
    ):
        """Initialize the pair.

        Args:
            context: The conversation.
            user_params: As in `LLMContextAggregatorPair`.
            assistant_params: As in `LLMContextAggregatorPair`.
            add_tool_change_messages: As in `LLMContextAggregatorPair`.
            realtime_service_mode: As in `LLMContextAggregatorPair`.
            policy: How interrupted turns are remembered; see `TurnPolicy`.

        Raises:
            ValueError: The policy contradicts the context's, or cannot have an
                effect.
        """
        if policy is not None and realtime_service_mode:
            raise ValueError(
                "realtime_service_mode=True and a TurnPolicy: a realtime service keeps its own "
                "turns; drop one of the two"
            )
        user_params = user_params or LLMUserAggregatorParams()
        assistant_params = assistant_params or LLMAssistantAggregatorParams()
        if add_tool_change_messages is not None:
            user_params.add_tool_change_messages = add_tool_change_messages
            assistant_params.add_tool_change_messages = add_tool_change_messages
        adopt(context, policy)
        if not isinstance(context, TransactionalLLMContext):
            logger.warning(
                f"{type(self).__name__}: works as stock, because its context is a plain "
                f"{type(context).__name__}; pass a TransactionalLLMContext"
            )
        self._user = TransactionalLLMUserAggregator(
            context, params=user_params, _realtime_service_mode=realtime_service_mode
        )
        self._assistant = TransactionalLLMAssistantAggregator(
            context,
            params=assistant_params,
            _realtime_service_mode=realtime_service_mode,
            _paired_user_aggregator=self._user,
        )

    def user(self) -> TransactionalLLMUserAggregator:
        """Get the user aggregator."""
        return cast(TransactionalLLMUserAggregator, self._user)

    def assistant(self) -> TransactionalLLMAssistantAggregator:
        """Get the assistant aggregator."""
        return cast(TransactionalLLMAssistantAggregator, self._assistant)
