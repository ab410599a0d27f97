# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What the two halves of a conversation have in common."""

from pipecat.frames.frames import LLMContextFrame
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregator

from pipecat_turn_acid import _compat
from pipecat_turn_acid.context import TransactionalLLMContext
from pipecat_turn_acid.policy import TurnPolicy
from pipecat_turn_acid.stamps import OWED_KEY, stamp

_compat.require(LLMContextAggregator)


class TurnAwareAggregator(LLMContextAggregator):
    """An aggregator that knows the turns of its context, if they are kept there.

    Mixed in before a stock aggregator.
    """

    _realtime_service_mode: bool | None
    _paying = False
    """Whether the run that is being asked for is one that is owed."""

    @property
    def _turns(self) -> TransactionalLLMContext | None:
        """The context, unless it is a plain one or a realtime service keeps its own turns."""
        if isinstance(self._context, TransactionalLLMContext) and not self._realtime_service_mode:
            return self._context
        return None

    def _get_context_frame(self) -> LLMContextFrame:
        frame = super()._get_context_frame()
        if turns := self._turns:
            stamp(frame, turns.epoch)
            if self._paying:
                frame.metadata[OWED_KEY] = True
        return frame


def adopt(context: LLMContext, policy: TurnPolicy | None) -> None:
    """Give a context its policy.

    Args:
        context: The conversation.
        policy: How interrupted turns are remembered; None leaves it open.

    Raises:
        ValueError: The policy contradicts the context's, or cannot have an effect.
    """
    if isinstance(context, TransactionalLLMContext):
        context.adopt_policy(policy)
    elif policy is not None:
        raise ValueError(
            f"a TurnPolicy has no effect on a plain {type(context).__name__}: pass a "
            "TransactionalLLMContext, or drop the policy"
        )
