# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Tools for a scripted bot: they take time, fail, ignore cancellation, report late or never."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.services.llm_service import FunctionCallParams


class Behaviour(StrEnum):
    """What a tool does when its time has come.

    Parameters:
        REPORTS: Reports its result; stops when cancelled.
        FAILS: Raises; stops when cancelled.
        IGNORES_CANCELLATION: Swallows every cancellation, and reports all the same.
        NEVER_REPORTS: Returns without a result.
    """

    REPORTS = "reports"
    FAILS = "fails"
    IGNORES_CANCELLATION = "ignores cancellation"
    NEVER_REPORTS = "never reports"


class ToolFailure(Exception):  # noqa: N818 - named for what happened
    """What a failing tool raises."""


@dataclass(frozen=True)
class Tool:
    """One tool of a bot.

    Parameters:
        name: The function's name.
        parameters: The names of its required string parameters.
        seconds: How long it takes; a function of the arguments if that varies.
        result: What it reports; a function of the arguments if that varies.
        behaviour: What it does when its time has come.
        cancel_on_interruption: As in ``LLMService.register_function``.
        timeout: As ``timeout_secs`` in ``LLMService.register_function``.
        mark: Applied to the handler, for instance ``pipecat_turn_acid.side_effects``. Left out on
            the stock classes, which know no marks.
    """

    name: str
    parameters: tuple[str, ...] = ()
    seconds: float | Callable[[Mapping[str, Any]], float] = 0.5
    result: Any = field(default_factory=lambda: {"ok": True})
    behaviour: Behaviour = Behaviour.REPORTS
    cancel_on_interruption: bool = True
    timeout: float | None = None
    mark: Callable[[Any], Any] | None = None

    @property
    def schema(self) -> FunctionSchema:
        """What the model is told about the tool."""
        return FunctionSchema(
            self.name,
            self.name.replace("_", " ").capitalize() + ".",
            {name: {"type": "string"} for name in self.parameters},
            list(self.parameters),
        )

    def duration(self, arguments: Mapping[str, Any]) -> float:
        """How long a call takes.

        Args:
            arguments: The arguments of the call.
        """
        return self.seconds(arguments) if callable(self.seconds) else self.seconds

    def value(self, arguments: Mapping[str, Any]) -> Any:
        """What a call reports.

        Args:
            arguments: The arguments of the call.
        """
        return self.result(arguments) if callable(self.result) else self.result


@dataclass
class ToolRun:
    """One call of a tool, as the tool itself saw it.

    Parameters:
        tool_call_id: The id of the call.
        name: The tool.
        arguments: The arguments it was called with.
        started: When the handler began, in seconds of the loop.
        started_tick: The tick in which it did.
        ended: When it reported, raised, gave up or was cancelled; None while it runs.
        ended_tick: The tick in which it did.
        ending: ``reported``, ``failed``, ``silent`` or ``cancelled``; empty while it runs.
        result: What it reported.
    """

    tool_call_id: str
    name: str
    arguments: dict[str, Any]
    started: float
    started_tick: int
    ended: float | None = None
    ended_tick: int | None = None
    ending: str = ""
    result: Any = None

    @property
    def reported(self) -> bool:
        """Whether the tool came to an answer of its own, a failure included."""
        return self.ending in ("reported", "failed")


Now = Callable[[], tuple[float, int]]


@dataclass
class Toolbox:
    """The tools of one bot, and a record of all that they did.

    Parameters:
        tools: The tools.
        now: Returns the loop's time and tick.
        runs: Every call, in the order they began.
    """

    tools: tuple[Tool, ...]
    now: Now
    runs: list[ToolRun] = field(default_factory=list)

    @property
    def working(self) -> bool:
        """Whether any tool is still at work."""
        return any(not run.ending for run in self.runs)

    def register(self, llm: Any, *, marks: bool) -> None:
        """Register every tool with a service.

        Args:
            llm: The LLM service.
            marks: Whether the tools' marks apply.
        """
        for tool in self.tools:
            handler: Any = self.handler(tool)
            if marks and tool.mark:
                handler = tool.mark(handler)
            llm.register_function(
                tool.name,
                handler,
                cancel_on_interruption=tool.cancel_on_interruption,
                timeout_secs=tool.timeout,
            )

    def handler(self, tool: Tool) -> Callable[[FunctionCallParams], Awaitable[None]]:
        """Return the function that Pipecat calls for a tool.

        Args:
            tool: The tool.
        """

        async def handle(params: FunctionCallParams) -> None:
            run = self.begin(tool, params.tool_call_id, params.arguments)
            try:
                if tool.behaviour is Behaviour.IGNORES_CANCELLATION:
                    await _stubborn_sleep(tool.duration(run.arguments))
                else:
                    await asyncio.sleep(tool.duration(run.arguments))
            except asyncio.CancelledError:
                self.end(run, "cancelled")
                raise
            if tool.behaviour is Behaviour.FAILS:
                self.end(run, "failed")
                raise ToolFailure(f"{tool.name} is out of order")
            if tool.behaviour is Behaviour.NEVER_REPORTS:
                self.end(run, "silent")
                return
            self.end(run, "reported", tool.value(run.arguments))
            await params.result_callback(run.result)

        return handle

    def begin(self, tool: Tool, tool_call_id: str, arguments: Mapping[str, Any]) -> ToolRun:
        """Record that a call begins.

        Args:
            tool: The tool.
            tool_call_id: The id of the call.
            arguments: Its arguments.
        """
        at, tick = self.now()
        self.runs.append(ToolRun(tool_call_id, tool.name, dict(arguments), at, tick))
        return self.runs[-1]

    def end(self, run: ToolRun, ending: str, result: Any = None) -> None:
        """Record how a call ended.

        Args:
            run: The call.
            ending: How it ended.
            result: What it reported.
        """
        run.ended, run.ended_tick = self.now()
        run.ending, run.result = ending, result


async def _stubborn_sleep(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while (left := end - loop.time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue
