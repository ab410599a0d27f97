# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""How a script reads a history, and which rule answers it."""

import json
import re
from typing import Any

import pytest
from pipecat.processors.aggregators import async_tool_messages

from pipecat_turn_acid.testing.script import (
    ANY_TOOL,
    Call,
    ChatRequest,
    Reply,
    Say,
    Script,
    ToolState,
    UnscriptedRequestError,
)

Message = dict[str, Any]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def called(name: str, tool_call_id: str, arguments: str = "{}") -> Message:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "tool_calls": [{"id": tool_call_id, "type": "function", "function": function}],
    }


def result(tool_call_id: str, content: str) -> Message:
    return {"role": "tool", "tool_call_id": tool_call_id, "content": content}


def request(*messages: Message) -> ChatRequest:
    return ChatRequest({"model": "gpt-4.1", "messages": list(messages)})


def answer(script: Script, *messages: Message) -> str:
    """What the script says to a history."""
    asked = request(*messages)
    [part] = script(asked).resolved(asked).parts
    return str(part.text) if isinstance(part, Say) else part.name  # type: ignore[union-attr]


ORDER = [user("Order 4471?"), called("status", "a"), result("a", '{"status": "shipped"}')]


def test_the_first_rule_that_fits_answers():
    script = Script()
    script.on(user="4471").say("one")
    script.on(user="order").say("two")

    assert answer(script, user("What is the status of order 4471?")) == "one"
    assert answer(script, user("ORDER 4472, please.")) == "two"


def test_only_what_the_user_said_last_counts():
    script = Script()
    script.on(user="4471").say("4471")
    script.on(user="4472").say("4472")

    assert answer(script, user("Order 4471?"), user("Sorry, I meant order 4472.")) == "4472"


def test_a_rule_may_take_a_pattern_a_function_or_anything():
    script = Script()
    script.on(user=re.compile(r"\b4\d\d\d\b")).say("pattern")
    script.on(user=lambda said: said.endswith("!")).say("function")
    script.on().say("anything")

    assert answer(script, user("Order 4471?")) == "pattern"
    assert answer(script, user("Stop!")) == "function"
    assert answer(script) == "anything"


def test_the_words_of_a_message_in_parts_are_read():
    script = Script()
    script.on(user="4471").say("found")

    parts = [{"type": "text", "text": "Order 4471?"}, {"type": "image_url", "image_url": {}}]
    assert answer(script, {"role": "user", "content": parts}) == "found"


def test_a_reply_is_built_from_the_result_in_the_history():
    script = Script()
    script.on(after_tool="status").say(lambda r: f"It is {r.result('status')['status']}.")

    assert answer(script, *ORDER) == "It is shipped."


def test_arguments_are_built_from_the_history_too():
    script = Script()
    script.on(after_tool="status").call("notify", lambda r: {"text": r.result("status")["status"]})

    asked = request(*ORDER)
    [part] = script(asked).resolved(asked).parts
    assert part == Call("notify", '{"text": "shipped"}')


def test_a_rule_without_a_tool_is_not_for_a_turn_that_has_called_one():
    script = Script()
    script.on(user="4471").call("status")
    script.on(after_tool="status").say("Done.")

    assert answer(script, user("Order 4471?")) == "status"
    assert answer(script, *ORDER) == "Done."


def test_the_calls_of_an_earlier_turn_do_not_count():
    script = Script()
    script.on(after_tool=ANY_TOOL, state=None).say("tool")
    script.on().say("no tool")

    assert answer(script, *ORDER, user("Thanks.")) == "no tool"


def test_in_a_chain_the_last_call_counts():
    script = Script()
    script.on(after_tool="find").call("status")
    script.on(after_tool="status").say("Done.")
    found = [user("My order?"), called("find", "a"), result("a", "4471")]

    assert answer(script, *found) == "status"
    assert answer(script, *found, called("status", "b"), result("b", "shipped")) == "Done."


def test_several_tools_must_all_be_answered():
    script = Script()
    script.on(after_tool=["status", "stock"]).say("both")
    both = [called("status", "a"), result("a", "1"), called("stock", "b"), result("b", "2")]

    assert answer(script, user("?"), *both) == "both"
    with pytest.raises(UnscriptedRequestError, match="status"):
        script(request(user("?"), *both[:2]))


@pytest.mark.parametrize(
    ("content", "state"),
    [
        ('{"status": "shipped"}', ToolState.ANSWERED),
        ("IN_PROGRESS", ToolState.IN_PROGRESS),
        ("CANCELLED", ToolState.CANCELLED),
        (dict(async_tool_messages.build_started_message("a"))["content"], ToolState.RUNNING),
    ],
)
def test_the_state_of_a_call_is_read_from_its_result(content: str, state: ToolState):
    [call] = request(user("?"), called("status", "a"), result("a", content)).calls

    assert call.state is state


def test_a_call_without_a_result_is_missing_one():
    [call] = request(user("?"), called("status", "a", '{"id": 1}'), user("!")).calls

    assert (call.state, call.content, call.arguments) == (ToolState.MISSING, None, '{"id": 1}')


@pytest.mark.parametrize("placeholder", ["IN_PROGRESS", "CANCELLED"])
def test_a_placeholder_is_not_taken_for_a_result(placeholder: str):
    """A model that is shown IN_PROGRESS does not know the status of the order."""
    script = Script()
    script.on(after_tool="status").say("It has shipped.")
    history = [user("?"), called("status", "a"), result("a", placeholder)]

    said = answer(script, *history)
    assert said.startswith("I have no result yet: status is")

    script.on(after_tool="status", state=ToolState.IN_PROGRESS).say("One moment.")
    script.on(after_tool="status", state=ToolState.CANCELLED).say("It was cut.")
    assert answer(script, *history) in ("One moment.", "It was cut.")


def test_a_late_result_is_news_in_the_turn_in_which_it_comes():
    script = Script()
    script.on(user="4471").call("status")
    script.on(after_tool="status", state=ToolState.RUNNING).say("I am on it.")
    script.on(after_tool="status").say(lambda r: f"By the way: {r.result('status')}.")
    script.on(user="weather").say("Sunny.")
    history = [
        user("Order 4471?"),
        called("status", "a"),
        dict(async_tool_messages.build_started_message("a")),
    ]

    assert answer(script, *history) == "I am on it."
    history += [user("And the weather?")]
    assert answer(script, *history) == "Sunny."
    history += [dict(async_tool_messages.build_final_result_message("a", json.dumps("shipped")))]
    assert answer(script, *history) == "By the way: shipped."


def test_a_rule_can_be_used_up():
    script = Script()
    script.on(user="again", times=1).say("first")
    script.on(user="again").say("then")

    assert [answer(script, user("again")) for _ in range(3)] == ["first", "then", "then"]


def test_a_further_condition_can_be_set():
    script = Script()
    script.on(when=lambda r: "status" in r.tools).say("tools")
    script.on().say("none")
    tools = [{"type": "function", "function": {"name": "status"}}]

    asked = ChatRequest({"messages": [user("?")], "tools": tools})
    assert script(asked).parts == (Say("tools"),)
    assert answer(script, user("?")) == "none"


def test_a_request_that_no_rule_fits_is_named():
    with pytest.raises(UnscriptedRequestError, match="no rule fits request 1: the user said 'Hm'"):
        Script()(request(user("Hm")))


def test_another_answer_can_be_given_to_what_no_rule_fits():
    assert answer(Script(otherwise=Reply().say("Pardon?")), user("Hm")) == "Pardon?"


def test_a_damaged_history_can_be_read():
    """A server that is not strict lets anything through, and the script sees it."""
    damaged: Any = [7, {"role": "assistant", "tool_calls": [3, {"id": 1, "function": "x"}]}]
    asked = ChatRequest({"messages": damaged, "tools": [None, {"function": 3}]})

    assert [call.name for call in asked.calls] == ["None"]
    assert (asked.user, asked.system, asked.tools, asked.model) == ("", "", [], "")


@pytest.mark.parametrize(
    ("content", "value"), [("[]", []), ("0", 0), ("", ""), ("COMPLETED", "COMPLETED")]
)
def test_a_result_is_decoded_if_it_is_json(content: str, value: Any):
    asked = request(user("?"), called("status", "a"), result("a", content))

    assert asked.result("status") == value
    assert asked.calls[0].state is ToolState.ANSWERED


def test_a_result_that_is_not_there_is_an_error():
    with pytest.raises(LookupError, match="no call of status"):
        request(user("?")).result("status")
