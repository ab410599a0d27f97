# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Rules 1, 5, 6, 7 and 13 at the service: what is done for a turn is recorded where it is done."""

import asyncio
import json

import pytest
from pipecat.frames.frames import FunctionCallResultProperties
from pipecat.services.llm_service import FunctionCallParams

from pipecat_turn_acid import side_effects
from pipecat_turn_acid.testing import conversations, scenarios
from pipecat_turn_acid.testing.checks import check_history
from pipecat_turn_acid.testing.conversation import (
    TRANSACTIONAL,
    At,
    Conversation,
    Tick,
    describe_message,
    play,
)
from pipecat_turn_acid.testing.judge import judge
from pipecat_turn_acid.testing.script import Script
from pipecat_turn_acid.testing.tools import Tool

ORDER = conversations.order
CALL = 'calls get_order_status({"order_id": "4471"}) [call_0001]'


def lines(messages):
    return [" ".join(describe_message(m).split()) for m in messages if m["role"] != "system"]


def script_of(*calls, after="Here you are.", state=None):
    """A model that makes the calls, and then says something."""
    script = Script()
    script.on(user="Never mind").say("All right.")
    script.on(after_tool=tuple({name for name, _, _ in calls}), state=state).say(after)
    rule = script.on()
    for name, arguments, tool_call_id in calls:
        rule = rule.call(name, arguments, id=tool_call_id)
    return script


def asks_for(*calls, tools=(), **changes):
    conversation = Conversation(
        name="asks_for",
        says=("Look it up.",),
        barge_in="Never mind.",
        script=lambda: script_of(*calls),
        tools=tools,
        voice="text",
    )
    return conversation.but(**changes)


# --- results are recorded at the source ----------------------------------------------------------


@pytest.mark.parametrize("voice", ["words", "sentences"])
@pytest.mark.parametrize("timeout", [None, 5.0], ids=["no timeout", "timeout"])
def test_a_reported_result_survives_the_barge_in_that_overtakes_its_frame(voice, timeout):
    """The frame waits behind the words that are being spoken; the result is a fact already."""
    (tool,) = ORDER.tools
    conversation = ORDER.but(
        voice=voice,
        tools=(Tool("get_order_status", ("order_id",), 0.8, tool.result, timeout=timeout),),
    )
    clean = play(conversation, TRANSACTIONAL)
    reported = clean.runs[0].ended_tick
    assert reported is not None
    for ticks in (1, 2, 3, 5, 9):
        outcome = play(conversation, TRANSACTIONAL, Tick(reported + ticks))
        assert f"assistant {CALL}" in lines(outcome.history), ticks
        assert judge(outcome) == []
        events = [e.name for e in outcome.events if e.name.startswith("on_round")]
        assert events == ["on_round_committed", "on_round_committed"]


@pytest.mark.parametrize("timeout", [None, 5.0], ids=["no timeout", "timeout"])
def test_a_result_is_recorded_before_anything_is_awaited_on_its_way(timeout):
    """With a deadline, the first thing on its way is to wait until the deadline's task has ended."""

    async def prepare(bot):
        async def look_up(params: FunctionCallParams):
            asyncio.get_running_loop().call_soon(bot.context.end_turn)
            await params.result_callback("done")

        bot.llm.register_function("look_up", look_up, timeout_secs=timeout)

    outcome = play(asks_for(("look_up", {}, None), prepare=prepare), TRANSACTIONAL)
    assert [m["content"] for m in outcome.history if m["role"] == "tool"] == ['"done"']
    assert [e.name for e in outcome.events if e.name.startswith("on_round")] == [
        "on_round_committed"
    ]
    assert not outcome.in_progress


def test_a_result_that_comes_after_the_barge_in_is_fenced_wherever_it_is():
    """A tool that ignores its cancellation reports into the next turn, and is not believed."""
    outcome = play(scenarios.stubborn, TRANSACTIONAL, At(4.0))
    assert [run.ending for run in outcome.runs] == ["reported", "reported"]
    assert judge(outcome) == []
    assert f"assistant {CALL}" not in lines(outcome.history)
    assert not [r for r in outcome.requests if "4471" in r.said and r.at > 4.0]


def test_what_a_tool_starts_acts_for_the_turn_that_called_it():
    """A task of the tool's own, which nobody cancels, reports for turn 1 in turn 2."""
    started = []

    async def report_later(params, seconds):
        await asyncio.sleep(seconds)
        await params.result_callback({"order_id": "4471", "status": "stale"})

    async def prepare(bot):
        async def handle(params: FunctionCallParams):
            number = params.arguments["order_id"]
            if number == "4471":
                task = asyncio.create_task(report_later(params, 3.6))
                started.append(task)
                await asyncio.shield(task)
            else:
                await asyncio.sleep(0.8)
                await params.result_callback({"order_id": number, "status": "shipped"})

        bot.llm.register_function("get_order_status", handle)

    conversation = ORDER.but(prepare=prepare)
    clean = play(conversation, TRANSACTIONAL)
    finished = clean.requests[0].finished_at
    assert finished is not None
    outcome = play(conversation, TRANSACTIONAL, At(finished + 0.3))
    assert started[-1].done()
    assert "stale" not in str(outcome.history)
    assert lines(outcome.history)[-1] == "assistant Order 4472 has been shipped."
    assert check_history(outcome.history) == []


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
def test_a_tool_that_reports_twice_has_reported_once(order):
    async def prepare(bot):
        async def look_up(params: FunctionCallParams):
            for value in order:
                await params.result_callback(value)

        bot.llm.register_function("look_up", look_up)

    outcome = play(asks_for(("look_up", {}, None), prepare=prepare), TRANSACTIONAL)
    assert [m["content"] for m in outcome.history if m["role"] == "tool"] == [json.dumps(order[0])]
    assert len(outcome.requests) == 2


def test_a_progress_report_of_a_call_that_the_model_waits_for_is_no_result():
    async def prepare(bot):
        async def look_up(params: FunctionCallParams):
            halfway = FunctionCallResultProperties(is_final=False)
            await params.result_callback("halfway", properties=halfway)
            await params.result_callback("done")

        bot.llm.register_function("look_up", look_up)

    outcome = play(asks_for(("look_up", {}, None), prepare=prepare), TRANSACTIONAL)
    assert [m["content"] for m in outcome.history if m["role"] == "tool"] == ['"done"']


# --- calls of a turn that is over ----------------------------------------------------------------


def test_a_queued_call_of_a_turn_that_is_over_never_begins():
    """The runner goes on with its queue; what is in it of a dead turn has no effect."""
    clean = play(scenarios.in_turn, TRANSACTIONAL)
    first = clean.runs[0]
    outcome = play(scenarios.in_turn, TRANSACTIONAL, At(first.started + 0.3))
    assert judge(outcome) == []
    asked = [run.arguments["city"] for run in outcome.runs]
    assert asked == ["Paris", "Rome", "Berlin"]


def test_a_response_that_ends_after_its_turn_calls_nothing():
    """The calls were streamed already when the user spoke."""
    clean = play(ORDER.but(voice="text"), TRANSACTIONAL)
    finished = clean.requests[0].finished_at
    called = clean.runs[0].started_tick
    assert finished is not None
    for tick in range(called - 8, called + 1):
        outcome = play(ORDER.but(voice="text"), TRANSACTIONAL, Tick(tick))
        assert judge(outcome) == []
        assert [run.ending for run in outcome.runs[:-1]] in ([], ["cancelled"])


# --- side effects --------------------------------------------------------------------------------

BOOK = Tool("book", seconds=0.8, mark=side_effects)
CHECK = Tool("check", seconds=0.3)
SLOW_CHECK = Tool("check", seconds=3.0)


def booked(*tools, **changes):
    return asks_for(*((tool.name, {}, None) for tool in tools), tools=tools, **changes)


def the_middle_of(conversation, number=0):
    run = play(conversation, TRANSACTIONAL).runs[number]
    assert run.ended is not None
    return At((run.started + run.ended) / 2)


def test_a_started_call_with_side_effects_stays_on_record_when_it_is_cut():
    conversation = booked(BOOK)
    outcome = play(conversation, TRANSACTIONAL, the_middle_of(conversation))
    assert [m["role"] for m in outcome.history] == [
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
    ]
    assert "may have completed" in outcome.history[2]["content"]
    assert outcome.history[1]["tool_calls"][0]["function"]["name"] == "book"
    assert check_history(outcome.history) == []
    assert not outcome.in_progress


def test_a_finished_call_with_side_effects_of_a_cut_round_keeps_its_true_result():
    conversation = booked(BOOK, SLOW_CHECK)
    outcome = play(conversation, TRANSACTIONAL, At(the_middle_of(conversation, 1).seconds))
    (call,) = [c for m in outcome.history for c in m.get("tool_calls", [])]
    assert call["function"]["name"] == "book"
    assert [m["content"] for m in outcome.history if m["role"] == "tool"] == ['{"ok": true}']


def test_a_call_with_side_effects_that_never_began_leaves_nothing():
    conversation = booked(CHECK, BOOK, llm={"run_in_parallel": False})
    outcome = play(conversation, TRANSACTIONAL, the_middle_of(conversation))
    assert [run.name for run in outcome.runs] == ["check"]
    assert not [m for m in outcome.history if m.get("tool_calls")]


def test_a_call_without_side_effects_leaves_nothing_beside_one_that_has_some():
    conversation = booked(BOOK, CHECK)
    outcome = play(conversation, TRANSACTIONAL, the_middle_of(conversation, 1))
    calls = [c["function"]["name"] for m in outcome.history for c in m.get("tool_calls", [])]
    assert calls == ["book"]
    assert check_history(outcome.history) == []


@pytest.mark.parametrize("ending", ["end", "cancel"])
def test_a_session_that_ends_in_mid_round_leaves_the_record_too(ending):
    """Who reads the history afterwards has to know what may have been done."""
    begun = play(scenarios.books_two, TRANSACTIONAL).runs[0].started
    outcome = play(scenarios.books_two.but(ending=ending), TRANSACTIONAL, At(begun + 0.5))
    cut, done = [m["content"] for m in outcome.history if m["role"] == "tool"]
    assert "may have completed" in cut
    assert json.loads(done) == {"city": "London", "weather": "sunny"}
    assert check_history(outcome.history) == []
    assert not outcome.in_progress


# --- ids and honest answers ------------------------------------------------------------------------


def test_two_calls_of_one_response_with_the_same_id_both_get_their_results():
    tools = (Tool("look_up", ("q",), result=lambda arguments: arguments["q"]),)
    calls = (("look_up", {"q": "a"}, "call_0"), ("look_up", {"q": "b"}, "call_0"))
    outcome = play(asks_for(*calls, tools=tools), TRANSACTIONAL)
    assert [m["content"] for m in outcome.history if m["role"] == "tool"] == ['"a"', '"b"']
    assert check_history(outcome.history) == []
    assert all(not request.refusal for request in outcome.requests)


@pytest.mark.parametrize("tool_call_id", ["", "look_up"], ids=["none", "the function's name"])
def test_a_call_whose_id_is_of_no_use_is_answered(tool_call_id):
    """Some services set no ids, or the function's name for one."""
    tools = (Tool("look_up"),)
    conversation = asks_for(("look_up", {}, tool_call_id), tools=tools).but(
        says=("Look it up.", "Look it up again.")
    )
    outcome = play(conversation, TRANSACTIONAL)
    ids = [c["id"] for m in outcome.history for c in m.get("tool_calls", [])]
    assert len(ids) == len(set(ids)) == 2
    assert all(ids)
    assert check_history(outcome.history) == []
    assert not outcome.in_progress


class Odd:
    pass


@pytest.mark.parametrize(
    ("report", "text"),
    [
        (Odd(), "could not be passed on"),
        ({1, 2}, "could not be passed on"),
        (ValueError("no such order"), "failed and returned no result"),
        (None, "COMPLETED"),
    ],
    ids=["no JSON", "a set", "an exception", "none"],
)
def test_a_round_ends_whatever_its_tool_does(report, text):
    """The model is told, so that it can react, and nothing stays in progress."""

    async def prepare(bot):
        async def look_up(params: FunctionCallParams):
            if isinstance(report, Exception):
                raise report
            await params.result_callback(report)

        bot.llm.register_function("look_up", look_up)

    outcome = play(asks_for(("look_up", {}, None), prepare=prepare), TRANSACTIONAL)
    (content,) = [m["content"] for m in outcome.history if m["role"] == "tool"]
    assert text in content
    assert not outcome.in_progress
    assert check_history(outcome.history) == []


def test_an_unknown_tool_is_answered_beside_a_known_one():
    tools = (Tool("look_up"),)
    outcome = play(
        asks_for(("look_up", {}, None), ("nothing", {}, None), tools=tools), TRANSACTIONAL
    )
    contents = [m["content"] for m in outcome.history if m["role"] == "tool"]
    assert contents[0] == '{"ok": true}'
    assert "nothing" in contents[1]
    assert len(outcome.requests) == 2
    assert not outcome.in_progress


def test_arguments_that_are_not_json_are_answered_beside_good_ones():
    tools = (Tool("look_up"), Tool("other"))
    calls = (("look_up", {}, None), ("other", '{"q": ', None))
    outcome = play(asks_for(*calls, tools=tools), TRANSACTIONAL)
    contents = [m["content"] for m in outcome.history if m["role"] == "tool"]
    assert contents[0] == '{"ok": true}'
    assert "JSON" in contents[1]
    assert [run.name for run in outcome.runs] == ["look_up"]
    assert len(outcome.requests) == 2
    assert check_history(outcome.history) == []
