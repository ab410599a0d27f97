# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What a message, a tool call and a result must look like, and what is said if it does not."""

import copy
from collections import OrderedDict

import pytest

from pipecat_turn_acid.core import (
    InvalidMessageError,
    Orphan,
    OrphanKind,
    ToolCall,
    encode_content,
    repair,
    require_messages,
)
from pipecat_turn_acid.core.messages import call_ids


def calls(*ids, **extra):
    function = {"name": "look_up", "arguments": "{}"}
    return {
        "role": "assistant",
        "tool_calls": [{"id": i, "type": "function", "function": function} for i in ids],
        **extra,
    }


def tool(tool_call_id, content="1"):
    return {"role": "tool", "content": content, "tool_call_id": tool_call_id}


def user(content="Hello"):
    return {"role": "user", "content": content}


# --- tool calls --------------------------------------------------------------------------------


def test_a_tool_call_is_read_from_what_stands_in_a_message():
    entry = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    call = ToolCall.from_message(entry)
    assert (call.tool_call_id, call.name, call.arguments) == ("a", "f", '{"x": 1}')


def test_arguments_may_be_a_dict():
    call = ToolCall.from_message({"id": "a", "function": {"name": "f", "arguments": {"x": "ä"}}})
    assert call.arguments == '{"x": "ä"}'


def test_a_call_without_arguments_has_none():
    assert ToolCall.from_message({"id": "a", "function": {"name": "f"}}).arguments == "{}"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("call_1", "can't stage a tool call of type str: pass a dict such as {'id': ..."),
        (None, "can't stage a tool call of type NoneType: pass a dict"),
        ({}, "can't stage a tool call without an id: set 'id' to the text that its result names"),
        ({"id": ""}, "can't stage a tool call without an id"),
        ({"id": None, "function": {"name": "f"}}, "can't stage a tool call without an id"),
        ({"id": 7, "function": {"name": "f"}}, "can't stage a tool call without an id"),
        ({"id": "a"}, "can't stage tool call 'a': its 'function' must be a dict with a 'name'"),
        ({"id": "a", "function": "f"}, "can't stage tool call 'a': its 'function' must be a dict"),
        ({"id": "a", "function": {"name": ""}}, "can't stage tool call 'a'"),
        ({"id": "a", "function": {"name": "f", "arguments": {1, 2}}}, "JSON cannot hold it"),
    ],
)
def test_a_tool_call_of_another_shape_is_refused_and_the_way_out_named(entry, message):
    with pytest.raises(InvalidMessageError) as caught:
        ToolCall.from_message(entry)
    assert message in str(caught.value)


# --- results -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("shipped", "shipped"),
        ("", ""),
        ([], "[]"),
        ({}, "{}"),
        (0, "0"),
        (None, "null"),
        (False, "false"),
        ({"city": "Köln"}, '{"city": "Köln"}'),
        (OrderedDict(a=1), '{"a": 1}'),
    ],
)
def test_a_result_is_text_or_becomes_json(value, text):
    assert encode_content(value) == text


def loop():
    circular: list = []
    circular.append(circular)
    return circular


def nest():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    return deep


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object(), {"when": object()}, loop(), nest()])
def test_a_result_that_json_cannot_hold_is_refused_and_the_way_out_named(value):
    with pytest.raises(InvalidMessageError, match="pass text, numbers, lists and dicts"):
        encode_content(value)


# --- messages ----------------------------------------------------------------------------------


class ProviderMessage:
    pass


def test_dicts_may_stand_in_a_history_and_what_one_provider_needs():
    require_messages([user(), ProviderMessage()], ProviderMessage)


@pytest.mark.parametrize("entry", ["Hello", None, ["Hello"], ProviderMessage()])
def test_anything_else_is_refused_and_the_way_out_named(entry):
    with pytest.raises(InvalidMessageError) as caught:
        require_messages([user(), entry])
    assert type(entry).__name__ in str(caught.value)
    assert "pass a dict such as {'role': 'user', 'content': 'Hello'}" in str(caught.value)


def test_a_wrong_message_is_a_type_error_too():
    """Whoever guards against ``TypeError`` keeps doing so."""
    with pytest.raises(TypeError):
        require_messages(["Hello"])


@pytest.mark.parametrize(
    "history",
    [
        [user()],
        [calls("b")],
        [ProviderMessage()],
        [{"role": "assistant", "tool_calls": "a"}],
        [{"role": "assistant", "tool_calls": ["a"]}],
    ],
)
def test_an_id_that_no_call_has_is_free(history):
    assert "a" not in call_ids(history)


def test_an_id_that_a_call_has_is_taken():
    assert call_ids([user(), calls("b", "a")]) == {"a", "b"}


# --- repair ------------------------------------------------------------------------------------

SOUND = [
    [],
    [user()],
    [user(), calls("a"), tool("a"), {"role": "assistant", "content": "Done."}],
    [calls("a", "b"), tool("a"), tool("b")],
    [calls("a", "b"), tool("b"), tool("a")],
    [calls("a"), tool("a"), calls("a"), tool("a")],
    [{"role": "assistant", "content": "Hi.", "tool_calls": []}],
    [calls("a"), ProviderMessage(), tool("a")],
]


@pytest.mark.parametrize("history", SOUND)
def test_a_sound_history_is_sent_as_it_is(history):
    sent, orphans = repair(history)
    assert orphans == ()
    assert len(sent) == len(history)
    assert all(a is b for a, b in zip(sent, history, strict=True))


DAMAGED = {
    "a call without a result": (
        [user(), calls("a"), user("Hello?")],
        [user(), user("Hello?")],
        [Orphan(OrphanKind.CALL, 1, "a")],
    ),
    "a call without a result beside one that has one": (
        [calls("a", "b"), tool("b")],
        [calls("b"), tool("b")],
        [Orphan(OrphanKind.CALL, 0, "a")],
    ),
    "words beside a call without a result": (
        [calls("a", content="One moment.")],
        [{"role": "assistant", "content": "One moment."}],
        [Orphan(OrphanKind.CALL, 0, "a")],
    ),
    "a result without a call": (
        [user(), tool("a"), user("Hello?")],
        [user(), user("Hello?")],
        [Orphan(OrphanKind.RESULT, 1, "a")],
    ),
    "a result before its call": (
        [tool("a"), calls("a")],
        [],
        [Orphan(OrphanKind.RESULT, 0, "a"), Orphan(OrphanKind.CALL, 1, "a")],
    ),
    "a second result": (
        [calls("a"), tool("a", "first"), tool("a", "second")],
        [calls("a"), tool("a", "first")],
        [Orphan(OrphanKind.RESULT, 2, "a")],
    ),
    "a result apart from its call": (
        [calls("a"), user(), tool("a")],
        [calls("a"), tool("a"), user()],
        [Orphan(OrphanKind.DISPLACED, 2, "a")],
    ),
    "two rounds mixed up": (
        [calls("a"), calls("b"), tool("a"), tool("b")],
        [calls("a"), tool("a"), calls("b"), tool("b")],
        [Orphan(OrphanKind.DISPLACED, 2, "a")],
    ),
    "an id used twice, the first without a result": (
        [calls("a"), user(), calls("a"), tool("a")],
        [user(), calls("a"), tool("a")],
        [Orphan(OrphanKind.CALL, 0, "a")],
    ),
    "a result without an id": (
        [{"role": "tool", "content": "1"}],
        [],
        [Orphan(OrphanKind.RESULT, 0, "None")],
    ),
    "calls that are no dicts": (
        [{"role": "assistant", "tool_calls": ["a"]}, user()],
        [user()],
        [Orphan(OrphanKind.CALL, 0, "None")],
    ),
}


@pytest.mark.parametrize(
    ("history", "sent", "orphans"),
    list(DAMAGED.values()),
    ids=list(DAMAGED),
)
def test_a_damaged_history_is_sent_repaired_and_stays_as_it_is(history, sent, orphans):
    before = copy.deepcopy(history)
    repaired, found = repair(history)
    assert repaired == sent
    assert list(found) == orphans
    assert history == before


@pytest.mark.parametrize("history", [case[0] for case in DAMAGED.values()], ids=list(DAMAGED))
def test_what_was_repaired_needs_no_repair(history):
    assert repair(repair(history)[0])[1] == ()


def test_a_late_result_answers_the_call_that_has_the_id_and_not_another():
    """Counting calls and results would call this history sound."""
    sent, orphans = repair([calls("a", "b"), tool("a"), tool("c")])
    assert sent == [calls("a"), tool("a")]
    assert {(o.kind, o.tool_call_id) for o in orphans} == {
        (OrphanKind.CALL, "b"),
        (OrphanKind.RESULT, "c"),
    }


def test_what_one_provider_needs_stays_beside_its_call():
    """A thought signature belongs to the call that it stands before."""
    thought = ProviderMessage()
    sent, orphans = repair([user(), thought, calls("a"), tool("a"), tool("a")])
    assert orphans
    assert sent[1] is thought
