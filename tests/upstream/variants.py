# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Drop-ins that are bound for a purpose: under another policy, or broken on purpose."""

from typing import Any

from pipecat_turn_acid import (
    TransactionalLLMAssistantAggregator,
    TransactionalLLMContext,
    TurnPolicy,
)


class HeardContext(TransactionalLLMContext):
    """A context that keeps what was heard of an interrupted answer, as stock Pipecat does."""

    def __init__(self, *args: Any, policy: TurnPolicy | None = None, **kwargs: Any):
        """Initialize the context with that policy, unless there is another."""
        policy = policy or TurnPolicy(interrupted_text="heard")
        super().__init__(*args, policy=policy, **kwargs)


class ForgetfulAssistantAggregator(TransactionalLLMAssistantAggregator):
    """An aggregator that lets tool results pass by without a word. A comparison must notice."""

    async def _handle_function_call_result(self, frame):
        self._function_calls_in_progress.pop(frame.tool_call_id, None)
