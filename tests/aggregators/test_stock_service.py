# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Rule 15: a stock service with our aggregators, from frames alone; plain contexts and realtime."""

from typing import Any

import pytest
from pipecat.frames.frames import (
    Frame,
    FunctionCallCancelFrame,
    FunctionCallFromLLM,
    FunctionCallInProgressFrame,
    FunctionCallResultFrame,
    FunctionCallResultProperties,
    FunctionCallsStartedFrame,
    InterruptionFrame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
)
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMAssistantAggregator,
    LLMContextAggregatorPair,
)
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.tests.utils import SleepFrame, run_test

from pipecat_turn_acid import (
    TransactionalLLMAssistantAggregator,
    TransactionalLLMContext,
    TransactionalLLMContextAggregatorPair,
    TurnPolicy,
)
from pipecat_turn_acid.testing import conversations
from pipecat_turn_acid.testing.checks import check_history
from pipecat_turn_acid.testing.conversation import STOCK, TRANSACTIONAL, At, play

STOCK_SERVICE = TRANSACTIONAL.but("stock service", llm=OpenAILLMService)


def started(context, *ids) -> Frame:
    return FunctionCallsStartedFrame([FunctionCallFromLLM("look_up", i, {}, context) for i in ids])


def in_progress(tool_call_id, group=None, *, waits=True) -> Frame:
    return FunctionCallInProgressFrame(
        "look_up", tool_call_id, {}, cancel_on_interruption=waits, group_id=group
    )


def result(tool_call_id, value: Any = "ok", **properties) -> Frame:
    return FunctionCallResultFrame(
        "look_up",
        tool_call_id,
        {},
        value,
        properties=FunctionCallResultProperties(**properties) if properties else None,
    )


def shape(context):
    """Roles, with the ids of calls and results."""
    return [
        (m["role"], tuple(c["id"] for c in m.get("tool_calls", [])) or m.get("tool_call_id"))
        for m in context.messages
    ]


@pytest.fixture
def context():
    return TransactionalLLMContext()


@pytest.fixture
def sent(context):
    """Send frames through an assistant aggregator; get what went up."""

    async def send(*frames, aggregator=None):
        aggregator = aggregator or TransactionalLLMAssistantAggregator(context)
        pieces: list[Frame] = []
        for frame in frames:
            pieces += [frame, SleepFrame(0.01)]
        _, up = await run_test(aggregator, frames_to_send=pieces)
        assert not aggregator.has_function_calls_in_progress
        return [frame for frame in up if isinstance(frame, LLMContextFrame)]

    return send


# --- frames ------------------------------------------------------------------------------------


async def test_a_batch_is_committed_whole_with_its_last_result(virtual_time, context, sent):
    runs = await sent(
        started(context, "a", "b"),
        in_progress("a", "g"),
        in_progress("b", "g"),
        result("b"),
        result("a"),
    )
    assert shape(context) == [("assistant", ("a", "b")), ("tool", "a"), ("tool", "b")]
    assert len(runs) == 1


async def test_nothing_shows_before_the_batch_is_complete(virtual_time, context, sent):
    await sent(started(context, "a", "b"), in_progress("a"), in_progress("b"), result("b"))
    assert context.messages == []


@pytest.mark.parametrize("group", ["g", None])
async def test_calls_that_nobody_announced_are_staged_when_they_start(
    virtual_time, context, sent, group
):
    runs = await sent(in_progress("a", group), in_progress("b", group), result("a"), result("b"))
    assert check_history(context.messages) == []
    assert {i for _, i in shape(context) if isinstance(i, str)} == {"a", "b"}
    assert len(runs) == 1


async def test_an_interruption_drops_the_batch_and_what_still_comes_of_it(
    virtual_time, context, sent
):
    """The cancel overtakes the start, and the start survives the interruption."""
    runs = await sent(
        started(context, "a"),
        InterruptionFrame(),
        FunctionCallCancelFrame("look_up", "a"),
        in_progress("a"),
        result("a"),
    )
    assert context.messages == []
    assert context.staged == ()
    assert runs == []


async def test_a_complete_batch_survives_the_interruption(virtual_time, context, sent):
    await sent(
        LLMFullResponseStartFrame(),
        LLMTextFrame("One moment."),
        started(context, "a"),
        in_progress("a"),
        result("a"),
        InterruptionFrame(),
    )
    assert shape(context) == [("assistant", ("a",)), ("tool", "a")]


async def test_a_cancelled_call_is_answered_with_a_text_that_says_so(virtual_time, context, sent):
    runs = await sent(
        started(context, "a", "b"),
        in_progress("a", "g"),
        in_progress("b", "g"),
        FunctionCallCancelFrame("look_up", "a", run_llm=True),
        result("b"),
    )
    assert shape(context) == [("assistant", ("a", "b")), ("tool", "a"), ("tool", "b")]
    assert "timed out" in context.messages[1]["content"]
    assert len(runs) == 1


async def test_the_words_before_the_calls_stand_before_them(virtual_time, context, sent):
    await sent(
        LLMFullResponseStartFrame(),
        LLMTextFrame("One moment."),
        started(context, "a"),
        in_progress("a"),
        result("a"),
        LLMFullResponseEndFrame(),
    )
    assert shape(context) == [("assistant", None), ("assistant", ("a",)), ("tool", "a")]


async def test_a_call_that_outlives_its_turn_keeps_pipecats_protocol(virtual_time, context, sent):
    await sent(
        started(context, "a"), in_progress("a", waits=False), InterruptionFrame(), result("a")
    )
    assert shape(context) == [("assistant", ("a",)), ("tool", "a")]
    assert check_history(context.messages) == []


async def test_a_mixed_batch_stages_what_the_model_waits_for(virtual_time, context, sent):
    await sent(
        started(context, "a", "b"),
        in_progress("a", "g", waits=False),
        in_progress("b", "g"),
        result("b"),
        result("a"),
    )
    assert shape(context) == [
        ("assistant", ("a",)),
        ("tool", "a"),
        ("assistant", ("b",)),
        ("tool", "b"),
    ]


@pytest.mark.parametrize("value", [[], 0, {}, "", False])
async def test_an_empty_result_is_a_result(virtual_time, context, sent, value):
    runs = await sent(started(context, "a"), in_progress("a"), result("a", value))
    assert context.messages[1]["content"] != "COMPLETED"
    assert len(runs) == 1


async def test_a_result_of_none_asks_for_no_run(virtual_time, context, sent):
    runs = await sent(started(context, "a"), in_progress("a"), result("a", None))
    assert context.messages[1]["content"] == "COMPLETED"
    assert runs == []


async def test_a_result_that_says_so_asks_for_no_run(virtual_time, context, sent):
    runs = await sent(started(context, "a"), in_progress("a"), result("a", run_llm=False))
    assert len(context.messages) == 2
    assert runs == []


async def test_a_second_result_changes_nothing(virtual_time, context, sent):
    runs = await sent(
        started(context, "a"), in_progress("a"), result("a", "first"), result("a", "second")
    )
    assert [m["content"] for m in context.messages[1:]] == ['"first"']
    assert len(runs) == 1


async def test_an_id_that_is_used_twice_keeps_the_place_of_its_first_call(
    virtual_time, context, sent
):
    await sent(
        started(context, "a", "b", "a"),
        in_progress("a"),
        in_progress("b"),
        result("a"),
        result("b"),
    )
    assert shape(context) == [("assistant", ("a", "b")), ("tool", "a"), ("tool", "b")]


async def test_a_result_that_nobody_waits_for_is_ignored_as_in_stock(virtual_time, context, sent):
    assert await sent(result("nobody")) == []
    assert context.messages == []


async def test_a_cut_call_with_side_effects_stays_on_record(virtual_time):
    context = TransactionalLLMContext(policy=TurnPolicy(side_effect_tools=frozenset({"look_up"})))
    aggregator = TransactionalLLMAssistantAggregator(context)
    frames: list[Frame] = [started(context, "a"), in_progress("a"), SleepFrame(0.01)]
    await run_test(aggregator, frames_to_send=[*frames, InterruptionFrame(), SleepFrame(0.01)])
    assert shape(context) == [("assistant", ("a",)), ("tool", "a")]
    assert not aggregator.has_function_calls_in_progress


async def test_an_ending_session_keeps_what_is_complete_and_drops_the_rest(
    virtual_time, context, sent
):
    await sent(started(context, "a"), started(context, "b"), in_progress("a"), result("a"))
    assert shape(context) == [("assistant", ("a",)), ("tool", "a")]
    assert context.staged == ()


# --- whole bots ----------------------------------------------------------------------------------


@pytest.mark.parametrize("voice", ["words", "sentences", "text"])
@pytest.mark.parametrize(
    "conversation", [conversations.order, conversations.parallel, conversations.correct]
)
def test_a_clean_conversation_is_that_of_our_own_service(conversation, voice):
    conversation = conversation.but(voice=voice)
    assert play(conversation, STOCK_SERVICE).history == play(conversation, TRANSACTIONAL).history


@pytest.mark.parametrize("instant", [3.4, 3.6, 3.9, 4.2, 4.5])
@pytest.mark.parametrize("conversation", [conversations.order, conversations.parallel])
def test_a_barge_in_leaves_no_placeholder_and_no_half_round(conversation, instant):
    outcome = play(conversation, STOCK_SERVICE, At(instant))
    assert check_history(outcome.history) == []
    assert all(check_history(list(request.messages)) == [] for request in outcome.requests)
    assert not outcome.in_progress


# --- plain contexts and realtime -----------------------------------------------------------------


async def compare(stock, ours, frames):
    """Send the same frames through both, and return both histories."""
    for aggregator in (stock, ours):
        pieces: list[Frame] = []
        for frame in frames(aggregator.context):
            pieces += [frame, SleepFrame(0.01)]
        await run_test(aggregator, frames_to_send=pieces)
    return stock.context.messages, ours.context.messages


def interrupted_call(context):
    return [
        LLMFullResponseStartFrame(),
        LLMTextFrame("One moment."),
        started(context, "a"),
        in_progress("a"),
        InterruptionFrame(),
        FunctionCallCancelFrame("look_up", "a"),
    ]


async def test_on_a_plain_context_our_aggregator_is_the_stock_one(virtual_time):
    theirs, ours = await compare(
        LLMAssistantAggregator(LLMContext()),
        TransactionalLLMAssistantAggregator(LLMContext()),
        interrupted_call,
    )
    assert theirs == ours
    assert "CANCELLED" in [m.get("content") for m in theirs]


async def test_a_realtime_service_passes_through_untouched(virtual_time):
    """It keeps its own turns, and writes when it likes."""
    stock = LLMContextAggregatorPair(LLMContext(), realtime_service_mode=True)
    context = TransactionalLLMContext()
    pair = TransactionalLLMContextAggregatorPair(context, realtime_service_mode=True)
    theirs, ours = await compare(
        stock.assistant(), pair.assistant(), lambda context: interrupted_call(context)[2:]
    )
    assert theirs == ours
    assert context.epoch == 0


def test_stock_aggregators_take_our_context_as_any():
    kit = STOCK.but("our context", context=TransactionalLLMContext)
    assert (
        play(conversations.order, kit, At(3.9)).history
        == play(conversations.order, STOCK, At(3.9)).history
    )
