# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Rule 11: tools that outlive a barge-in, and what becomes of their results."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pipecat.processors.aggregators import async_tool_messages

from pipecat_turn_acid import TurnPolicy, side_effects
from pipecat_turn_acid.testing.checks import check_history
from pipecat_turn_acid.testing.conversation import STOCK, TRANSACTIONAL, At, Conversation, play
from pipecat_turn_acid.testing.script import Script
from pipecat_turn_acid.testing.tools import Behaviour, Tool

RESULT = {"report": "Three orders are late."}


def reports():
    """A report of 4 s is asked for; meanwhile the user asks for the hours."""
    script = Script()
    script.on(user="hours", when=lambda r: "async_tool" in r.system).say("And here is the report.")
    script.on(user="hours").say("We are open from nine to five.")
    script.on(after_tool="make_report", state=None, when=lambda r: "running" in str(r.calls)).say(
        "It is being made."
    )
    script.on(after_tool="make_report", state=None).say("Here is the report.")
    script.on().call("make_report")
    return script


REPORT = Conversation(
    name="report",
    says=("Make the report.",),
    barge_in="What are your hours?",
    script=reports,
    tools=(Tool("make_report", seconds=4.0, result=RESULT, cancel_on_interruption=False),),
    voice="text",
    quiet=3.0,
)


def with_policy(late_result):
    return TRANSACTIONAL.but(policy=TurnPolicy(late_result=late_result))


@pytest.fixture(scope="module")
def instant():
    """The user speaks while the report is made, and has the answer before it is ready."""
    run = play(REPORT, TRANSACTIONAL).runs[0]
    return At(run.started + 0.5)


def news(outcome):
    """What came of the report after the notice that it is being made."""
    found = []
    history: list[Any] = outcome.history
    for message in history:
        payload = async_tool_messages.parse_message(message)
        if payload is not None:
            found.append((message["role"], payload.status, payload.result))
    return found


def requests_after(outcome):
    done = outcome.runs[0].ended
    return [request for request in outcome.requests if request.at >= done]


def fenced(outcome):
    return [e.detail for e in outcome.events if e.name == "on_stale_fenced"]


@pytest.mark.parametrize("late_result", ["deliver", "note", "drop"])
def test_a_barge_in_does_not_cancel_it_and_the_round_is_committed_in_the_end(late_result, instant):
    outcome = play(REPORT, with_policy(late_result), instant)
    assert [run.ending for run in outcome.runs] == ["reported"]
    assert [e.name for e in outcome.events if e.name.startswith("on_round")] == [
        "on_round_committed"
    ]
    assert not outcome.in_progress
    assert check_history(outcome.history) == []
    assert all(not request.refusal for request in outcome.requests)


def test_deliver_is_what_stock_does(instant):
    outcome = play(REPORT, with_policy("deliver"), instant)
    stock = play(REPORT, STOCK, instant)
    assert outcome.history == stock.history
    assert [r.messages for r in outcome.requests] == [r.messages for r in stock.requests]
    assert len(requests_after(outcome)) == 1
    assert fenced(outcome) == []


def test_note_keeps_it_for_the_next_request_and_causes_no_run(instant):
    outcome = play(REPORT, with_policy("note"), instant)
    assert requests_after(outcome) == []
    role, status, result = news(outcome)[-1]
    assert (role, status, json.loads(result or "")) == ("developer", "finished", RESULT)
    text = outcome.history[-1]["content"]
    assert "no need to mention it" in text
    assert "must convey" not in text
    assert any("policy: note" in detail for detail in fenced(outcome))


def test_drop_settles_the_call_without_its_result(instant):
    outcome = play(REPORT, with_policy("drop"), instant)
    assert requests_after(outcome) == []
    assert "Three orders are late." not in str(outcome.history)
    assert news(outcome)[0][1:] == ("finished", "DROPPED")
    assert any("policy: drop" in detail for detail in fenced(outcome))


@pytest.mark.parametrize("late_result", ["note", "drop"])
def test_a_result_that_is_not_late_is_delivered_whatever_the_policy(late_result):
    """Late means: another turn has begun since."""
    outcome = play(REPORT, with_policy(late_result))
    assert outcome.history == play(REPORT, STOCK).history
    assert len(requests_after(outcome)) == 1
    assert fenced(outcome) == []


# --- what comes late and is no result ------------------------------------------------------------

TOOL = REPORT.tools[0]
LATE = {
    "empty": (replace(TOOL, result=[]), []),
    "half a character": (replace(TOOL, result="a\ud83d"), "a?"),
    "no JSON": (
        replace(TOOL, result={1}),
        "The function `make_report` completed, but its result of type set could not be passed on.",
    ),
    "an exception": (
        replace(TOOL, behaviour=Behaviour.FAILS),
        "The function `make_report` failed and returned no result.",
    ),
    "no report": (
        replace(TOOL, behaviour=Behaviour.NEVER_REPORTS),
        "The function `make_report` ended without reporting a result.",
    ),
    "a deadline": (
        replace(TOOL, seconds=30.0, timeout=4.0),
        "The function `make_report` timed out and returned no result.",
    ),
}
late = pytest.mark.parametrize(("tool", "text"), LATE.values(), ids=LATE)


@late
def test_note_keeps_whatever_comes_late_and_causes_no_run(tool, text, instant):
    outcome = play(REPORT.but(tools=(tool,)), with_policy("note"), instant)
    role, status, result = news(outcome)[-1]
    assert (role, status, json.loads(result or "")) == ("developer", "finished", text)
    assert requests_after(outcome) == []
    assert any("policy: note" in detail for detail in fenced(outcome))
    assert not outcome.in_progress


@late
def test_drop_keeps_nothing_of_what_comes_late_and_says_only_that(tool, text, instant):
    """It does not say that the task was done, which it may not have been."""
    outcome = play(REPORT.but(tools=(tool,)), with_policy("drop"), instant)
    assert news(outcome) == [("tool", "finished", "DROPPED")]
    assert not any("completed" in str(m.get("content")) for m in outcome.history)
    assert requests_after(outcome) == []
    assert any("policy: drop" in detail for detail in fenced(outcome))
    assert not outcome.in_progress


@pytest.mark.parametrize("mark", [None, side_effects], ids=["not marked", "marked"])
def test_drop_asks_for_no_second_booking(mark, instant):
    """What came of the call is not kept, and what it did is done."""
    conversation = REPORT.but(tools=(replace(TOOL, mark=mark),))
    outcome = play(conversation, with_policy("drop"), instant)
    (dropped,) = [m["content"] for m in outcome.history if m["role"] == "tool"]
    assert ("Check before repeating it." in dropped) == (mark is not None)
    assert ("Call the tool again" in dropped) == (mark is None)
