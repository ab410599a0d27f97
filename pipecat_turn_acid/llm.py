# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The gate before each request, and results recorded where they are made.

A tool runs in a task of its own and its result frame queues behind the speech.
Whatever a turn does here is therefore written under the epoch that asked for it,
at the moment it is done, and not when its frames have crossed the pipeline.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from loguru import logger
from pipecat.frames.frames import (
    AssistantImageRawFrame,
    Frame,
    FunctionCallCancelFrame,
    FunctionCallFromLLM,
    FunctionCallInProgressFrame,
    FunctionCallResultFrame,
    FunctionCallResultProperties,
    FunctionCallsStartedFrame,
    InterruptionFrame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMMessagesAppendFrame,
    LLMMessagesTransformFrame,
    LLMMessagesUpdateFrame,
    LLMRunFrame,
    LLMTextFrame,
    LLMThoughtEndFrame,
    TTSSpeakFrame,
    UserImageRawFrame,
)
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameDirection
from pipecat.services.llm_service import (
    FunctionCallParams,
    FunctionCallRegistryItem,
    FunctionCallRunnerItem,
    LLMService,
)

from pipecat_turn_acid import _compat
from pipecat_turn_acid._compat import DirectFunctionWrapper
from pipecat_turn_acid.context import FenceOutcome, RunVerdict, TransactionalLLMContext
from pipecat_turn_acid.core import (
    IllegalTransitionError,
    RoundState,
    ToolCall,
    ToolRound,
    UnknownToolCallError,
    repair,
)
from pipecat_turn_acid.events import StaleKind, StaleWork, TurnEnding, TurnEvent
from pipecat_turn_acid.policy import has_side_effects
from pipecat_turn_acid.results import cut_short, presentable, result_content, sendable
from pipecat_turn_acid.stamps import AFTER_WORDS_KEY, CONVERSATION_KEY, stamp

_compat.require(LLMService)

_ServiceT = TypeVar("_ServiceT", bound=LLMService[Any])

_STAMPED = (
    FunctionCallCancelFrame,
    FunctionCallInProgressFrame,
    FunctionCallResultFrame,
    FunctionCallsStartedFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMMessagesAppendFrame,
    LLMThoughtEndFrame,
)


_WORDS_ON_THEIR_WAY = 256
"""How many pieces of text may wait on their way to the voice."""

_CANCEL_PASSES = 16
"""How many passes of the event loop an interruption waits for cancelled tools. No time passes."""

_BROUGHT = (AssistantImageRawFrame, UserImageRawFrame, *_compat.FILE_FRAMES)

_ASKED = (
    *_BROUGHT,
    LLMMessagesAppendFrame,
    LLMMessagesTransformFrame,
    LLMMessagesUpdateFrame,
    LLMRunFrame,
    TTSSpeakFrame,
)

# What says whether words came before it: calls, and what brings messages for one provider alone,
# such as thoughts and signatures.
_BESIDE_WORDS = (FunctionCallsStartedFrame, LLMMessagesAppendFrame, LLMThoughtEndFrame)


@dataclass(frozen=True)
class _Cause:
    """On whose behalf the running task acts.

    Parameters:
        context: The conversation.
        epoch: The turn.
        round: The round of the call that the task runs; None outside a call.
        tool_call_id: The call that the task runs; None outside a call.
        shown: What a speculation shows the model; None for the conversation itself.
    """

    context: TransactionalLLMContext
    epoch: int
    round: ToolRound | None = None
    tool_call_id: str | None = None
    shown: LLMContext | None = None

    @property
    def was_cut(self) -> bool:
        """Whether the task runs a call that was dropped with its round."""
        return (
            self.round is not None
            and self.round.state is RoundState.ROLLED_BACK
            and self.tool_call_id in self.round.awaited
        )

    def awaits(self, tool_call_id: str) -> bool:
        """Whether the model waits for a call of the round."""
        return self.round is not None and tool_call_id in self.round.awaited


# Tasks inherit it, so a tool and everything it starts act for the turn that called the tool.
_cause: ContextVar[_Cause | None] = ContextVar("turn_acid_cause", default=None)


@contextmanager
def _acting_for(cause: _Cause | None) -> Iterator[None]:
    token = _cause.set(cause)
    try:
        yield
    finally:
        _cause.reset(token)


def acts_for_a_turn() -> bool:
    """Whether the running task does something on behalf of a turn."""
    return _cause.get() is not None


def conversation_acted_for() -> TransactionalLLMContext | None:
    """The conversation that the running task acts for; None for none."""
    cause = _cause.get()
    return cause.context if cause else None


class UnreadableArguments(dict[str, Any]):
    """Stands in for the arguments of a call that were not a JSON object. Empty."""


def read_arguments(text: str) -> Any:
    """Read the arguments of a call.

    Args:
        text: What the model sent; nothing counts as no arguments.

    Returns:
        What JSON makes of it, `UnreadableArguments` if it is not JSON.
    """
    try:
        return json.loads(text or "{}")
    except ValueError:
        return UnreadableArguments()


@dataclass
class _CausedRunnerItem(FunctionCallRunnerItem):
    """A call to run that knows on whose behalf.

    Parameters:
        cause: None when the call has no transactional context.
    """

    cause: _Cause | None = None


if TYPE_CHECKING:
    _Base = LLMService[Any]
else:
    _Base = object


class TransactionalLLMMixin(_Base):
    """Makes an LLM service run, call tools and report results for one turn at a time.

    Put it before the service class, or use `transactional`::

        class MyLLMService(TransactionalLLMMixin, AnthropicLLMService): ...

    With a plain `LLMContext`, and in a realtime (speech-to-speech) service, it
    changes nothing.
    """

    _conversation: TransactionalLLMContext | None = None
    _stop_listening: Callable[[], None] | None = None

    @functools.cached_property
    def _said(self) -> deque[LLMTextFrame]:
        """Text of the run, as far as it may still wait somewhere on its way to the voice."""
        return deque(maxlen=_WORDS_ON_THEIR_WAY)

    _working_for = 0

    # --- the gate ----------------------------------------------------------------------------

    async def process_frame(self, frame: Frame, direction: FrameDirection):
        """Process a frame, unless it belongs to a turn that is over.

        Args:
            frame: The frame.
            direction: Where it travels.
        """
        if isinstance(frame, InterruptionFrame) and self._conversation is not None:
            # A request that waits here would be lost with what is stopped.
            waiting = self.has_queued_frame(LLMContextFrame)
            working_for = None if waiting else self._working_for
            if not self._conversation.end_turn_of(frame, working_for=working_for):
                return
        if isinstance(frame, LLMContextFrame) and not self._is_realtime:
            if frame.speculation:
                context = frame.metadata.get(CONVERSATION_KEY)
                process = self._process_speculation
            else:
                context = frame.context
                process = self._process_run
            if isinstance(context, TransactionalLLMContext):
                await process(frame, context, direction)
                return
        # A tool that raises an interruption makes the task that processes frames anew.
        with _acting_for(None):
            await super().process_frame(frame, direction)

    async def _process_run(
        self, frame: LLMContextFrame, context: TransactionalLLMContext, direction: FrameDirection
    ):
        epoch = context.turn_of(frame)
        self._converse(context)
        if context.is_live(epoch):
            self._working_for = epoch
        await self._cancel_calls_of_ended_turns()
        verdict = context.admit_run(frame)
        while verdict is RunVerdict.OWED and context.hooks_pending and not context.commits_in_order:
            # Nobody else will call the hooks and make up for the run.
            await context.run_commit_hooks()
            verdict = context.admit_run(frame)
        # A run that names no turn may have begun one.
        epoch = context.turn_of(frame)
        if verdict is not RunVerdict.RUN:
            logger.debug(f"{self}: run of turn {epoch} is {verdict}")
            return
        self._working_for = epoch
        with _acting_for(_Cause(context, epoch)):
            await super().process_frame(frame, direction)

    def _converse(self, context: TransactionalLLMContext) -> None:
        self._said.clear()
        context.is_gated = True
        if context is not self._conversation:
            if self._stop_listening:
                self._stop_listening()
            self._conversation = context
            self._stop_listening = context.add_listener(self._on_turn_event)

    def _on_turn_event(self, event: TurnEvent) -> None:
        if isinstance(event, TurnEnding):
            # An interruption overtakes the text that waits to be taken in, and what it has
            # overtaken would be spoken after it.
            for frame in self._said:
                frame.skip_tts = True
                frame.append_to_context = False
            self._said.clear()

    async def cleanup(self):
        """Release this service's resources at teardown."""
        if self._stop_listening:
            self._stop_listening()
        await super().cleanup()

    async def _process_speculation(
        self, frame: LLMContextFrame, context: TransactionalLLMContext, direction: FrameDirection
    ):
        """Answer a turn that may not have ended; the service holds the answer until it has."""
        epoch = context.turn_of(frame)
        if not context.is_live(epoch):
            context.report_stale(StaleWork("run", epoch))
            return
        self._converse(context)
        self._working_for = epoch
        frame.context.set_messages(repair(frame.context.messages)[0])
        with _acting_for(_Cause(context, epoch, shown=frame.context)):
            await super().process_frame(frame, direction)

    async def _cancel_calls_of_ended_turns(self) -> None:
        """Cancel calls that no interruption has cancelled and nobody waits for."""

        def is_abandoned(item: FunctionCallRunnerItem) -> bool:
            cause = item.cause if isinstance(item, _CausedRunnerItem) else None
            round = cause.round if cause else None
            return (
                round is not None
                and round.state is RoundState.ROLLED_BACK
                and item.tool_call_id in round.awaited
                and not item.settled
            )

        if any(is_abandoned(item) for item in self._function_call_tasks.values()):
            await self._cancel_function_call_tasks(is_abandoned, reason="turn is over")

    async def _handle_interruptions(self, _: InterruptionFrame):
        if self._conversation is None:
            await super()._handle_interruptions(_)
            return
        # A tool that is slow to stop, or does not, must not keep the interruption from the voice.
        # Later it would hit the calls of the turn that begins now, so the calls are chosen here.
        cancelled = [
            item
            for item in self._function_call_tasks.values()
            if item.registry_item.cancel_on_interruption
        ]
        tasks = [
            self.create_task(
                self._cancel_function_call_tasks(
                    lambda item, chosen=chosen: item is chosen, reason="interruption"
                ),
                f"cancel:{chosen.tool_call_id}",
            )
            for chosen in cancelled
        ]
        for _pass in range(_CANCEL_PASSES):
            if all(task.done() for task in tasks):
                break
            await asyncio.sleep(0)

    async def push_frame(self, frame: Frame, direction: FrameDirection = FrameDirection.DOWNSTREAM):
        """Push a frame, stamped with the turn on whose behalf it was made.

        What a turn still says after the user has barged in goes nowhere, and neither
        does what a call that was cut still has the bot say or answer.

        Args:
            frame: The frame.
            direction: Where it goes.
        """
        cause = _cause.get()
        if cause is not None:
            if isinstance(frame, _ASKED) and cause.was_cut:
                kind = _kind_of(frame)
                cause.context.report_stale(StaleWork(kind, cause.epoch, cause.tool_call_id))
                return
            if isinstance(frame, LLMTextFrame):
                if cause.context.was_interrupted(cause.epoch):
                    return
                self._said.append(frame)
            elif isinstance(frame, _BESIDE_WORDS) and self._said:
                frame.metadata[AFTER_WORDS_KEY] = True
            if isinstance(frame, _STAMPED):
                stamp(frame, cause.epoch)
        await super().push_frame(frame, direction)

    @functools.cached_property
    def _is_realtime(self) -> bool:
        return self.service_metadata_frame().is_realtime_service

    # --- calls -------------------------------------------------------------------------------

    async def run_function_calls(self, function_calls: Sequence[FunctionCallFromLLM]):
        """Stage a response's calls as one round, and run them.

        The calls of a turn that is over are neither staged nor run.

        Args:
            function_calls: All the calls of one response, in model order.
        """
        context = function_calls[0].context if function_calls else None
        cause = _cause.get()
        if cause is not None and context is not None and context is cause.shown:
            # The turn has ended as speculated, so the calls are part of the conversation.
            context = cause.context
            function_calls = [dataclasses.replace(call, context=context) for call in function_calls]
        if (
            not isinstance(context, TransactionalLLMContext)
            or self._is_realtime
            or self._speculation_gate.is_speculating
        ):
            await super().run_function_calls(function_calls)
            return
        if cause is None or cause.context is not context:
            # A service may call this from a task of its own. It works for its last run.
            is_known = context is self._conversation
            cause = _Cause(context, self._working_for if is_known else context.epoch)
        function_calls = _with_unique_ids(map(_with_an_object, function_calls), context)
        calls = [self._describe(call, context) for call in function_calls]
        round = context.stage_round(calls, epoch=cause.epoch)
        if round.state is RoundState.FENCED:
            return
        with _acting_for(dataclasses.replace(cause, round=round)):
            await super().run_function_calls(function_calls)

    def _describe(self, call: FunctionCallFromLLM, context: TransactionalLLMContext) -> ToolCall:
        item = self._functions.get(call.function_name) or self._functions.get(None)
        return ToolCall(
            tool_call_id=call.tool_call_id,
            name=call.function_name,
            arguments=json.dumps(call.arguments, ensure_ascii=False),
            has_side_effects=has_side_effects(item.handler if item else None)
            or context.has_side_effects(call.function_name),
            started=False,
            outlives_turn=not isinstance(call.arguments, UnreadableArguments)
            and self._function_is_async(call.function_name),
        )

    async def _run_parallel_function_calls(self, runner_items: Sequence[FunctionCallRunnerItem]):
        await super()._run_parallel_function_calls(_with_cause(runner_items))

    async def _run_sequential_function_calls(self, runner_items: Sequence[FunctionCallRunnerItem]):
        await super()._run_sequential_function_calls(_with_cause(runner_items))

    async def _run_function_call(self, runner_item: FunctionCallRunnerItem):
        cause = runner_item.cause if isinstance(runner_item, _CausedRunnerItem) else None
        if cause is None:
            await super()._run_function_call(runner_item)
            return
        tool_call_id = runner_item.tool_call_id
        with _acting_for(dataclasses.replace(cause, tool_call_id=tool_call_id)):
            if cause.awaits(tool_call_id) and _has_ended(cause.round):
                cause.context.report_stale(StaleWork("calls", cause.epoch, tool_call_id))
                runner_item.settled = True
                await self._broadcast_function_call_cancelled(runner_item)
                return
            if isinstance(runner_item.arguments, UnreadableArguments):
                await self._answer_unreadable_call(runner_item)
                return
            cause.context.mark_started(tool_call_id)
            item = self._functions.get(runner_item.function_name) or self._functions.get(None)
            if item is not None:
                self._record_at_source(item)
            await super()._run_function_call(runner_item)

    async def _answer_unreadable_call(self, runner_item: FunctionCallRunnerItem) -> None:
        """Answer a call whose arguments nobody can read, in the frames of any other call."""
        runner_item.settled = True
        call: dict[str, Any] = {
            "function_name": runner_item.function_name,
            "tool_call_id": runner_item.tool_call_id,
            "arguments": {},
        }
        error = (
            f"The arguments for the function `{runner_item.function_name}` were not a JSON "
            "object, so it was not called."
        )
        await self.broadcast_frame(
            FunctionCallInProgressFrame,
            **call,
            cancel_on_interruption=True,
            group_id=runner_item.group_id,
        )
        await self.broadcast_frame(FunctionCallResultFrame, **call, result=error, error=error)

    # --- results -----------------------------------------------------------------------------

    def _record_at_source(self, item: FunctionCallRegistryItem) -> None:
        """Have a handler's reports recorded before anything is awaited on their way."""
        handler = item.handler
        if isinstance(handler, (_RecordedDirectFunction, _RecordedHandler)):
            return
        if isinstance(handler, DirectFunctionWrapper):
            item.handler = _RecordedDirectFunction(handler.function)
        else:
            item.handler = _RecordedHandler(handler)

    def _advertised_handler_changed(self, item: FunctionCallRegistryItem, new_handler: Any) -> bool:
        if isinstance(item.handler, _RecordedHandler):
            item = dataclasses.replace(item, handler=item.handler.__wrapped__)
        return super()._advertised_handler_changed(item, new_handler)

    async def broadcast_frame(self, frame_cls: type[Frame], **kwargs):
        """Broadcast a frame; a result is recorded first.

        Args:
            frame_cls: As in stock Pipecat.
            **kwargs: As in stock Pipecat.
        """
        cause = _cause.get()
        if cause is not None and cause.round is not None and frame_cls is FunctionCallResultFrame:
            _record(
                cause,
                kwargs["tool_call_id"],
                kwargs["function_name"],
                kwargs["result"],
                kwargs.get("properties"),
            )
        await super().broadcast_frame(frame_cls, **kwargs)

    async def _broadcast_function_call_cancelled(
        self, runner_item: FunctionCallRunnerItem, *, run_llm: bool = False
    ) -> FunctionCallFromLLM:
        cause = runner_item.cause if isinstance(runner_item, _CausedRunnerItem) else None
        if cause is None:
            return await super()._broadcast_function_call_cancelled(runner_item, run_llm=run_llm)
        name = runner_item.function_name
        if cause.awaits(runner_item.tool_call_id) and not _has_ended(cause.round):
            # No interruption did this, so the model waits for an answer. Only a deadline asks for
            # inference.
            _record(
                cause,
                runner_item.tool_call_id,
                name,
                cut_short(
                    name,
                    timed_out=run_llm,
                    has_side_effects=cause.round is not None
                    and cause.round.has_side_effects(runner_item.tool_call_id),
                ),
                FunctionCallResultProperties(run_llm=run_llm),
            )
        with _acting_for(cause):
            return await super()._broadcast_function_call_cancelled(runner_item, run_llm=run_llm)


class _RecordedHandler:
    """A tool handler whose reports are recorded at once."""

    def __init__(self, handler: Any):
        self.__wrapped__ = handler

    async def __call__(self, params: FunctionCallParams) -> None:
        with _reporting(params) as recorded:
            await self.__wrapped__(recorded)


class _RecordedDirectFunction(DirectFunctionWrapper):
    """A direct function whose reports are recorded at once."""

    async def invoke(self, args: Mapping[str, Any], params: FunctionCallParams):
        """Call the function with a callback that records.

        Args:
            args: The call's arguments.
            params: The call's parameters.

        Returns:
            What the function returns.
        """
        with _reporting(params) as recorded:
            return await super().invoke(args, recorded)


@contextmanager
def _reporting(params: FunctionCallParams) -> Iterator[FunctionCallParams]:
    """Give a handler parameters whose result callback records what it reports."""
    cause = _cause.get()
    if cause is None:
        yield params
        return
    report = params.result_callback
    call = _ReportedCall(params, cause)

    async def result_callback(
        result: Any, *, properties: FunctionCallResultProperties | None = None
    ) -> None:
        result = presentable(call.function_name, result)
        is_final = properties.is_final if properties else True
        # The callback may be called from a task that nobody knows.
        with _acting_for(cause):
            if is_final:
                call.is_closed = True
                call.record(result, properties)
            await report(result, properties=properties)

    call.expect_report_of(result_callback)
    try:
        yield dataclasses.replace(params, result_callback=result_callback)
    except BaseException as error:
        call.is_closed = True
        if isinstance(error, Exception):
            template = params.llm.FUNCTION_CALL_ERROR_MESSAGE_TEMPLATE
            call.record(template.format(function_name=call.function_name), None)
        raise


class _ReportedCall:
    """One running call, until it has reported or cannot report any more."""

    def __init__(self, params: FunctionCallParams, cause: _Cause):
        self.function_name = params.function_name
        self.is_closed = False
        self._tool_call_id = params.tool_call_id
        self._service = params.llm
        self._report = params.result_callback
        self._cause = cause
        self._loop = asyncio.get_running_loop()

    def record(self, result: Any, properties: FunctionCallResultProperties | None) -> None:
        """Answer the call where it is made."""
        _record(self._cause, self._tool_call_id, self.function_name, result, properties)

    def expect_report_of(self, result_callback: Callable[..., Any]) -> None:
        """Answer the call once nobody holds its callback: no report can follow then."""
        weakref.finalize(result_callback, self._forgotten).atexit = False

    def _forgotten(self) -> None:
        # Objects may be collected in any thread, and after the loop is gone.
        if not self.is_closed and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._answer_in_its_place)

    def _answer_in_its_place(self) -> None:
        async def answer() -> None:
            text = f"The function `{self.function_name}` ended without reporting a result."
            logger.warning(f"{self._service}: {text} [{self._tool_call_id}]")
            with _acting_for(self._cause):
                self.record(text, None)
                await self._report(text)

        self._service.create_task(answer(), f"{self.function_name}:unreported")


def _has_ended(round: ToolRound | None) -> bool:
    return round is not None and round.state in (RoundState.ROLLED_BACK, RoundState.COMMITTED)


def _record(
    cause: _Cause,
    tool_call_id: str,
    function_name: str,
    result: Any,
    properties: FunctionCallResultProperties | None,
) -> None:
    """Answer a call; the first answer stands."""
    if not cause.awaits(tool_call_id):
        cause.context.note_report(tool_call_id)
        return
    explicit = properties.run_llm if properties else None
    wants_run = asks_for_run(result, explicit)
    try:
        outcome = cause.context.stage_tool_result(
            tool_call_id,
            result_content(function_name, result),
            epoch=cause.epoch,
            wants_run=wants_run,
        )
    except (IllegalTransitionError, UnknownToolCallError):
        return
    if outcome is FenceOutcome.FENCED:
        logger.debug(f"Late result of [{function_name}:{tool_call_id}] of turn {cause.epoch}")


def asks_for_run(result: Any, run_llm: bool | None) -> bool:
    """Whether the model should see a result at once, as stock Pipecat decides it.

    Args:
        result: What a tool reported. None is no result, and never asks.
        run_llm: What was said of it explicitly.
    """
    return result is not None and run_llm is not False


def _with_cause(items: Sequence[FunctionCallRunnerItem]) -> Sequence[FunctionCallRunnerItem]:
    cause = _cause.get()
    if cause is None:
        return items
    names = [field.name for field in dataclasses.fields(FunctionCallRunnerItem)]
    return [
        _CausedRunnerItem(**{name: getattr(item, name) for name in names}, cause=cause)
        for item in items
    ]


def _kind_of(frame: Frame) -> StaleKind:
    """What a cut call tried to bring about."""
    if isinstance(frame, TTSSpeakFrame):
        return "text"
    if isinstance(frame, _BROUGHT):
        return "result"
    return "run"


def _with_an_object(call: FunctionCallFromLLM) -> FunctionCallFromLLM:
    """A call whose arguments are what a tool takes and a provider can be shown again."""
    arguments: Any = call.arguments
    if arguments is None:
        arguments = {}
    elif not isinstance(arguments, Mapping):
        arguments = UnreadableArguments()
    return dataclasses.replace(call, arguments=sendable(arguments))


def _with_unique_ids(
    calls: Iterable[FunctionCallFromLLM], context: TransactionalLLMContext
) -> list[FunctionCallFromLLM]:
    """Give each call an id that nothing else in the conversation has."""
    taken: set[str] = set()
    unique: list[FunctionCallFromLLM] = []
    for call in calls:
        tool_call_id = context.unused_call_id(call.tool_call_id, taken)
        taken.add(tool_call_id)
        unique.append(dataclasses.replace(call, tool_call_id=tool_call_id))
    return unique


@functools.cache
def transactional(service_class: type[_ServiceT]) -> type[_ServiceT]:
    """Make a transactional class of any LLM service class.

    Args:
        service_class: Such as ``AnthropicLLMService``.

    Returns:
        ``TransactionalAnthropicLLMService``: the same class each time, with the
        same constructor. A class that is transactional already comes back as
        it is.

    Raises:
        TypeError: It is not a class of LLM services.
    """
    if not isinstance(service_class, type) or not issubclass(service_class, LLMService):
        raise TypeError(
            f"transactional() takes a class of LLM services, such as AnthropicLLMService, "
            f"not {service_class!r}"
        )
    if issubclass(service_class, TransactionalLLMMixin):
        return service_class
    mixin = _mixin_for(service_class)
    name = f"Transactional{service_class.__name__}"
    doc = f"A `{service_class.__name__}` that runs for one turn at a time."
    return type(name, (mixin, service_class), {"__doc__": doc})  # pyright: ignore[reportReturnType]


def _mixin_for(service_class: type) -> type[TransactionalLLMMixin]:
    """The mixin that knows how a service reads the calls of a response."""
    if hasattr(service_class, "get_chat_completions"):
        from pipecat_turn_acid.chat_completions import ChatCompletionsMixin

        return ChatCompletionsMixin
    if _compat.speaks(service_class, "AnthropicLLMService"):
        from pipecat_turn_acid.messages_api import MessagesMixin

        return MessagesMixin
    if _compat.speaks(service_class, "_BaseOpenAIResponsesLLMService"):
        from pipecat_turn_acid.responses_api import ResponsesMixin

        return ResponsesMixin
    return TransactionalLLMMixin
