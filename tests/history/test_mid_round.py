# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What is done to the history while a tool works, by what the next request shows of it."""

import copy
import json
from typing import Any

import pytest
from pipecat.frames.frames import (
    LLMMessagesAppendFrame,
    LLMMessagesTransformFrame,
    LLMMessagesUpdateFrame,
    LLMSummarizeContextFrame,
    UserImageRawFrame,
)

from pipecat_turn_acid.events import HistoryRepaired, TurnEvent
from pipecat_turn_acid.testing.checks import check_history, errors
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, At, Bot, Conversation, play
from pipecat_turn_acid.testing.conversations import chain, order, parallel
from pipecat_turn_acid.testing.judge import Fault, FaultKind
from pipecat_turn_acid.testing.script import ChatRequest, Reply
from pipecat_turn_acid.testing.sweep import sweep

NOTE: Any = {"role": "developer", "content": "The shop has moved."}
SUMMARY = "The user asked about an order."
ANSWER = "Order 4471 has been shipped."
READ = order.but(voice="text")  # so that the words before the call are history when it begins


def roles(messages: Any) -> list[str]:
    return [
        "calls" if m.get("tool_calls") else m["role"] for m in messages if m["role"] != "system"
    ]


def while_the_tool_works(action: Any, conversation: Conversation = READ) -> Conversation:
    """A conversation in which something happens while its first tool works."""
    started = play(conversation, TRANSACTIONAL).runs[0].started
    return conversation.but(during=((started + 0.3, action),))


def sends(make: Any) -> Any:
    async def send(bot: Bot) -> None:
        await bot.queue(make())

    return send


# --- one request, with all of it ---------------------------------------------------------------


def without_the_last(messages: Any) -> Any:
    return [*messages[:-1], NOTE]


@pytest.mark.parametrize("run_llm", [False, True], ids=["", "and a run"])
@pytest.mark.parametrize(
    ("make", "before"),
    [
        (lambda run: LLMMessagesAppendFrame([NOTE], run_llm=run), ["user", "assistant"]),
        (lambda run: LLMMessagesTransformFrame(without_the_last, run_llm=run), ["user"]),
        (lambda run: LLMMessagesUpdateFrame([NOTE], run_llm=run), []),
    ],
    ids=["append", "transform", "update"],
)
def test_one_request_shows_what_was_done_and_then_the_round(make, before, run_llm):
    """A run that is asked for meanwhile is made with the round's own."""
    outcome = play(while_the_tool_works(sends(lambda: make(run_llm))), TRANSACTIONAL)

    assert len(outcome.requests) == 2
    assert roles(outcome.requests[1].messages) == [*before, "developer", "calls", "tool"]
    assert roles(outcome.history) == [*before, "developer", "calls", "tool", "assistant"]
    assert outcome.history[-1]["content"] == ANSWER
    assert not any(request.refusal for request in outcome.requests)
    assert not outcome.in_progress


@pytest.mark.parametrize(
    ("act", "before"),
    [
        (lambda context: context.set_messages([NOTE]), ["developer"]),
        (lambda context: context.transform_messages(without_the_last), ["user", "developer"]),
        (lambda context: context.messages.clear(), []),
        (lambda context: context.add_message(NOTE), ["user", "assistant", "developer"]),
    ],
    ids=["set_messages", "transform_messages", "the list itself", "add_message"],
)
def test_what_the_application_does_to_the_messages_leaves_the_round_whole(act, before):
    """In the middle of a call, by hand, without a frame."""

    async def meanwhile(bot: Bot) -> None:
        act(bot.context)

    outcome = play(while_the_tool_works(meanwhile), TRANSACTIONAL)

    assert roles(outcome.history) == [*before, "calls", "tool", "assistant"]
    assert outcome.history[-1]["content"] == ANSWER
    assert len(outcome.requests) == 2
    assert not outcome.in_progress


def test_a_round_that_is_cut_is_not_put_behind_what_replaced_the_history():
    conversation = while_the_tool_works(sends(lambda: LLMMessagesUpdateFrame([NOTE])))
    ((replaced_at, _),) = conversation.during

    outcome = play(conversation, TRANSACTIONAL, At(replaced_at + 0.1))

    assert roles(outcome.history)[:3] == ["developer", "user", "assistant"]
    assert "4471" not in str(outcome.history)
    assert outcome.history[-1]["content"] == "Order 4472 has been shipped."
    assert not outcome.in_progress


def adds_once(act: Any) -> Any:
    """A cue, and a judge who wants to find once in the history what the cue has put there."""

    def judged(outcome: Any, faults: list[Fault]) -> list[Fault]:
        added = sum(m == NOTE or isinstance(m["content"], list) for m in _texts(outcome.history))
        kept = [f for f in faults if f.kind is not FaultKind.USER_WORDS]
        if added != len(outcome.barge_ins):
            kept.append(Fault(FaultKind.LOST, f"it was added {added} times"))
        return kept

    return {"cue": act, "judged": judged}


def _texts(history: Any) -> list[Any]:
    return [message for message in history if "content" in message]


def image() -> UserImageRawFrame:
    return UserImageRawFrame(
        image=bytes(12), size=(2, 2), format="RGB", append_to_context=True, run_llm=False
    )


@pytest.mark.parametrize("conversation", [order, parallel, chain], ids=lambda one: one.name)
@pytest.mark.parametrize(
    "make",
    [
        lambda: LLMMessagesAppendFrame([copy.deepcopy(NOTE)]),
        lambda: LLMMessagesTransformFrame(lambda messages: [*messages, copy.deepcopy(NOTE)]),
        pytest.param(image, marks=pytest.mark.since(1, 13)),
    ],
    ids=["append", "transform", "image"],
)
def test_what_is_added_in_the_instant_of_a_barge_in_is_kept_once(conversation, make):
    """Whatever becomes of the round, it is no part of it."""
    report = sweep(conversation.but(**adds_once(sends(make))), TRANSACTIONAL, sample=8)

    assert not report.damaged, str(report)


# --- summaries ---------------------------------------------------------------------------------


def summarizing(seconds: float) -> Conversation:
    """A summary is asked for while the tool works, and is written some seconds later."""
    script = order.script

    def answers() -> Any:
        model: Any = script()

        def answer(request: ChatRequest) -> Reply:
            return model(request) if request.stream else Reply().delay(seconds).say(SUMMARY)

        return answer

    greeted = READ.but(says=("Hello?", "Can you hear me?", *READ.says), script=answers)
    return while_the_tool_works(sends(LLMSummarizeContextFrame), greeted)


@pytest.mark.parametrize("seconds", [0.1, 0.4, 2.5], ids=["soon", "before", "after the answer"])
def test_a_summary_that_is_written_around_a_commit_leaves_the_round_whole(seconds):
    """It is asked for while the tool works; the round is complete after half a second."""
    outcome = play(summarizing(seconds), TRANSACTIONAL)

    assert SUMMARY in outcome.history[0]["content"]
    assert roles(outcome.history)[-3:] == ["calls", "tool", "assistant"]
    assert json.loads(outcome.history[-2]["content"])["order_id"] == "4471"
    assert outcome.history[-1]["content"] == ANSWER
    assert errors(check_history(outcome.history)) == []
    assert not outcome.in_progress


@pytest.mark.parametrize("seconds", [0.1, 0.4, 2.5], ids=["before", "during", "after the answer"])
@pytest.mark.parametrize("later", [0.05, 0.15])
def test_a_summary_that_is_written_around_a_rollback_knows_nothing_of_the_round(seconds, later):
    """The user barges in while the summary is being written, or right after it."""
    conversation = summarizing(seconds)
    ((asked_at, _),) = conversation.during

    outcome = play(conversation, TRANSACTIONAL, At(asked_at + later))

    assert SUMMARY in outcome.history[0]["content"]
    calls = [c for m in outcome.history for c in m.get("tool_calls", ())]
    assert [c["function"]["arguments"] for c in calls] == ['{"order_id": "4472"}']
    assert outcome.history[-1]["content"] == "Order 4472 has been shipped."
    assert errors(check_history(outcome.history)) == []
    assert not any(request.refusal for request in outcome.requests)
    assert not outcome.in_progress


# --- histories from a store --------------------------------------------------------------------


def call(tool_call_id: str) -> Any:
    function = {"name": "get_order_status", "arguments": '{"order_id": "4400"}'}
    return {"id": tool_call_id, "type": "function", "function": function}


def calls(*ids: str) -> Any:
    return {"role": "assistant", "tool_calls": [call(tool_call_id) for tool_call_id in ids]}


def result(tool_call_id: str) -> Any:
    return {"role": "tool", "content": '"shipped"', "tool_call_id": tool_call_id}


WORDS: Any = {"role": "user", "content": "Hello."}
STORED = {
    "a call": ([WORDS, calls("x")], ["user"], {"x"}),
    "a result": ([WORDS, result("x")], ["user"], {"x"}),
    "one of two calls": ([WORDS, calls("a", "x"), result("a")], ["user", "calls", "tool"], {"x"}),
    "a second result": ([calls("x"), result("x"), result("x")], ["calls", "tool"], {"x"}),
    "a result apart": ([calls("x"), WORDS, result("x")], ["calls", "tool", "user"], {"x"}),
    "both ends": ([result("x"), WORDS, calls("y", "z")], ["user"], {"x", "y", "z"}),
}
stored = pytest.mark.parametrize(("messages", "shown", "named"), STORED.values(), ids=STORED)


def loading(messages: Any, conversation: Conversation = order) -> Conversation:
    """A conversation that goes on from a stored one; what is repaired is found in the end."""
    repaired: list[HistoryRepaired] = []

    def listen(event: TurnEvent) -> None:
        if isinstance(event, HistoryRepaired):
            repaired.append(event)

    async def prepare(bot: Bot) -> None:
        repaired.clear()
        bot.context.add_listener(listen)
        bot.context.set_messages(copy.deepcopy(messages))

    return conversation.but(prepare=prepare, inspect=lambda bot: list(repaired))


@stored
def test_a_stored_history_that_came_apart_is_sent_whole_and_kept_as_it_is(messages, shown, named):
    """Every request of the call would be refused. Who watches is told once what came apart."""
    outcome = play(loading(messages, READ), TRANSACTIONAL)

    assert [request.status for request in outcome.requests] == [200, 200]
    for request in outcome.requests:
        assert roles(request.messages)[: len(shown) + 1] == [*shown, "user"]
        assert errors(check_history(list(request.messages))) == []
    assert outcome.history[: len(messages)] == messages
    (event,) = outcome.found
    assert {orphan.tool_call_id for orphan in event.orphans} == named
    assert outcome.history[-1]["content"] == ANSWER
    assert not outcome.in_progress


@stored
def test_no_barge_in_makes_a_stored_history_worse(messages, shown, named):
    """What came apart is repaired in every request, and rounds beside it come and go whole."""

    def judged(outcome: Any, faults: list[Fault]) -> list[Fault]:
        stored = ("history at rest:", "nobody made the call")
        outside = [f for f in faults if not any(text in f.detail for text in stored)]
        return [f for f in outside if f.kind is not FaultKind.USER_WORDS]

    report = sweep(loading(messages).but(judged=judged), TRANSACTIONAL, sample=6)

    assert report.clean, str(report)


def test_a_stored_history_that_is_loaded_while_a_tool_works_is_sent_repaired():
    """The open round stands whole behind it."""
    frame = LLMMessagesUpdateFrame([WORDS, calls("lost"), result("other")], run_llm=True)

    outcome = play(while_the_tool_works(sends(lambda: frame)), TRANSACTIONAL)

    assert roles(outcome.requests[1].messages) == ["user", "calls", "tool"]
    assert roles(outcome.history) == ["user", "calls", "tool", "calls", "tool", "assistant"]
    assert [request.status for request in outcome.requests] == [200, 200]
    assert not outcome.in_progress


# --- copies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_a_copy_that_is_made_while_a_tool_works_has_the_history_and_changes_nothing(duplicate):
    """A copy is another conversation: its turns are not those of the original."""
    copies: list[Any] = []

    async def meanwhile(bot: Bot) -> None:
        copies.append(duplicate(bot.context))
        copies[0].begin_turn()
        copies[0].add_message(NOTE)

    plain = play(READ, TRANSACTIONAL)
    outcome = play(while_the_tool_works(meanwhile), TRANSACTIONAL)

    assert roles(copies[0].messages) == ["user", "assistant", "developer"]
    assert copies[0].staged == ()
    assert outcome.history == plain.history
    assert [r.messages for r in outcome.requests] == [r.messages for r in plain.requests]
