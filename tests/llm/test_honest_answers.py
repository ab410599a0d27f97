# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Rule 13, value by value: the round ends, the model is told the truth once, nothing goes on.

Each input is played on the whole bot, alone and beside a call that does well, with a tool that the
model waits for and with one that outlives the turn.
"""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from pipecat.services.llm_service import FunctionCallParams

from pipecat_turn_acid import side_effects
from pipecat_turn_acid.testing.checks import check_history, errors
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, Conversation, Outcome, play
from pipecat_turn_acid.testing.script import ANY_TOOL, ChatRequest, Script, ToolState
from pipecat_turn_acid.testing.tools import Behaviour, Tool

awaited = pytest.mark.parametrize("awaited", [True, False], ids=["awaited", "outliving"])
beside = pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a good call"])


def model(arguments: Any, *, beside: bool, truncated: bool = False) -> Script:
    script = Script()
    script.on(after_tool=ANY_TOOL, state=None).say("I see.")
    rule = script.on()
    if beside:
        rule.call("check")
    rule.call("look_up", arguments)
    if truncated:
        rule.truncate()
    return script


def called(
    arguments: Any = None,
    *,
    tool: Tool | None = None,
    beside: bool = False,
    truncated: bool = False,
    **changes: Any,
) -> Outcome:
    """Let the model call ``look_up``, and check what holds whatever comes of it."""
    tool = tool or Tool("look_up")
    conversation = Conversation(
        name="honest",
        says=("Look it up.",),
        barge_in="Never mind.",
        script=lambda: model(arguments or {}, beside=beside, truncated=truncated),
        tools=(tool, Tool("check", seconds=0.2)),
        voice="text",
    )
    outcome = play(conversation.but(**changes), TRANSACTIONAL)

    assert [request.status for request in outcome.requests] == [200] * len(outcome.requests)
    assert errors(check_history(outcome.history)) == []
    assert not outcome.in_progress and outcome.rested
    return outcome


def told(outcome: Outcome, *, beside: bool = False) -> Any:
    """What became of ``look_up``, as one request shows it, which is the last."""
    requests = [ChatRequest({"messages": list(r.messages)}) for r in outcome.requests]
    answers = [r.answer("look_up") for r in requests if any(c.name == "look_up" for c in r.calls)]
    assert [a.state is ToolState.ANSWERED for a in answers] == [False] * (len(answers) - 1) + [True]
    assert requests[-1].answer("look_up") == answers[-1]
    assert [c.value for c in requests[-1].calls if c.name == "check"] == [{"ok": True}] * beside
    assert outcome.history[-1]["content"] == "I see."
    return answers[-1].value


def is_refused(answer: str) -> bool:
    return "JSON" in answer and answer.endswith("so it was not called.")


# --- arguments ---------------------------------------------------------------------------------


@beside
@awaited
@pytest.mark.parametrize(
    "arguments",
    ['{"order": ', "order 4471", "[1, 2]", '"4471"', "4471", "true"],
    ids=["cut off", "no JSON", "a list", "a text", "a number", "a truth value"],
)
def test_arguments_that_are_no_json_object_are_answered_and_call_nothing(
    arguments, awaited, beside
):
    """The model can only try again if it is told, and a tool takes nothing else."""
    tool = Tool("look_up", cancel_on_interruption=awaited)

    outcome = called(arguments, tool=tool, beside=beside)

    assert is_refused(told(outcome, beside=beside))
    assert [run.name for run in outcome.runs] == ["check"] * beside
    (call,) = [m["tool_calls"][-1] for m in outcome.history if "tool_calls" in m]
    assert call["function"]["arguments"] == "{}"


@beside
def test_arguments_that_the_model_had_no_room_for_are_answered(beside):
    """The response ends with the finish reason ``length``."""
    outcome = called({"order_id": "44714471"}, beside=beside, truncated=True)

    assert is_refused(told(outcome, beside=beside))
    assert [run.name for run in outcome.runs] == ["check"] * beside


@pytest.mark.parametrize("arguments", ["", "null"])
def test_arguments_of_nothing_are_none_at_all(arguments):
    """Some models send no object for a tool that takes no arguments."""
    outcome = called(arguments)

    assert told(outcome) == {"ok": True}
    assert [run.arguments for run in outcome.runs] == [{}]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [('{"q": "a\\ud83d"}', {"q": "a?"}), ('{"q": NaN}', {"q": "NaN"})],
    ids=["half a character", "not a number"],
)
def test_arguments_that_cannot_be_sent_back_do_not_end_the_conversation(arguments, shown):
    """They stand in every request that follows."""
    outcome = called(arguments)

    (call,) = outcome.history[1]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == shown
    assert told(outcome) == {"ok": True}


# --- results -----------------------------------------------------------------------------------


@beside
@awaited
@pytest.mark.parametrize("value", ["", [], {}, 0, 0.0, False], ids=repr)
def test_an_empty_result_is_a_result(value, awaited, beside):
    """ "Nothing found" is an answer, and the user gets to hear it."""
    tool = Tool("look_up", result=value, cancel_on_interruption=awaited)

    outcome = called(tool=tool, beside=beside)

    shown = told(outcome, beside=beside)
    assert shown == value and type(shown) is type(value)


@pytest.mark.parametrize("awaited", [True, False], ids=["awaited", "outliving"])
def test_none_is_no_result_and_says_that_the_call_is_done(awaited):
    """As in stock, where it is the way to ask for no answer."""
    outcome = called(tool=Tool("look_up", result=None, cancel_on_interruption=awaited))

    assert [m["content"] for m in outcome.history if m["role"] == "tool"] == ["COMPLETED"]
    assert len(outcome.requests) == 1


def test_none_beside_a_result_is_shown_with_it():
    outcome = called(tool=Tool("look_up", result=None), beside=True)

    shown = [m["content"] for m in outcome.requests[-1].messages if m["role"] == "tool"]
    assert shown == ['{"ok": true}', "COMPLETED"]
    assert len(outcome.requests) == 2


@beside
def test_a_huge_result_is_shown_whole(beside):
    value = ["ä" * 1000] * 1000

    outcome = called(tool=Tool("look_up", result=value), beside=beside)

    assert told(outcome, beside=beside) == value


def _circle() -> Any:
    circle: dict[str, Any] = {}
    circle["itself"] = circle
    return circle


@beside
@awaited
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({1, 2}, "set"),
        (b"bytes", "bytes"),
        (object(), "object"),
        (_circle(), "dict"),
        ({(1, 2): "a key"}, "dict"),
    ],
    ids=["a set", "bytes", "an object", "a circle", "a key"],
)
def test_a_result_that_json_cannot_hold_is_named(value, kind, awaited, beside):
    """The tool has done its work, and that much is said."""
    tool = Tool("look_up", result=value, cancel_on_interruption=awaited)

    outcome = called(tool=tool, beside=beside)

    assert told(outcome, beside=beside) == (
        f"The function `look_up` completed, but its result of type {kind} could not be passed on."
    )
    assert [run.ending for run in outcome.runs] == ["reported"] * (1 + beside)
    assert not outcome.errors


@awaited
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"name": "M\ud83dller"}, {"name": "M?ller"}),
        ({"name": "\ud83d\ude00"}, {"name": "\U0001f600"}),
        ({"price": float("nan")}, {"price": "NaN"}),
        ([float("inf")], ["Infinity"]),
    ],
    ids=["half a character", "two halves", "not a number", "infinity"],
)
def test_what_cannot_be_sent_of_a_result_does_not_end_the_conversation(value, shown, awaited):
    """It would stand in every request that follows, and none of them could be sent."""
    outcome = called(tool=Tool("look_up", result=value, cancel_on_interruption=awaited))

    assert told(outcome) == shown


@beside
@awaited
@pytest.mark.parametrize(
    ("behaviour", "text"),
    [
        (Behaviour.FAILS, "The function `look_up` failed and returned no result."),
        (Behaviour.NEVER_REPORTS, "The function `look_up` ended without reporting a result."),
    ],
    ids=lambda value: value.replace(" ", "_")[:14],
)
def test_a_tool_that_brings_no_result_says_so(behaviour, text, awaited, beside):
    tool = Tool("look_up", behaviour=behaviour, cancel_on_interruption=awaited)

    outcome = called(tool=tool, beside=beside)

    assert told(outcome, beside=beside) == text
    assert bool(outcome.errors) is (behaviour is Behaviour.FAILS)


@beside
def test_a_tool_that_takes_too_long_says_so(beside):
    outcome = called(tool=Tool("look_up", seconds=30.0, timeout=0.5), beside=beside)

    assert (
        told(outcome, beside=beside) == "The function `look_up` timed out and returned no result."
    )
    assert outcome.seconds < 15


@awaited
def test_a_tool_with_side_effects_that_takes_too_long_may_have_completed(awaited):
    """The model would otherwise order twice."""
    tool = Tool("look_up", (), 30.0, timeout=0.5, cancel_on_interruption=awaited, mark=side_effects)
    outcome = called(tool=tool)

    assert told(outcome) == (
        "The function `look_up` timed out and returned no result. It may have completed. "
        "Check before repeating it."
    )


@beside
@awaited
def test_a_tool_that_nobody_has_registered_says_so(awaited, beside):
    """Alone there is no other call to bring the run about."""

    async def prepare(bot: Any) -> None:
        bot.llm.unregister_function("look_up")

    tool = Tool("look_up", cancel_on_interruption=awaited)
    outcome = called(tool=tool, beside=beside, prepare=prepare)

    assert told(outcome, beside=beside) == "The function `look_up` is not currently available."


@awaited
@pytest.mark.parametrize("pause", [0.0, 0.5], ids=["at once", "when the first is history"])
def test_of_two_reports_the_first_stands(pause, awaited):
    async def prepare(bot: Any) -> None:
        async def look_up(params: FunctionCallParams) -> None:
            await params.result_callback("first")
            await asyncio.sleep(pause)
            await params.result_callback("second")

        bot.llm.register_function("look_up", look_up, cancel_on_interruption=awaited)

    outcome = called(tool=Tool("look_up", cancel_on_interruption=awaited), prepare=prepare)

    assert told(outcome) == "first"
    assert [m["content"] for m in outcome.history if m["role"] == "tool"] == ['"first"']


# --- ids ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tool_call_id",
    ["call_1", "look_up", "", "c" * 40],
    ids=["one", "its name", "none", "as long as they get"],
)
def test_each_result_answers_its_own_call_whatever_ids_the_model_makes_up(tool_call_id):
    """Within a response, and from one response to the next."""
    script = Script()
    script.on(after_tool="look_up").say("I see.")
    rule = script.on()
    for name in "abc":
        rule.call("look_up", {"q": name}, id=tool_call_id)
    tool = Tool("look_up", ("q",), result=lambda arguments: arguments["q"])
    tool = replace(tool, seconds=lambda arguments: {"a": 0.6, "b": 0.2, "c": 0.4}[arguments["q"]])

    outcome = called(tool=tool, script=lambda: script, says=("Look it up.", "And once more."))

    calls = [c for m in outcome.history for c in m.get("tool_calls", [])]
    answers = {
        m["tool_call_id"]: json.loads(m["content"])
        for m in outcome.history[1:]
        if m["role"] == "tool"
    }
    assert len(answers) == len(calls) == 6
    for call in calls:
        assert json.loads(call["function"]["arguments"]) == {"q": answers[call["id"]]}
    assert len(outcome.requests) == 4
