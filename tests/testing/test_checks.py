# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What the two checks find, and what they let pass."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipecat.processors.aggregators import async_tool_messages
from pipecat.processors.aggregators.llm_context import LLMSpecificMessage

from pipecat_turn_acid.testing.checks import (
    Finding,
    Rule,
    Severity,
    check_history,
    check_request,
    errors,
)

Message = dict[str, Any]

ORPHAN = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: "
)
DANGLING = (
    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
    "'tool_calls'."
)


def user(text: str = "What is the status of order 4471?") -> Message:
    return {"role": "user", "content": text}


def says(text: str) -> Message:
    return {"role": "assistant", "content": text}


def calls(*ids: str, **extra: Any) -> Message:
    function = {"name": "get_order_status", "arguments": "{}"}
    made = [{"id": i, "type": "function", "function": dict(function)} for i in ids]
    return {"role": "assistant", "tool_calls": made, **extra}


def result(tool_call_id: str, content: Any = '{"status": "shipped"}') -> Message:
    return {"role": "tool", "tool_call_id": tool_call_id, "content": content}


def found(findings: list[Finding]) -> list[tuple[Rule, int | None, str | None]]:
    return [(finding.rule, finding.index, finding.tool_call_id) for finding in findings]


def words(findings: list[Finding]) -> list[str]:
    return [finding.message for finding in findings]


WHOLE = {
    "nothing but talk": [user(), says("Hello.")],
    "a round": [user(), calls("a"), result("a"), says("It has shipped.")],
    "words, then a round": [user(), says("Let me check."), calls("a"), result("a")],
    "two calls in one round": [user(), calls("a", "b"), result("a"), result("b")],
    "two rounds": [user(), calls("a"), result("a"), calls("b"), result("b")],
    "a falsy result": [user(), calls("a"), result("a", "[]")],
    "an empty result": [user(), calls("a"), result("a", "")],
    "a result in parts": [user(), calls("a"), result("a", [{"type": "text", "text": "done"}])],
    "no result to report": [user(), calls("a"), result("a", "COMPLETED")],
    "a result that says it was cancelled": [user(), calls("a"), result("a", '"CANCELLED"')],
    "parts": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
    "a call without content": [user(), calls("a", content=None), result("a")],
    "instructions in between": [{"role": "system", "content": "Be kind."}, user(), says("Hi.")],
}


@pytest.mark.parametrize("history", WHOLE.values(), ids=WHOLE)
def test_a_whole_history_has_no_findings(history: list[Message]):
    assert check_history(history) == []
    assert check_request(history) == []


def test_a_call_without_a_result_is_an_orphan():
    history = [user(), calls("a"), user("Sorry, 4472.")]

    assert found(check_history(history)) == [(Rule.ORPHAN_CALL, 1, "a")]
    [refusal] = check_request(history)
    assert (refusal.rule, refusal.message) == (Rule.ORPHAN_CALL, ORPHAN + "a")
    assert (refusal.param, refusal.code) == ("messages.[2].role", None)


def test_a_call_at_the_end_is_an_orphan_too():
    assert found(check_history([user(), calls("a")])) == [(Rule.ORPHAN_CALL, 1, "a")]
    assert words(check_request([user(), calls("a")])) == [ORPHAN + "a"]


def test_a_half_answered_round_names_what_is_missing():
    history = [user(), calls("a", "b", "c"), result("b")]

    assert found(check_history(history)) == [
        (Rule.ORPHAN_CALL, 1, "a"),
        (Rule.ORPHAN_CALL, 1, "c"),
    ]
    assert words(check_request(history)) == [ORPHAN + "a, c"]


def test_a_result_must_follow_its_call_at_once():
    history = [user(), calls("a"), says("Let me check."), result("a")]

    assert found(check_history(history)) == [(Rule.NOT_CONTIGUOUS, 1, "a")]
    assert found(check_request(history)) == [
        (Rule.NOT_CONTIGUOUS, 1, "a"),
        (Rule.DANGLING_RESULT, 3, "a"),
    ]
    assert words(check_request(history)) == [ORPHAN + "a", DANGLING]


def test_two_call_messages_in_a_row_leave_the_first_unanswered():
    history = [user(), calls("a"), calls("b"), result("a"), result("b")]

    assert found(check_history(history)) == [(Rule.NOT_CONTIGUOUS, 1, "a")]
    assert found(check_request(history)) == [
        (Rule.NOT_CONTIGUOUS, 1, "a"),
        (Rule.DANGLING_RESULT, 3, "a"),
    ]
    assert words(check_request(history))[1] == (
        "Invalid parameter: 'tool_call_id' of 'a' not found in 'tool_calls' of previous message."
    )


def test_a_result_without_a_call_dangles():
    history = [user(), result("a"), says("It has shipped.")]

    assert found(check_history(history)) == [(Rule.DANGLING_RESULT, 1, "a")]
    [refusal] = check_request(history)
    assert (refusal.message, refusal.param) == (DANGLING, "messages.[1].role")


def test_a_result_before_its_call_dangles_and_leaves_the_call_unanswered():
    assert found(check_history([user(), result("a"), calls("a")])) == [
        (Rule.DANGLING_RESULT, 1, "a"),
        (Rule.ORPHAN_CALL, 2, "a"),
    ]


def test_a_second_result_is_a_duplicate():
    history = [user(), calls("a"), result("a"), result("a", "{}")]

    assert found(check_history(history)) == [(Rule.DUPLICATE_RESULT, 3, "a")]
    [refusal] = check_request(history)
    assert refusal.message == (
        "Invalid parameter: Duplicate value for 'tool_call_id' of 'a', in messages[2] and "
        "messages[3]."
    )
    assert refusal.param == "messages.[3].tool_call_id"


def test_a_result_that_comes_again_later_is_a_duplicate():
    history = [user(), calls("a"), result("a"), user("And 4472?"), result("a")]

    assert found(check_history(history)) == [(Rule.DUPLICATE_RESULT, 4, "a")]
    assert words(check_request(history)) == [DANGLING]


def test_an_id_used_twice_is_found_though_openai_takes_it():
    history = [user(), calls("a"), result("a"), user(), calls("a"), result("a")]

    assert found(check_history(history)) == [(Rule.DUPLICATE_ID, 4, "a")]
    assert check_request(history) == []


@pytest.mark.parametrize("placeholder", ["IN_PROGRESS", "CANCELLED"])
def test_a_placeholder_is_damage_though_openai_takes_it(placeholder: str):
    history = [user(), calls("a"), result("a", placeholder)]

    assert found(check_history(history)) == [(Rule.PLACEHOLDER, 2, "a")]
    assert check_request(history) == []


def test_a_placeholder_in_parts_is_found():
    history = [user(), calls("a"), result("a", [{"type": "text", "text": "IN_PROGRESS"}])]

    assert found(check_history(history)) == [(Rule.PLACEHOLDER, 2, "a")]


def test_pipecats_messages_for_a_tool_that_outlives_the_turn_are_in_order():
    started = async_tool_messages.build_started_message("a")
    partial = async_tool_messages.build_intermediate_result_message("a", '"half"')
    final = async_tool_messages.build_final_result_message("a", '"all"')
    cancelled = async_tool_messages.build_cancelled_message("b")
    history = [
        user(),
        calls("a", "b"),
        started,
        async_tool_messages.build_started_message("b"),
        says("I am on it."),
        user("Good."),
        partial,
        final,
        cancelled,
    ]

    assert check_history(history) == []
    assert check_request(history) == []


def test_a_late_result_for_a_call_that_was_never_made_dangles():
    history = [user(), async_tool_messages.build_final_result_message("a", '"all"')]

    assert found(check_history(history)) == [(Rule.DANGLING_RESULT, 1, "a")]
    assert check_request(history) == []


@pytest.mark.parametrize("content", [None, "", "  ", []])
def test_an_assistant_message_must_say_or_call_something(content: Any):
    message = {"role": "assistant", "content": content}

    assert found(check_history([user(), message])) == [(Rule.EMPTY_ASSISTANT, 1, None)]


def test_openai_takes_empty_words_but_not_null():
    assert check_request([user(), says("")]) == []
    [refusal] = check_request([user(), {"role": "assistant", "content": None}])
    assert refusal.rule is Rule.EMPTY_ASSISTANT
    assert refusal.message == "Invalid value for 'content': expected a string, got null."
    assert refusal.param == "messages.[1].content"


def test_words_and_calls_in_one_message_are_a_matter_of_style():
    history = [user(), calls("a", content="Let me check."), result("a")]

    [finding] = check_history(history)
    assert (finding.rule, finding.index) == (Rule.CONTENT_WITH_CALLS, 1)
    assert finding.severity is Severity.STYLE
    assert errors([finding]) == []
    assert check_request(history) == []


def test_results_out_of_order_are_a_matter_of_style():
    history = [user(), calls("a", "b"), result("b"), result("a")]

    [finding] = check_history(history)
    assert (finding.rule, finding.severity) == (Rule.RESULT_ORDER, Severity.STYLE)
    assert check_request(history) == []


def test_a_message_for_one_service_passes_and_does_not_part_a_call_from_its_result():
    thought = LLMSpecificMessage(llm="google", message={"thought": "hm"})
    history = [user(), thought, calls("a"), thought, result("a"), thought]

    assert check_history(history) == []
    assert check_request(history) == []


def test_openais_own_message_is_judged_in_a_request():
    own = LLMSpecificMessage(llm="openai", message=result("a"))

    assert check_history([user(), own]) == []
    assert words(check_request([user(), own])) == [DANGLING]


@pytest.mark.parametrize(
    ("message", "refusal"),
    [
        (
            "hello",
            "Invalid type for 'messages[1]': expected an object, but got a string instead.",
        ),
        (
            {"role": "bot", "content": "hello"},
            "Invalid value: 'bot'. Supported values are: 'system', 'assistant', 'user', "
            "'function', 'tool', and 'developer'.",
        ),
        ({"content": "hello"}, "Missing required parameter: 'messages[1].role'."),
        ({"role": "user"}, "Missing required parameter: 'messages[1].content'."),
        (
            {"role": "user", "content": None},
            "Invalid value for 'content': expected a string, got null.",
        ),
        (
            {"role": "user", "content": 7},
            "Invalid type for 'messages[1].content': expected one of a string or array of "
            "objects, but got an integer instead.",
        ),
        (
            {"role": "assistant", "content": "x", "tool_calls": []},
            "Invalid 'messages[1].tool_calls': empty array. Expected an array with minimum length "
            "1, but got an empty array instead.",
        ),
    ],
)
def test_a_malformed_message_is_refused_in_openais_words(message: Any, refusal: str):
    history = [user(), message]

    assert words(check_request(history)) == [refusal]
    assert [finding.rule for finding in check_history(history)] == [Rule.MALFORMED]


def test_a_tool_message_must_name_its_call():
    history = [user(), {"role": "tool", "content": "x"}]

    assert found(check_history(history)) == [(Rule.MALFORMED, 1, None)]
    assert words(check_request(history)) == [
        "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'.",
        DANGLING,
    ]


def call_with(**fields: Any) -> list[Message]:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    call |= fields
    made = {"role": "assistant", "tool_calls": [{k: v for k, v in call.items() if v is not ...}]}
    return [user(), made, *([result("a")] if call["id"] == "a" else [])]


@pytest.mark.parametrize(
    ("history", "refusal"),
    [
        (
            call_with(function={"name": "f", "arguments": {"order_id": "4471"}}),
            "Invalid type for 'messages[1].tool_calls[0].function.arguments': expected a string, "
            "but got an object instead.",
        ),
        (
            call_with(function={"arguments": "{}"}),
            "Missing required parameter: 'messages[1].tool_calls[0].function.name'.",
        ),
        (
            call_with(function=...),
            "Missing required parameter: 'messages[1].tool_calls[0].function'.",
        ),
        (call_with(id=...), "Missing required parameter: 'messages[1].tool_calls[0].id'."),
    ],
)
def test_a_malformed_call_is_refused_in_openais_words(history: list[Message], refusal: str):
    assert words(check_request(history))[0] == refusal
    assert Rule.MALFORMED in {finding.rule for finding in check_history(history)}


@pytest.mark.parametrize("arguments", ['{"order_id": "44', "", "[1]", "null", '"4471"'])
def test_arguments_that_are_no_json_object_are_damage_though_openai_takes_them(arguments: str):
    history = call_with(function={"name": "f", "arguments": arguments})

    assert found(check_history(history)) == [(Rule.MALFORMED, 1, "a")]
    assert check_request(history) == []


def test_an_id_that_is_too_long_is_refused():
    long = "c" * 41

    [refusal] = check_request([user(), calls(long), result(long)])
    assert refusal.message == (
        "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum "
        "length 40, but got a string with length 41 instead."
    )
    assert refusal.code == "string_above_max_length"


def test_bookkeeping_in_a_message_is_refused():
    history = [user() | {"epoch": 4}, calls("a"), result("a")]
    history[1]["tool_calls"][0]["index"] = 0

    assert words(check_request(history)) == [
        "Unknown parameter: 'messages[0].epoch'.",
        "Unknown parameter: 'messages[1].tool_calls[0].index'.",
    ]


def test_a_request_needs_messages_and_a_model():
    assert words(check_request([])) == [
        "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an "
        "empty array instead."
    ]
    assert words(check_request({"model": "gpt-4.1"})) == ["Missing required parameter: 'messages'."]
    assert words(check_request({"messages": [user()]})) == ["you must provide a model parameter"]


def test_a_body_is_judged_beyond_its_messages():
    body = {
        "model": "gpt-4.1",
        "messages": [user()],
        "tools": [],
        "tool_choice": "auto",
        "stream_options": {"include_usage": True},
    }

    assert words(check_request(body)) == [
        "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty "
        "array instead.",
        "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are "
        "specified.",
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
    ]


@pytest.mark.parametrize("nonsense", [None, 7, "messages", {"a": 1}, b"messages"])
def test_what_is_no_list_of_messages_is_one_finding(nonsense: Any):
    [finding] = check_history(nonsense)
    assert (finding.rule, finding.index) == (Rule.MALFORMED, None)
    assert check_request(nonsense)


def test_a_finding_names_the_message_the_rule_and_the_remedy():
    [finding] = check_history([user(), calls("a")])

    assert str(finding) == (
        "messages[1]: orphan-call: The call has no result. Remedy: Drop the call, or answer it "
        "with a text that says what became of it."
    )
    with pytest.raises(AttributeError):
        finding.index = 2  # pyright: ignore[reportAttributeAccessIssue]


# --- any transcript ----------------------------------------------------------------------------

ids = st.sampled_from(["a", "b", "c"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)
rounds = st.lists(ids, min_size=1, max_size=3, unique=True).map(
    lambda chosen: [calls(*chosen), *(result(i) for i in chosen)]
)
talk = st.sampled_from([[user()], [says("Hello.")], [{"role": "system", "content": "Be kind."}]])


@given(st.lists(rounds | talk, max_size=6).map(lambda parts: [m for part in parts for m in part]))
def test_whole_rounds_in_any_number_are_whole(history: list[Message]):
    """Only the reuse of an id may be found, since rounds here draw from three ids."""
    assert {f.rule for f in check_history(history)} <= {Rule.DUPLICATE_ID}
    assert not history or check_request(history) == []


@given(
    st.lists(
        st.lists(ids, min_size=1, max_size=3).map(lambda i: calls(*i))
        | ids.map(result)
        | st.just(user()),
        min_size=1,
        max_size=8,
    )
)
def test_a_history_without_damage_is_never_refused(history: list[Message]):
    """The contract is at least as strict as the provider; only style is ours alone."""
    if not errors(check_history(history)):
        assert check_request(history) == []


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "role": st.sampled_from(["user", "assistant", "tool", "developer"]) | json_values,
                "content": json_values,
                "tool_call_id": ids | json_values,
                "tool_calls": st.lists(
                    st.fixed_dictionaries(
                        {},
                        optional={"id": ids | json_values, "function": json_values},
                    )
                    | json_values
                )
                | json_values,
            },
        )
        | json_values,
        max_size=5,
    )
)
def test_no_transcript_is_beyond_the_checks(transcript: list[Any]):
    for finding in [*check_history(transcript), *check_request(transcript)]:
        assert finding.message and finding.remedy
        assert finding.index is None or 0 <= finding.index < len(transcript)
    assert json.dumps(transcript)  # what was generated is what a transcript can hold
