# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Every private name of Pipecat that this package leans on, and what it means to us.

A name is checked when the module that needs it is imported, so that a Pipecat
release that moves one is an error with a way out and not a bot that behaves
oddly. Each has a test in ``tests/test_compat.py`` that says what we lean on.
"""

# pyright: reportPrivateUsage=false

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from pipecat.frames import frames
from pipecat.frames.frames import Frame, LLMContextAssistantTimestampFrame
from pipecat.processors.aggregators.llm_response_universal import LLMAssistantAggregator
from pipecat.utils.time import time_now_iso8601

try:
    from pipecat.adapters.llm.schemas.direct_function import DirectFunctionWrapper
    from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
    from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
except ModuleNotFoundError:  # Pipecat 1.13 and older
    from pipecat.adapters.schemas.direct_function import DirectFunctionWrapper
    from pipecat.adapters.schemas.function_schema import FunctionSchema
    from pipecat.adapters.schemas.tools_schema import ToolsSchema

__all__ = [
    "AssistantAggregator",
    "DirectFunctionWrapper",
    "FunctionSchema",
    "ToolsSchema",
]

PIPECAT: Final = tuple(int(number) for number in version("pipecat-ai").split(".")[:2])
"""The release of Pipecat that is installed, as major and minor number."""


@dataclass(frozen=True)
class Seam:
    """One private name.

    Parameters:
        owner: The class that has it.
        name: The name.
        why: What we take it to do.
        parameters: For a method, the parameters that we pass or override, without
            ``self``; None for an attribute that the constructor sets.
    """

    owner: str
    name: str
    why: str
    parameters: tuple[str, ...] | None = None


_SINCE_1_13: Final = (
    Seam(
        "LLMAssistantAggregator",
        "_add_aggregation_to_context",
        "every text passes here on its way to the history",
        (),
    ),
    Seam("LLMAssistantAggregator", "_maybe_push_context", "asks for the run after a result", ()),
    Seam("LLMAssistantAggregator", "_context_push_owed", "whether a result asked for a run"),
)

_BEFORE_1_13: Final = (
    Seam(
        "LLMAssistantAggregator",
        "_maybe_push_context_after_function_result",
        "asks for the run after a result",
        (),
    ),
)

SEAMS: Final = (
    # --- LLMService: overridden
    Seam(
        "LLMService", "_run_parallel_function_calls", "starts a response's calls", ("runner_items",)
    ),
    Seam(
        "LLMService",
        "_run_sequential_function_calls",
        "queues a response's calls",
        ("runner_items",),
    ),
    Seam("LLMService", "_run_function_call", "runs one call in its own task", ("runner_item",)),
    Seam(
        "LLMService",
        "_broadcast_function_call_cancelled",
        "every call that ends without reporting passes here",
        ("runner_item", "run_llm"),
    ),
    Seam(
        "LLMService",
        "_advertised_handler_changed",
        "compares handlers by identity",
        ("item", "new_handler"),
    ),
    Seam(
        "LLMService",
        "_handle_interruptions",
        "cancels the calls that do not survive an interruption, before it is passed on",
        ("_",),
    ),
    # --- LLMService: used
    Seam(
        "LLMService", "_function_is_async", "whether the model waits for a tool", ("function_name",)
    ),
    Seam(
        "LLMService",
        "_cancel_function_call_tasks",
        "cancels the calls that a predicate selects",
        ("predicate", "reason", "run_llm"),
    ),
    Seam("LLMService", "_functions", "registered handlers by tool name"),
    Seam("LLMService", "_function_call_tasks", "running calls by task"),
    Seam("LLMService", "_speculation_gate", "knows whether the inference is speculative"),
    # --- LLMContextAggregator
    Seam("LLMContextAggregator", "_get_context_frame", "makes every context frame pushed", ()),
    Seam("LLMContextAggregator", "_aggregation", "text that is not in the history yet"),
    Seam("LLMContextAggregator", "_context", "the context"),
    # --- LLMUserAggregator
    Seam(
        "LLMUserAggregator",
        "_on_user_turn_started",
        "the barge-in is known",
        ("controller", "strategy", "params"),
    ),
    Seam(
        "LLMUserAggregator",
        "_on_user_turn_stopped",
        "the user has yielded the floor",
        ("controller", "strategy", "params"),
    ),
    Seam(
        "LLMUserAggregator",
        "_maybe_emit_user_turn_stopped",
        "flushes what is left of a user turn and may recover an empty one",
        ("strategy", "on_session_end", "run_llm"),
    ),
    Seam("LLMUserAggregator", "_push_aggregation", "every flush passes here", ("run_llm",)),
    Seam(
        "LLMUserAggregator",
        "_run_speculative_inference",
        "asks for an answer to a turn that may not have ended",
        ("speculation",),
    ),
    Seam("LLMUserAggregator", "_handle_llm_run", "a run is asked for", ("frame",)),
    Seam(
        "LLMUserAggregator",
        "_user_turn_interrupted_bot",
        "whether an empty turn has cut the bot short, which decides how it is recovered",
    ),
    Seam("LLMUserAggregator", "_user_is_muted", "whether interruptions are suppressed"),
    Seam("LLMUserAggregator", "_realtime_service_mode", "whether a realtime service is in charge"),
    # --- LLMAssistantAggregator
    Seam("LLMAssistantAggregator", "_handle_function_calls_started", "a batch starts", ("frame",)),
    Seam(
        "LLMAssistantAggregator", "_handle_function_call_in_progress", "a call starts", ("frame",)
    ),
    Seam("LLMAssistantAggregator", "_handle_function_call_result", "a call ends", ("frame",)),
    Seam(
        "LLMAssistantAggregator", "_handle_function_call_cancel", "a call is cancelled", ("frame",)
    ),
    Seam("LLMAssistantAggregator", "_handle_llm_messages_append", "messages arrive", ("frame",)),
    Seam("LLMAssistantAggregator", "_handle_llm_start", "a response starts", ("_",)),
    Seam(
        "LLMAssistantAggregator", "_handle_llm_end", "a response has passed, words included", ("_",)
    ),
    Seam("LLMAssistantAggregator", "_handle_tts_started", "an utterance starts", ("frame",)),
    Seam("LLMAssistantAggregator", "_handle_text", "a word arrives", ("frame",)),
    Seam("LLMAssistantAggregator", "_handle_marker_frame", "a turn marker arrives", ("frame",)),
    Seam("LLMAssistantAggregator", "_handle_thought_end", "a thought is complete", ("frame",)),
    Seam("LLMAssistantAggregator", "_reset_thought_aggregation", "forgets a thought", ()),
    Seam("LLMAssistantAggregator", "_handle_end_or_cancel", "the session ends", ("frame",)),
    Seam("LLMAssistantAggregator", "_handle_user_image_frame", "an image arrives", ("frame",)),
    Seam(
        "LLMAssistantAggregator",
        "_trigger_assistant_turn_stopped",
        "reports what was said and flushes it",
        ("interrupted",),
    ),
    Seam(
        "LLMAssistantAggregator",
        "_maybe_append_image_to_context",
        "adds an image that a call has fetched",
        ("frame",),
    ),
    Seam(
        "LLMAssistantAggregator",
        "_handle_function_call_finished",
        "writes the final result of a call that the model does not wait for",
        ("frame", "in_progress_frame"),
    ),
    Seam(
        "LLMAssistantAggregator",
        "_update_function_call_result",
        "replaces the content of a tool message",
        ("function_name", "tool_call_id", "result"),
    ),
    Seam(
        "LLMAssistantAggregator",
        "_is_deferred",
        "whether an async result is late",
        ("in_progress_frame",),
    ),
    Seam(
        "LLMAssistantAggregator",
        "_context_updated_task_finished",
        "forgets a finished on_context_updated task",
        ("task",),
    ),
    Seam("LLMAssistantAggregator", "_context_updated_tasks", "running on_context_updated tasks"),
    Seam("LLMAssistantAggregator", "_function_calls_in_progress", "announced calls by id"),
    Seam("LLMAssistantAggregator", "_function_calls_image_results", "fetched images by call id"),
    Seam("LLMAssistantAggregator", "_user_speaking", "whether the user has the floor"),
    Seam("LLMAssistantAggregator", "_bot_speaking", "whether the bot is heard"),
    Seam(
        "LLMAssistantAggregator",
        "_realtime_service_mode",
        "whether a realtime service is in charge",
    ),
    *(_SINCE_1_13 if PIPECAT >= (1, 13) else _BEFORE_1_13),
    # --- FlowManager
    Seam(
        "FlowManager",
        "_create_transition_func",
        "wraps the handler of every function of a node",
        ("name", "handler"),
    ),
    Seam(
        "FlowManager",
        "_execute_transition",
        "enters the node that a function has returned",
        ("transition_info",),
    ),
    Seam("FlowManager", "_set_node", "every entry into a node", ("node_id", "node_config")),
    Seam(
        "FlowManager",
        "_update_llm_context",
        "queues a node's messages and tools",
        ("role_message", "role_messages", "task_messages", "functions", "strategy"),
    ),
    Seam(
        "FlowManager",
        "_create_function_schema",
        "what a node advertises of a function",
        ("tool",),
    ),
    Seam("FlowManager", "_validate_node_config", "the shape of a node", ("node_id", "config")),
    Seam("FlowManager", "_render_node", "fills a node's texts", ("node_id", "node_config")),
    Seam(
        "FlowManager",
        "_register_action_from_config",
        "registers an action, or says that it cannot",
        ("action",),
    ),
    Seam("FlowManager", "_pending_transition", "the node that a function has just returned"),
    Seam("FlowManager", "_worker", "where Flows queues its frames"),
    Seam("FlowManager", "_state", "what the property `state` returns"),
    Seam("FlowManager", "_global_functions", "functions of every node"),
    Seam("FlowManager", "_context_aggregator", "the pair"),
    Seam("FlowManager", "_context_strategy", "the strategy of nodes that name none"),
    Seam("FlowManager", "_action_manager", "runs actions"),
    Seam("FlowManager", "_initialized", "whether a node may be entered"),
    # --- ActionManager
    Seam("ActionManager", "_action_handlers", "handlers by type of action"),
    Seam("ActionManager", "_deferred_post_actions", "actions that wait for the next response"),
)

FILE_FRAMES: Final[tuple[type[Frame], ...]] = (
    (frames.UserFileRawFrame,) if PIPECAT >= (1, 13) else ()
)
"""The frames that bring a file."""

VOICES_KEEP_WORDLESS_ENDS: Final = PIPECAT < (1, 13)
"""Whether the end of a response that said nothing may never come out of the voice.

A voice with word timestamps lets it out behind the words, and until 1.13 also when there are none.
"""


class _AssistantAggregatorOf1_12(LLMAssistantAggregator):
    """The assistant aggregator of Pipecat 1.12, with the seams that it has from 1.13 on."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._context_push_owed = False

    async def _add_aggregation_to_context(self) -> str:
        if not self._aggregation:
            return ""
        text = self.aggregation_string()
        await self.reset()
        self._context.add_message({"role": "assistant", "content": text})
        return text

    async def push_aggregation(self) -> str:
        text = await self._add_aggregation_to_context()
        if text:
            await self.push_context_frame()
            await self.push_frame(LLMContextAssistantTimestampFrame(timestamp=time_now_iso8601()))
        return text

    async def _maybe_push_context(self) -> None:
        inherited: Any = super()
        await inherited._maybe_push_context_after_function_result()

    async def _maybe_push_context_after_function_result(self) -> None:
        await self._maybe_push_context()


if TYPE_CHECKING or PIPECAT >= (1, 13):
    AssistantAggregator = LLMAssistantAggregator
else:
    AssistantAggregator = _AssistantAggregatorOf1_12


def is_realtime(assistant: Any) -> bool:
    """Whether a realtime service is in charge of a conversation.

    Args:
        assistant: Its assistant aggregator.
    """
    return bool(assistant._realtime_service_mode)


def run_until_the_session_ends(
    assistant: Any, coroutine: Coroutine[Any, Any, None], name: str
) -> "asyncio.Task[None]":
    """Run something beside the pipeline, as Pipecat does for a result's `on_context_updated`.

    Args:
        assistant: The assistant aggregator; it cancels what still runs at the end.
        coroutine: What to run.
        name: For the logs.

    Returns:
        The task.
    """
    task = assistant.create_task(coroutine, name)
    assistant._context_updated_tasks.add(task)
    task.add_done_callback(assistant._context_updated_task_finished)
    return task


def save_actions(actions: Any) -> Callable[[], None]:
    """Remember what a flow's `ActionManager` knows.

    Args:
        actions: The action manager.

    Returns:
        A function that brings it back.
    """
    handlers, deferred = dict(actions._action_handlers), actions._deferred_post_actions

    def restore() -> None:
        actions._action_handlers.clear()
        actions._action_handlers.update(handlers)
        actions._deferred_post_actions = deferred

    return restore


def flow_handler(handler: Any) -> Any:
    """What the application wrote behind the handler of a flow's function.

    Args:
        handler: A handler; a `Flow` makes its own around a direct function.

    Returns:
        The direct function's wrapper, or the handler itself.
    """
    if not inspect.isfunction(handler):
        return handler
    wrapper = inspect.getclosurevars(handler).nonlocals.get("wrapper")
    return handler if wrapper is None else wrapper


PROVIDER_SEAMS: Final = (
    Seam(
        "AnthropicLLMService",
        "_create_message_stream",
        "opens the stream of a response",
        ("api_call", "params"),
    ),
    Seam(
        "_BaseOpenAIResponsesLLMService",
        "_process_function_calls",
        "reads the calls of a response",
        ("context", "function_calls"),
    ),
)
"""Of services that are looked at when they are made transactional, and not before."""


def speaks(service_class: type, owner: str) -> bool:
    """Whether a service is one of those that have a seam of their own.

    Args:
        service_class: A class of LLM services.
        owner: The name of the class that has the seam.

    Raises:
        ImportError: It is, and its seam is gone or changed.
    """
    for base in service_class.__mro__:
        if base.__name__ == owner and base.__module__.startswith("pipecat."):
            require(base)
            return True
    return False


def missing_from(owner: type) -> list[str]:
    """Say which seams a class lacks.

    Args:
        owner: A class of Pipecat's.

    Returns:
        One text for each name that is gone or takes other parameters.
    """
    problems: list[str] = []
    for seam in (*SEAMS, *PROVIDER_SEAMS):
        if seam.owner != owner.__name__:
            continue
        where = f"{seam.owner}.{seam.name}"
        if seam.parameters is None:
            if seam.name not in owner.__init__.__code__.co_names:
                problems.append(f"{where} is not set by the constructor ({seam.why})")
            continue
        method = getattr(owner, seam.name, None)
        if method is None:
            problems.append(f"{where} is gone ({seam.why})")
            continue
        parameters = tuple(inspect.signature(method).parameters)[1:]
        if parameters != seam.parameters:
            problems.append(f"{where} takes {parameters}, not {seam.parameters} ({seam.why})")
    return problems


def require(owner: type) -> None:
    """Refuse to import on a Pipecat that lacks what we lean on.

    Args:
        owner: A class of Pipecat's.

    Raises:
        ImportError: A name is gone or changed. The message says what to install.
    """
    problems = missing_from(owner)
    if problems:
        raise ImportError(
            f"pipecat-turn-acid {version('pipecat-turn-acid')} does not know pipecat-ai "
            f"{version('pipecat-ai')}: {'; '.join(problems)}. Install a pipecat-ai release that its "
            "README lists as tested, or a newer pipecat-turn-acid."
        )
