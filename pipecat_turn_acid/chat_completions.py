# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What is particular to services that stream OpenAI's chat completions.

Pipecat leaves out a call whose arguments are not JSON, and with it the answer
that the model should get. Reading the same stream tells which calls those are.
"""

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from pipecat.frames.frames import FunctionCallFromLLM
from pipecat.processors.aggregators.llm_context import LLMContext

from pipecat_turn_acid.llm import (
    TransactionalLLMMixin,
    UnreadableArguments,
    acts_for_a_turn,
    read_arguments,
)

if TYPE_CHECKING:
    from pipecat.services.openai.base_llm import BaseOpenAILLMService

    class _Base(TransactionalLLMMixin, BaseOpenAILLMService): ...
else:
    _Base = TransactionalLLMMixin


class _StreamedCall:
    """A call as it has streamed in so far."""

    def __init__(self) -> None:
        self.name = ""
        self.tool_call_id = ""
        self.arguments = ""

    @property
    def is_readable(self) -> bool:
        return not isinstance(read_arguments(self.arguments), UnreadableArguments)


class _WatchedStream:
    """A stream of chunks that takes note of the calls in it."""

    def __init__(self, stream: Any):
        self.calls: list[_StreamedCall] = []
        self._stream = stream
        self._index: int | None = None

    async def __aiter__(self) -> AsyncIterator[Any]:
        chunks = self._stream.__aiter__()
        try:
            async for chunk in chunks:
                self._note(chunk)
                yield chunk
        finally:
            if hasattr(chunks, "aclose"):
                await chunks.aclose()

    async def close(self) -> None:
        """Close the stream."""
        close = getattr(self._stream, "close", None) or getattr(self._stream, "aclose", None)
        if close:
            await close()

    def _note(self, chunk: Any) -> None:
        delta = chunk.choices[0].delta if chunk.choices else None
        if not delta or not delta.tool_calls:
            return
        piece = delta.tool_calls[0]
        if piece.index != self._index:
            self._index = piece.index
            self.calls.append(_StreamedCall())
        call = self.calls[-1]
        if piece.function and piece.function.name:
            call.name += piece.function.name
            call.tool_call_id = piece.id or ""
        if piece.function and piece.function.arguments:
            call.arguments += piece.function.arguments


class ChatCompletionsMixin(_Base):
    """A `TransactionalLLMMixin` that also answers calls whose arguments are not JSON."""

    _watched: tuple[LLMContext, _WatchedStream] | None = None

    async def get_chat_completions(self, context: LLMContext) -> Any:
        """Get a response as a stream of chunks.

        Args:
            context: The conversation.

        Returns:
            The stock stream.
        """
        self._watched = None
        stream = await super().get_chat_completions(context)
        if not acts_for_a_turn():
            return stream
        watched = _WatchedStream(stream)
        self._watched = (context, watched)
        return watched

    async def run_function_calls(self, function_calls: Sequence[FunctionCallFromLLM]):
        """Stage a response's calls as one round, unreadable ones included, and run them.

        Args:
            function_calls: The calls of one response that could be read, in
                model order.
        """
        watched, self._watched = self._watched, None
        if watched:
            function_calls = _with_unreadable(function_calls, *watched)
        await super().run_function_calls(function_calls)


def _with_unreadable(
    function_calls: Sequence[FunctionCallFromLLM],
    context: LLMContext,
    stream: _WatchedStream,
) -> Sequence[FunctionCallFromLLM]:
    """Put the calls that stock left out back in their places."""
    if all(call.is_readable for call in stream.calls):
        return function_calls
    readable = iter(function_calls)
    return [
        next(readable)
        if call.is_readable
        else FunctionCallFromLLM(
            context=context,
            tool_call_id=call.tool_call_id,
            function_name=call.name,
            arguments=UnreadableArguments(),
        )
        for call in stream.calls
    ]
