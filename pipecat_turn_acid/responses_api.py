# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What is particular to services that stream OpenAI's Responses.

Pipecat calls a tool without arguments when those that the model sent are not JSON.
"""

import dataclasses
from typing import TYPE_CHECKING

from pipecat.frames.frames import FunctionCallFromLLM
from pipecat.processors.aggregators.llm_context import LLMContext

from pipecat_turn_acid.llm import TransactionalLLMMixin, acts_for_a_turn, read_arguments

if TYPE_CHECKING:
    from pipecat.services.openai.responses.llm import OpenAIResponsesHttpLLMService

    class _Base(TransactionalLLMMixin, OpenAIResponsesHttpLLMService): ...
else:
    _Base = TransactionalLLMMixin


class ResponsesMixin(_Base):
    """A `TransactionalLLMMixin` that also answers calls whose arguments are not JSON."""

    def _process_function_calls(
        self, context: LLMContext, function_calls: dict[str, dict[str, str]]
    ) -> list[FunctionCallFromLLM]:
        calls = super()._process_function_calls(context, function_calls)
        if not acts_for_a_turn():
            return calls
        return [
            dataclasses.replace(call, arguments=read_arguments(sent["arguments"]))
            for call, sent in zip(calls, function_calls.values(), strict=True)
        ]
