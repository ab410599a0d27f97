# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Tools for a scripted bot: they take time, fail, ignore cancellation, report late or never."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pipecat.frames.frames import (
    Frame,
    FunctionCallCancelFrame,
    FunctionCallInProgressFrame,
    FunctionCallResultFrame,
)
from pipecat.services.llm_service import FunctionCallParams

from pipecat_turn_acid._compat import FunctionSchema


class Behaviour(StrEnum):
    """What a tool does when its time has come.

    Parameters:
        REPORTS: Reports its result; stops when cancelled.
        FAILS: Raises; stops when cancelled.
        IGNORES_CANCELLATION: Swallows every cancellation, and reports all the same.
        NEVER_REPORTS: Returns without a result.
        REPORTS_TWICE: Reports its result, and once more a second later.
    """

    REPORTS = "reports"
    FAILS = "fails"
    IGNORES_CANCELLATION = "ignores cancellation"
    NEVER_REPORTS = "never reports"
    REPORTS_TWICE = "reports twice"


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
        outlives: Whether it goes on when the user barges in.
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
    outlives: bool = False

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
        answered: Calls that the service answered in the tool's place.
    """

    tools: tuple[Tool, ...]
    now: Now
    runs: list[ToolRun] = field(default_factory=list)
    answered: list[ToolRun] = field(default_factory=list)
    _overheard_ids: set[str] = field(default_factory=set, repr=False)

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
            if tool.behaviour is Behaviour.REPORTS_TWICE:
                await asyncio.sleep(1.0)
                await params.result_callback("something else")

        return handle

    def overhear(self, frame: Frame) -> None:
        """Record a call that none of these tools has seen, from what its service tells others.

        It may be one of a tool that is none of these, or one that the service answers
        in the tool's place.

        Args:
            frame: A frame that the LLM service pushes. A copy of one changes nothing.
        """
        if isinstance(frame, FunctionCallInProgressFrame):
            declared = any(tool.name == frame.function_name for tool in self.tools)
            if not declared and frame.tool_call_id not in self._overheard_ids:
                tool = Tool(
                    frame.function_name, cancel_on_interruption=frame.cancel_on_interruption
                )
                self.begin(tool, frame.tool_call_id, frame.arguments)
                self._overheard_ids.add(frame.tool_call_id)
        elif isinstance(frame, FunctionCallResultFrame):
            final = frame.properties is None or frame.properties.is_final
            if not any(run.tool_call_id == frame.tool_call_id for run in self.runs):
                self._note_answered(frame)
            elif final and (run := self._overheard(frame.tool_call_id)):
                self.end(run, "failed" if frame.error else "reported", frame.result)
        elif isinstance(frame, FunctionCallCancelFrame):
            if run := self._overheard(frame.tool_call_id):
                self.end(run, "cancelled")

    def _note_answered(self, frame: FunctionCallResultFrame) -> None:
        """Record that no tool was called, and the model told so."""
        if any(run.tool_call_id == frame.tool_call_id for run in self.answered):
            return  # a copy
        at, tick = self.now()
        self.answered.append(
            ToolRun(
                *(frame.tool_call_id, frame.function_name, dict(frame.arguments), at, tick),
                ended=at,
                ended_tick=tick,
                ending="failed",
                result=frame.result,
            )
        )

    def _overheard(self, tool_call_id: str) -> ToolRun | None:
        """The run of an overheard call, unless it has ended."""
        if tool_call_id not in self._overheard_ids:
            return None
        runs = [run for run in self.runs if run.tool_call_id == tool_call_id]
        return runs[0] if runs and not runs[0].ending else None

    def begin(self, tool: Tool, tool_call_id: str, arguments: Mapping[str, Any]) -> ToolRun:
        """Record that a call begins.

        Args:
            tool: The tool.
            tool_call_id: The id of the call.
            arguments: Its arguments.
        """
        at, tick = self.now()
        outlives = not tool.cancel_on_interruption
        self.runs.append(
            ToolRun(tool_call_id, tool.name, dict(arguments), at, tick, outlives=outlives)
        )
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
