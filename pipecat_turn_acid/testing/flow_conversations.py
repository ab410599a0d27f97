# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A pizzeria's flow in many variants, to be swept: who finishes first, and what can go wrong.

The flow has two nodes. In ``order`` the customer names a size, which leads to ``confirm``; there the
order is read back and may still be changed. The barge-in corrects the size. Every node writes its
name into the history, so each request can be held against it: the functions that are offered, the
messages and the state must be those of one and the same node.

Where a variant has a number, it is that of the list in ``docs/flows.md``.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pipecat.flows import (
    ContextStrategy,
    ContextStrategyConfig,
    FlowArgs,
    FlowManager,
    FlowsFunctionSchema,
    NodeConfig,
)
from pipecat.processors.aggregators.llm_context import NOT_GIVEN

from pipecat_turn_acid.policy import side_effects
from pipecat_turn_acid.testing import _compat
from pipecat_turn_acid.testing.conversation import Bot, Conversation, Outcome, Request
from pipecat_turn_acid.testing.judge import Fault, FaultKind
from pipecat_turn_acid.testing.script import ChatRequest, Reply
from pipecat_turn_acid.testing.tools import Behaviour, Tool

_SIZES = ("small", "medium", "large")
_MARK = re.compile(r"\[node (\w+)\]")
_call_id: ContextVar[str] = ContextVar("flow_call_id")

Failing = Literal["", "raises", "times out", "missing key", "bad function"]


@dataclass(frozen=True)
class Variant:
    """How the pizzeria's functions and nodes behave.

    Parameters:
        edge: How long ``choose_size`` takes, in seconds. It leads to ``confirm``.
        beside: Functions that the model calls in the same response, with the seconds that they
            take: ``check_stock`` and ``check_price`` stay, ``collect`` leads to ``pickup``.
        leads: Whether ``choose_size`` is called at all.
        cancel: ``cancel_on_interruption`` of every function; by name where they differ.
        strategy: How ``confirm`` treats the history.
        sets_node: Whether ``choose_size`` calls ``set_node_from_config`` itself.
        failing: What is wrong with ``choose_size`` or with ``confirm``.
        speaks: Whether ``confirm`` has pre-actions and post-actions that speak.
        answers: Whether ``confirm`` responds immediately.
        marked: Whether ``choose_size`` has side effects.
    """

    edge: float = 0.2
    beside: Mapping[str, float] = field(default_factory=dict[str, float])
    leads: bool = True
    cancel: bool | Mapping[str, bool] = False
    strategy: ContextStrategy = ContextStrategy.APPEND
    sets_node: bool = False
    failing: Failing = ""
    speaks: bool = False
    answers: bool = True
    marked: bool = False

    @property
    def calls(self) -> tuple[str, ...]:
        """What the model calls when a size is named, in its order."""
        return (*(("choose_size",) if self.leads else ()), *self.beside)

    def cancels(self, name: str) -> bool:
        """Whether a barge-in cancels a function.

        Args:
            name: The function.
        """
        return self.cancel if isinstance(self.cancel, bool) else self.cancel.get(name, False)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The functions, as the judge wants to know them."""
        seconds = {"choose_size": self.edge, "change_size": 0.2, "confirm_order": 0.2}
        seconds |= {"check_stock": 0.2, "check_price": 0.2, "collect": 0.2} | dict(self.beside)
        return tuple(
            Tool(
                name,
                ("size",),
                seconds=taken,
                cancel_on_interruption=self.cancels(name),
                mark=side_effects if self.marked and name == "choose_size" else None,
                timeout=0.6 if self.failing == "times out" and name == "choose_size" else None,
                behaviour=Behaviour.FAILS
                if self.failing == "raises" and name == "choose_size"
                else Behaviour.REPORTS,
            )
            for name, taken in seconds.items()
        )


# --- the flow ----------------------------------------------------------------------------------


@dataclass
class Found:
    """What a flow looked like at rest.

    Parameters:
        node: Its node.
        tools: The functions in the context.
        state: Its state.
        pending: A transition that it still means to make.
        entries: The nodes that were entered, in order.
        entered_at: When, in virtual seconds.
    """

    node: str | None
    tools: tuple[str, ...]
    state: dict[str, Any]
    pending: Any
    entries: list[str]
    entered_at: list[float]


class Pizzeria:
    """The flow of one variant. Its methods are the parts of a `Conversation`."""

    def __init__(self, variant: Variant):
        """Make a pizzeria.

        Args:
            variant: How it behaves.
        """
        self.variant = variant
        self._entries: list[tuple[str, float]] = []
        self._bot: Bot | None = None

    async def prepare(self, bot: Bot) -> None:
        """Give a bot the flow.

        Args:
            bot: The bot.
        """
        self._bot, self._entries = bot, []
        # The tools are there for the judge; the flow brings its own.
        for tool in bot.conversation.tools:
            bot.llm.unregister_function(tool.name)
        bot.context.set_tools(NOT_GIVEN)
        identifying = _compat.with_call_ids(bot.kit.part("flow_manager"), _call_id)
        bot.flow_manager = bot.kit.but(flow_manager=identifying).make(
            "flow_manager",
            llm=bot.llm,
            context_aggregator=bot.aggregators,
            worker=bot.worker,
            global_functions=[self._function("open_hours")],
        )
        await bot.flow_manager.initialize(self.node("order"))

    def inspect(self, bot: Bot) -> Found:
        """Look at the flow at rest.

        Args:
            bot: The bot.
        """
        flow = bot.flow_manager
        tools = bot.context.tools
        names = () if tools is NOT_GIVEN else tuple(s.name for s in tools.standard_tools)
        return Found(
            flow.current_node,
            tuple(sorted(names)),
            dict(flow.state),
            _compat.pending_transition(flow),
            [node for node, _ in self._entries],
            [at for _, at in self._entries],
        )

    # --- nodes ---

    def node(self, name: str) -> NodeConfig:
        """A node of the flow.

        Args:
            name: Its name.
        """
        task = {
            "order": "[node order] Ask for the size.",
            "confirm": "[node confirm] It is a {{ size }} pizza. Ask whether that is right.",
            "pickup": "[node pickup] Say when the pizza can be collected.",
        }[name]
        functions: list[Any] = [self._function(one) for one in _FUNCTIONS[name]]
        node: NodeConfig = {
            "name": name,
            "role_message": f"You take orders for pizza. You are at {name}.",
            "task_messages": [{"role": "developer", "content": task}],
            "functions": functions,
            "pre_actions": [{"type": f"note_{name}", "handler": self._noting(name)}],
            "respond_immediately": name != "order" and self.variant.answers,
        }
        if name != "confirm":
            return node
        if self.variant.strategy is not ContextStrategy.APPEND:
            summary = self.variant.strategy is ContextStrategy.RESET_WITH_SUMMARY
            node["context_strategy"] = ContextStrategyConfig(
                self.variant.strategy, "Summarize." if summary else None
            )
        if self.variant.speaks:
            node["pre_actions"] = [
                {"type": "tts_say", "text": "One moment please."},
                *node["pre_actions"],
            ]
            node["post_actions"] = [{"type": "tts_say", "text": "I am listening."}]
        if self.variant.failing == "missing key":
            node["task_messages"] = [{"role": "developer", "content": task + " {{ topping }}"}]
        if self.variant.failing == "bad function":
            functions.append("add_topping")
        return node

    def _noting(self, name: str) -> Callable[..., Any]:
        async def note(action: dict[str, Any], flow_manager: FlowManager) -> None:
            assert self._bot is not None
            self._entries.append((name, self._bot.toolbox.now()[0]))

        return note

    # --- functions ---

    def _function(self, name: str) -> FlowsFunctionSchema:
        tools = {tool.name: tool for tool in self.variant.tools}
        tool = tools.get(name) or Tool(name)
        handler = self._handler(tool)
        if tool.mark and self._bot and self._bot.kit.transactional:
            handler = tool.mark(handler)
        return FlowsFunctionSchema(
            name=name,
            description=tool.schema.description,
            properties=tool.schema.properties,
            required=tool.schema.required,
            handler=handler,
            cancel_on_interruption=tool.cancel_on_interruption if name in tools else False,
            timeout_secs=tool.timeout,
        )

    def _handler(self, tool: Tool) -> Callable[..., Any]:
        async def handler(args: FlowArgs, flow_manager: FlowManager) -> Any:
            assert self._bot is not None
            toolbox = self._bot.toolbox
            run = toolbox.begin(tool, _call_id.get(), args)
            if tool.name in ("choose_size", "change_size"):
                # Early, as a handler does that counts on reaching its end.
                flow_manager.state["size"] = args["size"]
            try:
                await asyncio.sleep(5.0 if tool.timeout else tool.duration(args))
            except asyncio.CancelledError:
                toolbox.end(run, "cancelled")
                raise
            if tool.behaviour is Behaviour.FAILS:
                toolbox.end(run, "failed")
                raise RuntimeError(f"{tool.name} is out of order")
            result = {"size": args.get("size"), "by": tool.name}
            goal = {"choose_size": "confirm", "collect": "pickup"}.get(tool.name)
            if goal and self.variant.sets_node:
                await flow_manager.set_node_from_config(self.node(goal))
                goal = None
            toolbox.end(run, "reported", result)
            return (result, self.node(goal)) if goal else (result, None)

        return handler

    # --- the model ---

    def model(self, request: ChatRequest) -> Reply:
        """Answer as a model would that sees this request and nothing else.

        Args:
            request: The request.
        """
        said = Reply()
        if "Conversation history" in request.system and not request.tools:
            return said.say("The customer wants a pizza.")
        size = _last_size(request)
        if not size:
            return said.say("Which size would you like?")
        if "confirm_order" in request.tools:
            ordered = _size_of_task(request)
            changed = [call for call in request.calls if call.name == "change_size"]
            if changed and changed[-1].content is not None:
                ordered = _size_in(changed[-1].arguments)
            if size != ordered and not any(c.name == "change_size" for c in request.recent):
                return said.call("change_size", {"size": size})
            return said.say(f"A {ordered} pizza, is that right?")
        if "say_time" in request.tools:
            return said.say(f"You can collect the {size} pizza at eight.")
        made = {call.name for call in request.recent}
        if _was_in_vain(request):
            made.discard("choose_size")
        missing = [name for name in self.variant.calls if name not in made]
        if not missing:
            return said.say(f"I have looked into the {size} pizza.")
        for name in missing:
            said = said.call(name, {"size": size})
        return said

    # --- the verdict ---

    def judged(self, outcome: Outcome, faults: list[Fault]) -> list[Fault]:
        """Hold the flow against the conversation.

        Args:
            outcome: What a run left behind.
            faults: What is wrong in general.
        """
        kept = [fault for fault in faults if not self._is_excused(fault, outcome)]
        problems = [*self._at_rest(outcome), *self._in_requests(outcome.requests)]
        return kept + [Fault(FaultKind.FLOW, problem) for problem in dict.fromkeys(problems)]

    def _is_excused(self, fault: Fault, outcome: Outcome) -> bool:
        if (
            self.variant.failing in ("missing key", "bad function")
            and fault.kind is FaultKind.ERROR
        ):
            return True
        if fault.kind is FaultKind.DEAD_TURN:
            # A summary is asked for beside the conversation, and nobody hears it.
            asides = [n for n, r in enumerate(outcome.requests, 1) if not r.tools]
            return any(fault.detail.startswith(f"request {number} ") for number in asides)
        resets = self.variant.strategy is not ContextStrategy.APPEND
        return resets and fault.kind in (FaultKind.LOST, FaultKind.USER_WORDS)

    @property
    def goal(self) -> str:
        """The node in which the flow must come to rest."""
        return "confirm" if self.variant.leads and not self.variant.failing else "order"

    def _at_rest(self, outcome: Outcome) -> Sequence[str]:
        found: Found = outcome.found
        problems = []
        marked = _marked(outcome.history)
        expected = tuple(sorted((*_FUNCTIONS[found.node or "order"], "open_hours")))
        if found.tools != expected:
            problems.append(f"at {found.node} the functions are {found.tools}")
        if marked != found.node:
            problems.append(f"at {found.node} the messages are those of {marked}")
        if found.entries[-1:] != [found.node] and not self.variant.failing:
            problems.append(f"at {found.node}, but {found.entries[-1:]} was entered last")
        if found.pending is not None:
            problems.append("a transition is still pending")
        if found.node != self.goal:
            problems.append(f"at {found.node}, not at {self.goal}")
        if not self.variant.failing:
            reported = [r for r in outcome.runs if r.ending == "reported"]
            leading = [r for r in reported if r.name in _LEADING]
            if len(found.entries) - 1 > len(leading):
                problems.append(f"{found.entries} were entered for {len(leading)} decisions")
        if self.variant.strategy is ContextStrategy.RESET and found.node == "confirm":
            if _marked(outcome.history[:1]) != "confirm":
                problems.append("a part of the node before is still in the history")
        problems += self._wrong_state(outcome, found)
        problems += self._too_late(outcome, found)
        return problems

    def _too_late(self, outcome: Outcome, found: Found) -> Sequence[str]:
        """Nodes that were entered for a call whose turn was over before it had an answer."""
        problems = []
        for node, at in list(zip(found.entries, found.entered_at, strict=True))[1:]:
            calls = [r for r in outcome.runs if r.name in _LEADING and r.started <= at]
            if not calls:
                continue
            call = calls[-1]
            later = [mark.at for mark in outcome.turns if mark.at > call.started]
            answered = at if call.ended is None else min(at, call.ended)
            if later and answered > later[0] + 1e-6:
                problems.append(
                    f"{node} was entered for {call.tool_call_id}, which was answered "
                    f"{answered - later[0]:.3f} s after its turn"
                )
        return problems

    def _wrong_state(self, outcome: Outcome, found: Found) -> Sequence[str]:
        size = found.state.get("size")
        corrected = len(outcome.barge_ins) == 1 and not outcome.false_start
        named = re.findall("|".join(_SIZES), " ".join(said.text for said in outcome.said))
        wanted = named[-1] if named and (corrected or not outcome.barge_ins) else None
        if not self.variant.leads:
            return []
        if wanted and size != wanted:
            return [f"the state holds {size}, not {wanted}"]
        answer = next((r.said for r in reversed(outcome.requests) if r.final and r.said), "")
        told = _size_in(answer)
        if told and size != told:
            return [f"the state holds {size}, and {told} was said"]
        return []

    def _in_requests(self, requests: Sequence[Request]) -> Sequence[str]:
        problems = []
        for number, request in enumerate(requests, 1):
            marked = _marked(request.messages)
            if marked is None or not request.tools:  # a request for a summary
                continue
            expected = {*_FUNCTIONS[marked], "open_hours"}
            if set(request.tools) != expected:
                problems.append(
                    f"request {number} has the messages of {marked} and offers {request.tools}"
                )
            system = next((m for m in request.messages if m.get("role") == "system"), {})
            if f"You are at {marked}." not in str(system.get("content")):
                problems.append(
                    f"request {number} has the messages of {marked} and the role of another node"
                )
        return problems


_LEADING = ("choose_size", "collect")
_FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "order": ("choose_size", "check_stock", "check_price", "collect"),
    "confirm": ("confirm_order", "change_size"),
    "pickup": ("say_time",),
}


def _marked(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """The node whose messages came last."""
    found = [m for one in messages for m in _MARK.findall(str(one.get("content")))]
    return found[-1] if found else None


def _size_in(text: str) -> str:
    found = re.findall("|".join(_SIZES), text)
    return found[-1] if found else ""


def _was_in_vain(request: ChatRequest) -> bool:
    """Whether the last call that leads on came to nothing, and the history says so."""
    leading = [call for call in request.calls if call.name == "choose_size"]
    if not leading:
        return False
    was_cut = "INTERRUPTED" in (leading[-1].content or "")
    return was_cut or f"Tool call {leading[-1].tool_call_id} " in request.system


def _last_size(request: ChatRequest) -> str:
    """The size that the user named last, or that the node's task names."""
    named = [str(m.get("content")) for m in request.messages if m.get("role") == "user"]
    return _size_in(" ".join(named)) or _size_of_task(request)


def _size_of_task(request: ChatRequest) -> str:
    tasks = [str(m.get("content")) for m in request.messages if "[node" in str(m.get("content"))]
    return _size_in(tasks[-1]) if tasks else ""


# --- the conversations -------------------------------------------------------------------------


def pizza(name: str, variant: Variant, **changes: Any) -> Conversation:
    """A conversation with a pizzeria.

    Args:
        name: The conversation's name.
        variant: How the pizzeria behaves.
        **changes: Other parts of the conversation.
    """
    pizzeria = Pizzeria(variant)
    conversation = Conversation(
        name=name,
        says=("A large pizza, please.",),
        barge_in="No wait, a small one.",
        second_barge_in="Make it a medium one.",
        script=lambda: pizzeria.model,
        tools=variant.tools,
        expects="small",
        extra_answers=int(variant.strategy is ContextStrategy.RESET_WITH_SUMMARY),
        prepare=pizzeria.prepare,
        inspect=pizzeria.inspect,
        judged=pizzeria.judged,
    )
    return replace(conversation, **changes)


_QUICK_EDGE = Variant(edge=0.2, beside={"check_stock": 1.0})
_SLOW_EDGE = Variant(edge=1.0, beside={"check_stock": 0.2})
_ONE_EDGE = Variant(edge=0.8)
_CANCELS = {"choose_size": True, "check_stock": True, "change_size": True}

quick_edge = pizza("quick_edge", _QUICK_EDGE)
"""(i) A quick edge function beside a slower node function."""

slow_edge = pizza("slow_edge", _SLOW_EDGE)
"""(ii) A slow edge function beside a quicker node function."""

two_edges = pizza("two_edges", Variant(edge=0.2, beside={"collect": 0.8}))
"""(iii) Two edge functions to different nodes; the first in the model's order is the quicker."""

two_edges_crossed = pizza("two_edges_crossed", Variant(edge=0.8, beside={"collect": 0.2}))
"""(iii) The same, and the first in the model's order is the slower."""

two_nodes = pizza(
    "two_nodes", Variant(leads=False, beside={"check_stock": 0.3, "check_price": 0.9})
)
"""(iv) Two node functions."""

sets_node = pizza("sets_node", replace(_ONE_EDGE, sets_node=True))
"""(v) An edge function whose handler calls ``set_node_from_config``."""

append = pizza("append", _ONE_EDGE)
"""(vi) One edge function of 0.8 s, with APPEND."""

reset = pizza("reset", replace(_ONE_EDGE, strategy=ContextStrategy.RESET))
"""(vi) The same with RESET."""

summary = pizza("summary", replace(_ONE_EDGE, strategy=ContextStrategy.RESET_WITH_SUMMARY))
"""(vi) The same with RESET_WITH_SUMMARY."""

append_cancels = pizza("append_cancels", replace(_ONE_EDGE, cancel=True))
"""(vii) ``append`` with ``cancel_on_interruption=True``."""

reset_cancels = pizza(
    "reset_cancels", replace(_ONE_EDGE, cancel=True, strategy=ContextStrategy.RESET)
)
"""(vii) ``reset`` with ``cancel_on_interruption=True``."""

quick_edge_cancels = pizza("quick_edge_cancels", replace(_QUICK_EDGE, cancel=True))
"""(vii) ``quick_edge`` with ``cancel_on_interruption=True``."""

slow_edge_cancels = pizza("slow_edge_cancels", replace(_SLOW_EDGE, cancel=True))
"""(vii) ``slow_edge`` with ``cancel_on_interruption=True``."""

mixed = pizza("mixed", replace(_QUICK_EDGE, cancel={"check_stock": True}))
"""(vii) A quick edge function that outlives the turn beside a slower one that does not."""

mixed_crossed = pizza("mixed_crossed", replace(_SLOW_EDGE, cancel={"choose_size": True}))
"""(vii) A slow edge function that does not outlive the turn beside a quicker one that does."""

sets_node_cancels = pizza("sets_node_cancels", replace(_ONE_EDGE, sets_node=True, cancel=True))
"""(v, vii) ``sets_node`` with ``cancel_on_interruption=True``."""

append_marked = pizza("append_marked", replace(_ONE_EDGE, cancel=True, marked=True))
"""(vii) ``append_cancels`` with side effects, which stay on record when they are cut."""

quick_edge_marked = pizza("quick_edge_marked", replace(_QUICK_EDGE, cancel=True, marked=True))
"""(vii) ``quick_edge_cancels`` with an edge function that has side effects."""

edge_raises = pizza("edge_raises", replace(_ONE_EDGE, failing="raises"))
"""(viii) An edge function that raises."""

edge_times_out = pizza("edge_times_out", replace(_ONE_EDGE, failing="times out"))
"""(viii) An edge function that times out."""

missing_key = pizza("missing_key", replace(_ONE_EDGE, failing="missing key"))
"""(viii) An edge function that returns a node whose text names a key that is not in the state."""

bad_function = pizza("bad_function", replace(_ONE_EDGE, failing="bad function"))
"""(viii) An edge function that returns a node with a function that is none."""

speaking = pizza("speaking", replace(_ONE_EDGE, edge=0.3, speaks=True))
"""(ix) A node with pre-actions and post-actions that speak."""

speaking_cancels = pizza("speaking_cancels", replace(_ONE_EDGE, edge=0.3, speaks=True, cancel=True))
"""(ix) The same with ``cancel_on_interruption=True``."""

long_edge = pizza(
    "long_edge",
    replace(_ONE_EDGE, edge=2.5),
    barge_in="No wait, I have thought about it again, and I would rather have a small one.",
)
"""(x) An edge function that ends while the user is talking."""

late_edge = pizza("late_edge", replace(_ONE_EDGE, edge=7.0), quiet=3.0).but(extra_answers=1)
"""(x) An edge function that ends long after the user has said something else.

The late result is told to the user, beside the answer that the new node brings.
"""

ALL: tuple[Conversation, ...] = (
    quick_edge,
    slow_edge,
    two_edges,
    two_edges_crossed,
    two_nodes,
    sets_node,
    append,
    reset,
    summary,
    append_cancels,
    reset_cancels,
    quick_edge_cancels,
    slow_edge_cancels,
    mixed,
    mixed_crossed,
    sets_node_cancels,
    append_marked,
    quick_edge_marked,
    edge_raises,
    edge_times_out,
    missing_key,
    bad_function,
    speaking,
    speaking_cancels,
    long_edge,
    late_edge,
)
"""All of them."""
