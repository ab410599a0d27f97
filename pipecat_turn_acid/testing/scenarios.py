# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Conversations for the corners: failing and stubborn tools, other options, other interruptions.

Each is one of the five of :mod:`pipecat_turn_acid.testing.conversations` with one thing changed,
or made for the one thing it tests.
"""

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from pipecat.frames.frames import Frame, LLMMessagesAppendFrame, LLMRunFrame
from pipecat.turns.user_mute import FunctionCallUserMuteStrategy
from pipecat.turns.user_start import MinWordsUserTurnStartStrategy
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies

from pipecat_turn_acid.policy import side_effects
from pipecat_turn_acid.testing.conversation import Bot, Conversation, Outcome
from pipecat_turn_acid.testing.conversations import chain, correct, order, parallel
from pipecat_turn_acid.testing.judge import Fault, FaultKind
from pipecat_turn_acid.testing.script import (
    Answerer,
    Call,
    ChatRequest,
    Reply,
    Script,
    ToolAnswer,
    ToolState,
)
from pipecat_turn_acid.testing.tools import Behaviour, Tool

# --- tools that misbehave ----------------------------------------------------------------------


def _partly_script() -> Script:
    script = Script()
    script.on(after_tool=("get_weather", "get_traffic")).say(
        lambda r: (
            f"It is {r.result('get_weather')['weather']} in {r.result('get_weather')['city']}, "
            "and I know nothing of the traffic."
        )
    )
    script.on(user=re.compile("Paris|Rome|Madrid")).call(
        "get_weather", lambda r: {"city": _city(r)}
    ).call("get_traffic", lambda r: {"city": _city(r)})
    script.on().say("Which city do you mean?")
    return script


def _city(request: ChatRequest) -> str:
    return re.findall("Paris|Rome|Madrid", request.user)[-1]


one_fails = Conversation(
    name="one_fails",
    says=("What about weather and traffic in Paris?",),
    barge_in="Sorry, I meant Rome.",
    script=_partly_script,
    tools=(
        Tool(
            "get_weather",
            ("city",),
            seconds=0.7,
            result=lambda arguments: {"city": arguments["city"], "weather": "sunny"},
        ),
        Tool("get_traffic", ("city",), seconds=0.4, behaviour=Behaviour.FAILS),
    ),
    expects="It is sunny in Rome",
    second_barge_in="No, in Madrid.",
)
"""Two calls in one response; one of them raises."""


def _slowly(conversation: Conversation, **changes: object) -> tuple[Tool, ...]:
    """The conversation's first tool with some things changed."""
    first, *others = conversation.tools
    return (replace(first, **changes), *others)  # pyright: ignore[reportArgumentType]


stubborn = order.but(
    name="stubborn",
    tools=_slowly(order, seconds=2.5, behaviour=Behaviour.IGNORES_CANCELLATION),
)
"""A tool that swallows its cancellation and reports all the same, when nobody waits any more."""


def _timeout_script() -> Script:
    script = Script()
    script.on(after_tool="get_order_status", state=None).say(
        lambda r: f"I could not look up order {_asked(r)}."
    )
    script.on(user=re.compile(r"44\d\d")).say(lambda r: f"Let me check {_asked(r)} for you.").call(
        "get_order_status", lambda r: {"order_id": _asked(r)}
    )
    script.on().say("Which order do you mean?")
    return script


def _asked(request: ChatRequest) -> str:
    return re.findall(r"44\d\d", request.user)[-1]


timeout = order.but(
    name="timeout",
    script=_timeout_script,
    tools=_slowly(order, seconds=30.0, timeout=1.5),
    expects="I could not look up order 4472.",
)
"""A tool that is cut off by its timeout."""


# --- calls and results that are not as they should be ------------------------------------------


def _shipped(request: ChatRequest) -> Reply:
    """The answer, from what was found out about the order since the user spoke last."""
    found = [c.value for c in request.recent if c.name == "get_order_status"]
    numbers = [value["order_id"] for value in found if isinstance(value, dict)]
    return Reply().say(f"Order {numbers[-1]} has been shipped.")


def _stumbling_script() -> Answerer:
    def answer(request: ChatRequest) -> Reply:
        number = _asked(request)
        attempts = (
            Reply().call("get_order_status", f'{{"order_id": {number}'),
            Reply().call("get_order_status", f'["{number}"]'),
            Reply().call("get_invoice", {"order_id": number}),
            Reply().call("get_order_status", {"order_id": number}).truncate(),
            Reply().call("get_order_status", {"order_id": number}),
        )
        made = len(request.recent)
        return attempts[made] if made < len(attempts) else _shipped(request)

    return answer


stumbles = order.but(name="stumbles", script=_stumbling_script)
"""The model errs in every way, one call at a time, before it gets the call right."""


def _stumbling_beside_script() -> Answerer:
    def answer(request: ChatRequest) -> Reply:
        if request.recent:
            return _shipped(request)
        number = _asked(request)
        return (
            Reply()
            .call("get_order_status", f'{{"order_id": {number}')
            .call("get_order_status", {"order_id": number})
            .call("get_invoice", {"order_id": number})
            .call("get_order_status", f'["{number}"]')
            .call("get_order_status", {"order_id": f"{number}{number}"})
            .truncate()
        )

    return answer


stumbles_beside = order.but(name="stumbles_beside", script=_stumbling_beside_script)
"""The model errs in every way in one response, beside a call that is right."""


def _beside(*tools: Tool) -> Callable[[], Answerer]:
    """A model that calls other tools in one response with the one that it needs."""

    def answer(request: ChatRequest) -> Reply:
        if request.recent:
            return _shipped(request)
        reply = Reply().call("get_order_status", {"order_id": _asked(request)})
        for tool in tools:
            reply = reply.call(tool.name)
        return reply

    return lambda: answer


_ODD = tuple(
    Tool(name, seconds=0.2 + 0.15 * number, result=result)
    for number, (name, result) in enumerate(
        {
            "list_returns": [],
            "read_note": "",
            "get_details": {},
            "count_items": 0,
            "is_late": False,
            "touch": None,
            "export": {"a set"},
            "read_log": ["a line of the log"] * 50_000,
        }.items()
    )
)

odd_results = order.but(name="odd_results", script=_beside(*_ODD), tools=(*order.tools, *_ODD))
"""Results that are empty, huge, or nothing that JSON can hold, beside a plain one."""

_UNRULY = (
    Tool("forget", seconds=0.3, behaviour=Behaviour.NEVER_REPORTS),
    Tool("stammer", seconds=0.5, behaviour=Behaviour.REPORTS_TWICE),
    Tool("break_down", seconds=0.4, behaviour=Behaviour.FAILS),
)

unruly = order.but(name="unruly", script=_beside(*_UNRULY), tools=(*order.tools, *_UNRULY))
"""Tools that end without a report, report twice or raise, beside one that does its work."""


def _naming(conversation: Conversation, tool_call_id: str) -> Callable[[], Answerer]:
    """A conversation's model, if it gave the same id to all its calls."""

    def script() -> Answerer:
        model: Any = conversation.script()

        def answer(request: ChatRequest) -> Reply:
            parts = model(request).parts
            return Reply(
                tuple(replace(p, id=tool_call_id) if isinstance(p, Call) else p for p in parts)
            )

        return answer

    return script


def _by_content(outcome: Outcome, faults: list[Fault]) -> list[Fault]:
    """Hold results against the arguments of their calls, for the ids tell nothing."""
    by_id = (FaultKind.LOST, FaultKind.LEFTOVER)
    kept = [f for f in faults if f.kind not in by_id or not re.search("call|round", f.detail)]
    asked = {
        call["id"]: json.loads(call["function"]["arguments"])
        for message in outcome.history
        for call in message.get("tool_calls", ())
    }
    for message in outcome.history:
        if message["role"] == "tool":
            tool_call_id, result = message["tool_call_id"], json.loads(message["content"])
            if not set(asked[tool_call_id].values()) <= set(result.values()):
                kept.append(Fault(FaultKind.WRONG_RESULT, f"{tool_call_id} has that of another"))
    return kept


same_ids = parallel.but(name="same_ids", script=_naming(parallel, "call_1"), judged=_by_content)
"""Every call has the same id, within a response and from one response to the next."""

ids_are_names = chain.but(
    name="ids_are_names", script=_naming(chain, "find_customer"), judged=_by_content
)
"""Every call has a function's name for its id."""


# --- side effects ------------------------------------------------------------------------------


def _wary(conversation: Conversation) -> Callable[[], Answerer]:
    """A conversation's model, if it read what a record says."""

    def script() -> Answerer:
        model = conversation.script()

        def answer(request: ChatRequest) -> Any:
            if any("INTERRUPTED" in (call.content or "") for call in request.recent):
                return Reply().say("I do not know whether that was done.")
            return model(request)

        return answer

    return script


books = correct.but(
    name="books",
    script=_wary(correct),
    tools=_slowly(correct, seconds=1.0, mark=side_effects),
)
"""A booking that stays on record when it is cut."""

books_two = parallel.but(
    name="books_two", script=_wary(parallel), tools=_slowly(parallel, mark=side_effects)
)
"""Two calls with side effects; one has reported when the other is cut."""

books_on = correct.but(
    name="books_on",
    script=_wary(correct),
    tools=_slowly(
        correct, seconds=2.5, mark=side_effects, behaviour=Behaviour.IGNORES_CANCELLATION
    ),
)
"""A booking that is shielded from its cancellation, and is made after it was cut."""


# --- tools that outlive the turn ---------------------------------------------------------------


def _unsaid(request: ChatRequest, sentence: Callable[[ToolAnswer], str]) -> list[str]:
    """What there is to tell of every result, if it has not been told since it came."""
    told = []
    for call in request.calls:
        if call.state is not ToolState.ANSWERED or not isinstance(call.value, dict):
            continue  # there is no result, or none was kept
        text = sentence(call)
        later = request.messages[call.answered_at + 1 :]
        if not any(text in str(message.get("content")) for message in later):
            told.append(text)
    return told


def _outliving_script() -> Answerer:
    def shipped(call: ToolAnswer) -> str:
        return f"Order {call.value['order_id']} has been shipped."

    def answer(request: ChatRequest) -> Reply:
        number = _asked(request)
        told = _unsaid(request, shipped)
        if any(number in call.arguments for call in request.recent):
            return Reply().say(" ".join(told) or "That is still running.")
        first = " ".join([f"Let me check {number} for you.", *told])
        return Reply().say(first).call("get_order_status", {"order_id": number})

    return answer


outliving = order.but(
    name="outliving",
    script=_outliving_script,
    tools=_slowly(order, seconds=2.0, cancel_on_interruption=False),
    expects="Order 4472 has been shipped.",
    extra_answers=1,
)
"""A tool with ``cancel_on_interruption=False``: its result comes whatever the user says."""


def _mixed_script() -> Answerer:
    def news(call: ToolAnswer) -> str:
        if call.name == "get_weather":
            return f"It is {call.value['weather']} in {call.value['city']}."
        return f"The mail about {call.value['city']} has gone out."

    def answer(request: ChatRequest) -> Reply:
        city = _city(request)
        told = _unsaid(request, news)
        if any(city in call.arguments for call in request.recent):
            return Reply().say(" ".join(told) or "One moment.")
        reply = Reply().say(" ".join(told)) if told else Reply()
        return reply.call("get_weather", {"city": city}).call("send_mail", {"city": city})

    return answer


mixed = Conversation(
    name="mixed",
    says=("What is the weather in Paris? Mail it to me.",),
    barge_in="Sorry, I meant Rome.",
    script=_mixed_script,
    tools=(
        Tool(
            "get_weather",
            ("city",),
            seconds=0.6,
            result=lambda arguments: {"city": arguments["city"], "weather": "sunny"},
        ),
        Tool(
            "send_mail",
            ("city",),
            seconds=1.8,
            result=lambda arguments: {"city": arguments["city"]},
            cancel_on_interruption=False,
        ),
    ),
    expects="It is sunny in Rome.",
    extra_answers=1,
    second_barge_in="No, in Madrid.",
)
"""One call of each kind in one response."""


# --- options of the service --------------------------------------------------------------------

in_turn = parallel.but(name="in_turn", llm={"run_in_parallel": False})
"""Two calls in one response, run one after the other."""

ungrouped = parallel.but(name="ungrouped", llm={"group_parallel_tools": False})
"""Two calls in one response, which stock Pipecat answers each on its own."""


# --- frames from elsewhere ---------------------------------------------------------------------


def _sends(make: Callable[[], Frame]) -> Callable[[Bot], Awaitable[None]]:
    async def send(bot: Bot) -> None:
        await bot.queue(make())

    return send


run_during_call = order.but(
    name="run_during_call", during=((3.7, _sends(LLMRunFrame)),), extra_answers=1
)
"""An ``LLMRunFrame`` while the tool is at work."""


append_during_call = order.but(
    name="append_during_call",
    during=(
        (
            3.7,
            _sends(
                lambda: LLMMessagesAppendFrame(
                    [{"role": "developer", "content": "Be brief."}], run_llm=True
                )
            ),
        ),
    ),
    extra_answers=1,
)
"""An ``LLMMessagesAppendFrame`` that asks for a run while the tool is at work."""


async def _interrupt_from_the_output(bot: Bot) -> None:
    await bot.transport.output().broadcast_interruption()


interrupted_elsewhere = chain.but(name="interrupted_elsewhere", cue=_interrupt_from_the_output)
"""Another processor raises an interruption in the instant in which the user begins to speak."""

ends = chain.but(name="ends", ending="end")
"""The session ends by itself, with an ``EndFrame``."""

is_cancelled = chain.but(name="is_cancelled", ending="cancel")
"""The session is cancelled."""


# --- turn strategies ---------------------------------------------------------------------------


def _muting() -> dict[str, object]:
    return {"user_mute_strategies": [FunctionCallUserMuteStrategy()]}


muted = correct.but(name="muted", user_params=_muting)
"""The user is muted while a tool is at work."""


def _three_words() -> dict[str, object]:
    return {
        "user_turn_strategies": UserTurnStrategies(
            start=[MinWordsUserTurnStartStrategy(min_words=3)],
            stop=[SpeechTimeoutUserTurnStopStrategy()],
        )
    }


min_words = order.but(name="min_words", user_params=_three_words)
"""Three words are needed to interrupt the bot."""


ALL: tuple[Conversation, ...] = (
    one_fails,
    stubborn,
    timeout,
    stumbles,
    stumbles_beside,
    odd_results,
    unruly,
    same_ids,
    ids_are_names,
    books,
    books_two,
    books_on,
    outliving,
    mixed,
    in_turn,
    ungrouped,
    run_during_call,
    append_during_call,
    interrupted_elsewhere,
    ends,
    is_cancelled,
    muted,
    min_words,
)
"""All of them."""
