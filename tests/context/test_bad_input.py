# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Bad input gets a clear error that names the way out, and changes nothing."""

import pytest
from loguru import logger
from pipecat.processors.aggregators.llm_context import LLMContext

from pipecat_turn_acid import (
    TransactionalLLMAssistantAggregator,
    TransactionalLLMContext,
    TransactionalLLMContextAggregatorPair,
    TransactionalLLMUserAggregator,
    TurnPolicy,
    transactional,
)
from pipecat_turn_acid.core import (
    DuplicateToolCallError,
    IllegalTransitionError,
    InvalidMessageError,
    TurnAcidError,
    UnknownToolCallError,
    UsageError,
)

HEARD = TurnPolicy(interrupted_text="heard")


def test_an_id_that_was_never_staged(context):
    with pytest.raises(UnknownToolCallError) as caught:
        context.stage_tool_result("call_9", "shipped")
    assert str(caught.value) == (
        "can't stage a result for 'call_9': no such call is staged; stage it first with "
        "stage_assistant_tool_calls()"
    )
    assert caught.value.tool_call_id == "call_9"


def test_a_result_for_a_committed_call(context, tool_call):
    context.stage_assistant_tool_calls([tool_call("a")])
    context.stage_tool_result("a", "first")
    context.commit()
    with pytest.raises(IllegalTransitionError, match="its round is committed, and the result in"):
        context.stage_tool_result("a", "second")
    assert context.messages[-1]["content"] == "first"


def test_a_second_result_for_a_staged_call(context, tool_call):
    context.stage_assistant_tool_calls([tool_call("a")])
    context.stage_tool_result("a", "first")
    with pytest.raises(IllegalTransitionError, match="it already has one, which stands"):
        context.stage_tool_result("a", "second")
    context.commit()
    assert context.messages[-1]["content"] == "first"


def test_a_commit_with_nothing_staged_is_no_error(context):
    assert context.commit() == 0


@pytest.mark.parametrize("tool_call_id", [None, ""])
def test_a_tool_call_without_an_id(context, tool_call, tool_call_id):
    with pytest.raises(InvalidMessageError, match="set 'id' to the text that its result names"):
        context.stage_assistant_tool_calls([tool_call("a"), tool_call(tool_call_id)])
    assert context.staged == ()


def test_the_same_id_twice(context, tool_call):
    with pytest.raises(DuplicateToolCallError, match="give each call an id of its own"):
        context.stage_assistant_tool_calls([tool_call("a"), tool_call("a")])
    assert context.staged == ()


def test_no_calls_at_all(context):
    with pytest.raises(InvalidMessageError, match="can't stage a round without tool calls"):
        context.stage_assistant_tool_calls([])


def test_a_result_that_json_cannot_hold(context, tool_call):
    round = context.stage_assistant_tool_calls([tool_call("a")])
    with pytest.raises(InvalidMessageError, match="pass text, numbers, lists and dicts"):
        context.stage_tool_result("a", object())
    assert round.unanswered == ("a",)


def test_a_round_of_another_context(context, tool_call):
    round = TransactionalLLMContext().stage_assistant_tool_calls([tool_call("a")])
    with pytest.raises(UsageError, match="it is staged in another conversation"):
        context.commit(round)


@pytest.mark.parametrize("entry", ["Hello", 7, None, [{"role": "user"}]])
@pytest.mark.parametrize(
    "put",
    [
        lambda context, entry: context.add_message(entry),
        lambda context, entry: context.add_messages([{"role": "user", "content": "Hi"}, entry]),
        lambda context, entry: context.set_messages([entry]),
        lambda context, entry: TransactionalLLMContext([entry]),
        lambda context, entry: context.transform_messages(lambda messages: [*messages, entry]),
    ],
    ids=["add_message", "add_messages", "set_messages", "constructor", "transform_messages"],
)
def test_messages_that_are_not_dicts(context, put, entry):
    """Found where it is put in, not in the middle of a call with a provider's error."""
    context.add_message({"role": "user", "content": "Hello"})
    with pytest.raises(InvalidMessageError) as caught:
        put(context, entry)
    assert "pass a dict such as {'role': 'user', 'content': 'Hello'}" in str(caught.value)
    assert context.messages == [{"role": "user", "content": "Hello"}]


# --- policies ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"interrupted_text": "keep"},
            "interrupted_text='keep'): choose one of 'discard', 'heard'",
        ),
        ({"late_result": None}, "late_result=None): choose one of 'deliver', 'note', 'drop'"),
        ({"side_effect_tools": "book"}, "pass a set of names, such as {'book'}"),
    ],
)
def test_a_policy_with_a_value_that_means_nothing(arguments, message):
    with pytest.raises(ValueError) as caught:
        TurnPolicy(**arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "build",
    [
        TransactionalLLMContextAggregatorPair,
        TransactionalLLMUserAggregator,
        TransactionalLLMAssistantAggregator,
    ],
)
def test_two_policies_that_contradict_each_other(build):
    context = TransactionalLLMContext(policy=HEARD)
    with pytest.raises(ValueError, match="two policies for one context: .* pass the policy once"):
        build(context, policy=TurnPolicy())


@pytest.mark.parametrize(
    "build",
    [
        TransactionalLLMContextAggregatorPair,
        TransactionalLLMUserAggregator,
        TransactionalLLMAssistantAggregator,
    ],
)
def test_a_policy_on_a_plain_context(build):
    with pytest.raises(ValueError, match="pass a TransactionalLLMContext, or drop the policy"):
        build(LLMContext(), policy=HEARD)


def test_a_policy_beside_a_realtime_service():
    with pytest.raises(ValueError, match="drop one of the two"):
        TransactionalLLMContextAggregatorPair(
            TransactionalLLMContext(), realtime_service_mode=True, policy=HEARD
        )


def test_the_same_policy_twice_is_no_contradiction():
    context = TransactionalLLMContext(policy=HEARD)
    TransactionalLLMContextAggregatorPair(
        context, policy=TurnPolicy(interrupted_text="heard"), realtime_service_mode=False
    )
    assert context.policy == HEARD


def test_the_pair_gives_its_policy_to_the_context():
    context = TransactionalLLMContext()
    TransactionalLLMContextAggregatorPair(context, policy=HEARD)
    assert context.policy == HEARD


# --- classes -----------------------------------------------------------------------------------


def test_a_pair_on_a_plain_context_warns_once_and_works_as_stock():
    warnings: list[str] = []
    sink = logger.add(warnings.append, level="WARNING", format="{message}")
    try:
        TransactionalLLMContextAggregatorPair(LLMContext())
    finally:
        logger.remove(sink)
    assert len(warnings) == 1
    assert "works as stock" in warnings[0]
    assert "pass a TransactionalLLMContext" in warnings[0]


@pytest.mark.parametrize("not_a_service", [LLMContext, "OpenAILLMService", object()])
def test_transactional_of_what_is_no_service(not_a_service):
    with pytest.raises(TypeError, match="takes a class of LLM services, such as"):
        transactional(not_a_service)


def test_every_error_has_one_root():
    for error in (UsageError, InvalidMessageError, IllegalTransitionError, UnknownToolCallError):
        assert issubclass(error, TurnAcidError)
