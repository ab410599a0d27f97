# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What is particular to services that stream Anthropic's messages.

Pipecat runs one call of a response, the last, and gives the whole response up when that call's
arguments are not JSON. Reading the same stream tells which calls the model made.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipecat.frames.frames import FunctionCallFromLLM
from pipecat.processors.aggregators.llm_context import LLMContext

from pipecat_turn_acid.llm import (
    TransactionalLLMMixin,
    UnreadableArguments,
    acts_for_a_turn,
    conversation_acted_for,
    read_arguments,
)

if TYPE_CHECKING:
    from pipecat.services.anthropic.llm import AnthropicLLMService

    class _Base(TransactionalLLMMixin, AnthropicLLMService): ...
else:
    _Base = TransactionalLLMMixin


@dataclass
class _ToolUse:
    """A call as it has streamed in so far."""

    tool_call_id: str
    name: str
    arguments: str = ""
    is_complete: bool = False

    def read(self, context: LLMContext) -> FunctionCallFromLLM:
        return FunctionCallFromLLM(
            context=context,
            tool_call_id=self.tool_call_id,
            function_name=self.name,
            arguments=read_arguments(self.arguments) if self.is_complete else UnreadableArguments(),
        )


class _WatchedStream:
    """A stream of events that takes note of the calls in it."""

    def __init__(self, stream: Any):
        self.calls: dict[int, _ToolUse] = {}
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for event in self._stream:
            if not self._takes(event):
                yield event

    async def close(self) -> None:
        """Close the stream."""
        await self._stream.close()

    def _takes(self, event: Any) -> bool:
        """Note what an event says of a call, and say whether nobody else must read it."""
        if event.type == "content_block_start" and event.content_block.type == "tool_use":
            block = event.content_block
            self.calls[event.index] = _ToolUse(block.id, block.name)
        elif event.type == "content_block_stop" and event.index in self.calls:
            self.calls[event.index].is_complete = True
        elif event.type == "content_block_delta" and event.index in self.calls:
            self.calls[event.index].arguments += getattr(event.delta, "partial_json", "")
            # Stock would fail on what is not JSON, and without it reads no arguments at all.
            return True
        return False


class MessagesMixin(_Base):
    """A `TransactionalLLMMixin` that runs all the calls of one of Anthropic's responses."""

    _watched: _WatchedStream | None = None

    async def _create_message_stream(self, api_call: Any, params: dict[str, Any]) -> Any:
        self._watched = None
        stream = await super()._create_message_stream(api_call, params)
        if not acts_for_a_turn():
            return stream
        self._watched = _WatchedStream(stream)
        return self._watched

    async def run_function_calls(self, function_calls: Sequence[FunctionCallFromLLM]):
        """Stage a response's calls as one round, and run them.

        Args:
            function_calls: What stock has read of them.
        """
        watched, self._watched = self._watched, None
        context = conversation_acted_for()
        if watched and context:
            function_calls = [call.read(context) for call in watched.calls.values()]
        await super().run_function_calls(function_calls)
