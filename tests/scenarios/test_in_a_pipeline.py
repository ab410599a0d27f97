# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The four scenarios and the three dialogues of the source design, through a whole bot.

The real aggregators, the real service with the real ``openai`` client and a server that answers 400
to a sequence that OpenAI would refuse. Three times: text only; with the real ``TTSService`` and
``BaseOutputTransport`` in between, which says when each word is heard; and with a voice that does not.
"""

from functools import cache

import pytest

from pipecat_turn_acid.testing import conversations
from pipecat_turn_acid.testing.checks import check_history
from pipecat_turn_acid.testing.conversation import STOCK, TRANSACTIONAL, At, describe_message, play
from pipecat_turn_acid.testing.judge import FaultKind, judge

VOICES = ("text", "words", "sentences")


@pytest.fixture(params=VOICES)
def voice(request):
    return request.param


@cache
def clean(name, voice):
    """The conversation without a barge-in. Up to a barge-in, every run of it is the same."""
    conversation = getattr(conversations, name).but(voice=voice)
    return conversation, play(conversation, TRANSACTIONAL)


def in_the_middle_of_the_response(outcome):
    response = outcome.requests[0]
    return At((response.at + response.finished_at) / 2 + 0.15)


def while_the_tool_runs(outcome):
    run = outcome.runs[0]
    return At(run.started + (run.ended - run.started) / 2)


def while_the_bot_speaks(outcome):
    """In the middle of its first sentence."""
    return At(outcome.heard[2].at + 0.05)


def lines(messages):
    return [" ".join(describe_message(m).split()) for m in messages if m["role"] != "system"]


def is_sound(outcome):
    assert judge(outcome) == []
    assert check_history(outcome.history) == []
    assert not outcome.in_progress
    assert all(request.status in (0, 200) for request in outcome.requests)


def test_clean_turn(voice):
    """Nobody interrupts: what is said, asked and remembered is what stock Pipecat remembers."""
    conversation, outcome = clean("order", voice)
    is_sound(outcome)
    assert lines(outcome.history) == [
        "user What is the status of order 4471?",
        "assistant Let me check 4471 for you.",
        'assistant calls get_order_status({"order_id": "4471"}) [call_0001]',
        'tool {"order_id": "4471", "status": "shipped"} [call_0001]',
        "assistant Order 4471 has been shipped.",
    ]
    stock = play(conversation, STOCK)
    assert outcome.history == stock.history
    assert [r.messages for r in outcome.requests] == [r.messages for r in stock.requests]
    assert [w.text for w in outcome.heard] == [w.text for w in stock.heard]
    assert [e.name for e in outcome.events if e.name == "on_round_committed"] == [
        "on_round_committed"
    ]


def test_barge_in_mid_llm(voice):
    """The model was cut short: no word of it is remembered, and it is reported as interrupted."""
    conversation, whole = clean("talk", voice)
    outcome = play(conversation, TRANSACTIONAL, in_the_middle_of_the_response(whole))
    assert outcome.requests[0].fate == "disconnected"
    is_sound(outcome)
    assert lines(outcome.history) == [
        "user Tell me about refunds.",
        "user Never mind, what are your store hours?",
        "assistant We are open from nine to five.",
    ]
    first = next(e for e in outcome.events if e.name == "on_assistant_turn_stopped")
    assert "interrupted=True" in first.detail
    started = [e.detail for e in outcome.events if e.name == "on_turn_started"]
    assert started == ["1", "2"]


def test_interruption_between_tool_call_and_result(voice):
    """The next request shows neither the call nor a placeholder for its result."""
    conversation, whole = clean("order", voice)
    instant = while_the_tool_runs(whole)
    outcome = play(conversation, TRANSACTIONAL, instant)
    assert [run.ending for run in outcome.runs] == ["cancelled", "reported"]
    is_sound(outcome)
    assert not any(m.get("tool_calls") for m in outcome.requests[1].messages)
    assert [e.name for e in outcome.events if e.name.startswith("on_round")] == [
        "on_round_rolled_back",
        "on_round_committed",
    ]
    # On the stock classes the same barge-in leaves a call that was never answered.
    stock = play(conversation, STOCK, instant)
    assert FaultKind.PLACEHOLDER in {fault.kind for fault in judge(stock)}


def test_empty_turn(voice):
    """A noise while nothing is going on: what becomes of it is what becomes of it in stock."""
    conversation, whole = clean("talk", voice)
    instant = At(whole.last.at + 0.5)
    outcome = play(conversation, TRANSACTIONAL, instant, false_start=True)
    assert len(outcome.turns) == 2
    stock = play(conversation, STOCK, instant, false_start=True)
    assert outcome.history == stock.history
    assert [r.messages for r in outcome.requests] == [r.messages for r in stock.requests]
    assert not [e for e in outcome.events if e.name.startswith("on_round")]
    if voice != "text":  # a bot without a voice cannot tell whether it has finished
        assert outcome.history == whole.history
        assert len(outcome.requests) == len(whole.requests)


def test_interrupt_during_a_lookup(voice):
    """The bot cleanly looks up 4472, and never answers about 4471."""
    conversation, whole = clean("order", voice)
    outcome = play(conversation, TRANSACTIONAL, while_the_tool_runs(whole))
    is_sound(outcome)
    # What was read to its end before the barge-in was part of the conversation.
    read = ["assistant Let me check 4471 for you."] if voice == "text" else []
    assert lines(outcome.history) == [
        "user What is the status of order 4471?",
        *read,
        "user Sorry, I meant order 4472.",
        "assistant Let me check 4472 for you.",
        'assistant calls get_order_status({"order_id": "4472"}) [call_0002]',
        'tool {"order_id": "4472", "status": "shipped"} [call_0002]',
        "assistant Order 4472 has been shipped.",
    ]
    assert "4471 has been shipped" not in " ".join(word.text for word in outcome.heard)


def test_no_residue_from_an_abandoned_turn(voice):
    """No fragment of the killed turn bleeds into what the model is shown next."""
    conversation, whole = clean("talk", voice)
    outcome = play(conversation, TRANSACTIONAL, while_the_bot_speaks(whole))
    is_sound(outcome)
    assert lines(outcome.requests[-1].messages) == [
        "user Tell me about refunds.",
        "user Never mind, what are your store hours?",
    ]


def test_rapid_mid_answer_correction(voice):
    """The response rolls back as a unit: the user wants 4pm, and 3pm is never confirmed."""
    conversation, whole = clean("correct", voice)
    outcome = play(conversation, TRANSACTIONAL, while_the_tool_runs(whole))
    is_sound(outcome)
    read = ["assistant Booking the 3pm slot."] if voice == "text" else []
    correction = next(r for r in outcome.requests if "4pm" in r.asked)
    assert lines(correction.messages) == [
        "user Book the 3pm demo.",
        *read,
        "user No wait, 4pm.",
    ]
    said = " ".join(" ".join(word.text for word in outcome.heard).split())
    assert "booked for 4pm" in said
    assert "booked for 3pm" not in said


@pytest.mark.parametrize("voice", ["words", "sentences"])
def test_a_correction_after_the_booking_was_made_finds_it_in_the_history(voice):
    """What is complete is never lost: the model has to know that 3pm is booked."""
    conversation, whole = clean("correct", voice)
    outcome = play(conversation, TRANSACTIONAL, while_the_bot_speaks(whole))
    is_sound(outcome)
    correction = next(r for r in outcome.requests if "4pm" in r.asked)
    assert lines(correction.messages) == [
        "user Book the 3pm demo.",
        'assistant calls book_demo({"time": "3pm"}) [call_0001]',
        'tool {"booked": "3pm"} [call_0001]',
        "user No wait, 4pm.",
    ]
