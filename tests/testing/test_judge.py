# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The judge finds every kind of damage, and finds none where there is none.

Each test takes a run in which all is well and damages one thing in it.
"""

import copy
import functools
from dataclasses import replace
from typing import Any

import pytest
from pipecat.frames.frames import TTSSpeakFrame

from pipecat_turn_acid import TurnPolicy, side_effects
from pipecat_turn_acid.testing.conversation import STOCK, TRANSACTIONAL, At, Word, play
from pipecat_turn_acid.testing.conversations import chain, order, talk
from pipecat_turn_acid.testing.judge import FaultKind, judge
from pipecat_turn_acid.testing.scenarios import books_two, odd_results
from pipecat_turn_acid.testing.script import Reply
from pipecat_turn_acid.testing.speech import Said
from pipecat_turn_acid.testing.tools import Behaviour, Tool

HEARD = TRANSACTIONAL.but("heard", policy=TurnPolicy(interrupted_text="heard"))
DURING_THE_CALL = At(3.6)
DURING_THE_ANSWER = At(6.6)


@pytest.fixture(scope="module")
def played():
    """Runs in which all is well, by the instant of the barge-in."""
    runs = {at: play(order, TRANSACTIONAL, at) for at in (None, DURING_THE_CALL, DURING_THE_ANSWER)}
    assert [judge(outcome) for outcome in runs.values()] == [[], [], []]
    return runs


@pytest.fixture
def plain(played):
    return copy.deepcopy(played[None])


@pytest.fixture
def cut(played):
    """The tool had not reported when the user barged in."""
    return copy.deepcopy(played[DURING_THE_CALL])


@pytest.fixture
def late(played):
    """The tool had reported, and the answer was being spoken."""
    return copy.deepcopy(played[DURING_THE_ANSWER])


def kinds(outcome):
    return {fault.kind for fault in judge(outcome)}


def find(history, role, part=""):
    return next(
        i for i, m in enumerate(history) if m["role"] == role and part in str(m.get("content"))
    )


def round_of(outcome, tool_call_id):
    """The two messages of a round of one call."""
    run = next(run for run in outcome.runs if run.tool_call_id == tool_call_id)
    call = {
        "role": "assistant",
        "tool_calls": [
            {
                "id": tool_call_id,
                "type": "function",
                "function": {"name": run.name, "arguments": '{"order_id": "4471"}'},
            }
        ],
    }
    result = {
        "role": "tool",
        "tool_call_id": tool_call_id,
        "content": '{"order_id": "4471", "status": "shipped"}',
    }
    return [call, result]


def test_a_request_that_openai_refuses(plain):
    plain.requests[0] = replace(plain.requests[0], refusal="An assistant message with...")
    assert FaultKind.REFUSED in kinds(plain)


@pytest.mark.parametrize("placeholder", ["IN_PROGRESS", "CANCELLED"])
def test_a_placeholder_at_rest(plain, placeholder):
    plain.history[find(plain.history, "tool")]["content"] = placeholder
    assert kinds(plain) == {FaultKind.PLACEHOLDER}


def test_a_placeholder_in_a_request_only(plain):
    messages = copy.deepcopy(plain.requests[1].messages)
    messages[find(messages, "tool")]["content"] = "IN_PROGRESS"
    plain.requests[1] = replace(plain.requests[1], messages=messages)
    assert kinds(plain) == {FaultKind.PLACEHOLDER}


def test_a_call_without_its_result(plain):
    del plain.history[find(plain.history, "tool")]
    assert FaultKind.HALF_ROUND in kinds(plain)


def test_a_round_of_a_cut_turn_that_had_not_been_complete(cut):
    at = find(cut.history, "user", "4472")
    cut.history[at:at] = round_of(cut, "call_0001")
    assert kinds(cut) == {FaultKind.LEFTOVER}


def test_a_round_that_nobody_called(plain):
    at = find(plain.history, "user") + 1
    rounds = copy.deepcopy(round_of(plain, "call_0001"))
    rounds[0]["tool_calls"][0]["id"] = rounds[1]["tool_call_id"] = "call_9999"
    plain.history[at:at] = rounds
    assert kinds(plain) == {FaultKind.LEFTOVER}


def test_a_complete_round_is_never_lost(late):
    """LiveKit dropped finished results on a barge-in, and orders were placed twice."""
    at = find(late.history, "tool")
    del late.history[at - 1 : at + 1]
    assert kinds(late) == {FaultKind.LOST}


def test_a_part_of_a_cut_answer_is_a_leftover_unless_the_policy_keeps_it(late):
    at = find(late.history, "user", "4472")
    late.history.insert(at, {"role": "assistant", "content": "Order 4471"})
    assert kinds(late) == {FaultKind.LEFTOVER}
    late.kit = STOCK
    assert kinds(late) == set()


@pytest.mark.parametrize("kit", [STOCK, HEARD], ids=["stock", "heard"])
def test_a_part_of_what_the_application_had_the_bot_say_is_no_leftover_if_it_was_heard(kit):
    async def speak(bot):
        await bot.queue(TTSSpeakFrame("We are closing in ten minutes."))

    outcome = play(talk.but(during=((8.0, speak),)), kit, At(9.5))
    assert "We are closing" in outcome.transcript and "minutes" not in outcome.transcript
    assert judge(outcome) == []


def test_more_of_a_cut_answer_than_was_heard(late):
    late.kit = STOCK
    at = find(late.history, "user", "4472")
    late.history.insert(at, {"role": "assistant", "content": "Order 4471 has been shipped."})
    assert kinds(late) == {FaultKind.LEFTOVER}


def test_words_of_a_cut_turn_in_the_message_of_the_next(late):
    at = find(late.history, "assistant", "4472 has")
    late.history[at]["content"] = "Order 4471 Order 4472 has been shipped."
    assert FaultKind.LEFTOVER in kinds(late)


def test_words_of_a_cut_turn_after_the_next_user_message(late):
    late.kit = STOCK
    at = find(late.history, "user", "4472")
    late.history.insert(at + 1, {"role": "assistant", "content": "Order 4471"})
    assert FaultKind.LEFTOVER in kinds(late)


def test_words_that_the_model_never_said(plain):
    plain.history.append({"role": "assistant", "content": "Goodbye."})
    assert kinds(plain) == {FaultKind.LEFTOVER}


def test_an_answer_that_was_heard_and_is_not_remembered(plain):
    del plain.history[find(plain.history, "assistant", "has been shipped")]
    assert kinds(plain) == {FaultKind.LOST}


def test_a_result_that_is_not_what_the_tool_reported(plain):
    plain.history[find(plain.history, "tool")]["content"] = '{"order_id": "1"}'
    assert kinds(plain) == {FaultKind.WRONG_RESULT}


def test_an_empty_result_that_became_a_word(plain):
    """``[]`` is a result; stock Pipecat writes COMPLETED."""
    plain.runs[0].result = []
    plain.history[find(plain.history, "tool")]["content"] = "COMPLETED"
    assert kinds(plain) == {FaultKind.WRONG_RESULT}
    plain.history[find(plain.history, "tool")]["content"] = "[]"
    assert kinds(plain) == set()


def test_calls_that_count_as_running_for_ever(plain):
    plain.in_progress = True
    assert kinds(plain) == {FaultKind.STUCK}


def test_a_request_while_the_users_turn_is_open(cut):
    turn = cut.turns[-1].at
    early = replace(cut.requests[0], at=turn + 0.5, fate="disconnected", calls=())
    cut.requests.append(early)
    assert kinds(cut) == {FaultKind.DEAD_TURN}


def test_a_reply_to_a_cut_turn_that_is_finished_all_the_same(cut):
    cut.requests[0] = replace(cut.requests[0], finished_at=cut.turns[-1].at + 0.3)
    assert kinds(cut) == {FaultKind.DEAD_TURN}


def test_a_tool_of_a_cut_turn_that_begins_after_it(cut):
    cut.runs[0].started = cut.turns[-1].at + 0.3
    assert kinds(cut) == {FaultKind.DEAD_TURN}


def test_words_of_a_cut_turn_that_are_heard_after_it(cut):
    said = cut.requests[0].said
    cut.heard.append(Word("you.", cut.turns[-1].at + 0.5, said, 3.26, 0))
    assert kinds(cut) == {FaultKind.DEAD_TURN}


def test_a_turn_that_is_never_answered(cut):
    cut.requests = cut.requests[:-1]
    cut.heard = [word for word in cut.heard if word.request < len(cut.requests)]
    del cut.history[-1]
    assert kinds(cut) == {FaultKind.NO_ANSWER}


def test_an_answer_that_is_not_heard_to_its_end(cut):
    del cut.heard[-1]
    assert kinds(cut) == {FaultKind.NO_ANSWER}


def test_a_turn_that_is_answered_twice(cut):
    cut.requests.append(cut.requests[-1])
    assert kinds(cut) == {FaultKind.MANY_ANSWERS}


def test_a_tool_that_is_called_twice_for_one_turn(cut):
    ids = [replace(r, calls=tuple(("call_0003", *c[1:]) for c in r.calls)) for r in cut.requests]
    cut.requests.insert(2, replace(ids[1], said=""))
    assert FaultKind.MANY_ANSWERS in kinds(cut)


def test_an_answer_to_what_was_corrected(cut):
    wrong = cut.requests[-1].said.replace("4472", "4471")
    cut.requests[-1] = replace(cut.requests[-1], said=wrong)
    cut.history[-1]["content"] = wrong
    last = len(cut.requests) - 1
    words = iter(wrong.split())
    cut.heard = [
        replace(w, text=next(words), utterance=wrong) if w.request == last else w for w in cut.heard
    ]
    assert kinds(cut) == {FaultKind.WRONG_ANSWER}


@pytest.mark.parametrize(
    "damage",
    [
        lambda history, at: history.pop(at),
        lambda history, at: history.insert(at, history[at]),
        lambda history, at: history.insert(1, history.pop(at)) or history.reverse(),
    ],
    ids=["lost", "twice", "out of order"],
)
def test_the_users_words_are_kept_once_and_in_order(cut, damage):
    damage(cut.history, find(cut.history, "user", "4472"))
    assert FaultKind.USER_WORDS in kinds(cut)


def test_words_of_a_user_who_is_muted_may_be_missing(plain):
    plain.said.append(Said("Hello?", plain.seconds - 1, plain.seconds - 0.5))
    assert kinds(plain) == {FaultKind.USER_WORDS}
    plain.muted = True
    assert kinds(plain) == set()


def test_a_bot_that_never_rests(plain):
    plain.rested = False
    assert kinds(plain) == {FaultKind.NEVER_RESTS}


def test_an_error_in_the_pipeline(plain):
    plain.errors.append("TTS#0: out of breath")
    assert kinds(plain) == {FaultKind.ERROR}


def test_a_noise_after_the_answer_needs_no_answer():
    outcome = play(talk, STOCK, At(7.69), false_start=True)
    assert outcome.barge_ins and kinds(outcome) == set()


def test_what_is_reported_in_the_instant_of_the_barge_in_may_count_either_way(cut):
    """The user aggregator needs a few ticks to learn that the user speaks."""
    run, sound, turn = cut.runs[0], cut.barge_ins[0], cut.turns[-1]
    run.ending, run.ended, run.result = "reported", turn.at, {"order_id": "4471"}
    at = find(cut.history, "user", "4472")
    kept = round_of(cut, "call_0001")
    kept[1]["content"] = '{"order_id": "4471"}'
    for tick in (sound.tick, turn.tick):
        run.ended_tick = tick
        assert kinds(cut) == set()
        there = copy.deepcopy(cut)
        there.history[at:at] = kept
        assert kinds(there) == set()
    run.ended_tick = sound.tick - 1
    assert kinds(cut) == {FaultKind.LOST}


def test_two_rounds_before_the_barge_in_are_both_kept():
    outcome = play(chain, TRANSACTIONAL, At(8.0))
    assert judge(outcome) == []
    calls = [c["id"] for m in outcome.history for c in m.get("tool_calls") or []]
    assert calls[:2] == ["call_0001", "call_0002"]


def test_a_fault_says_what_and_where(plain):
    plain.history[find(plain.history, "tool")]["content"] = "IN_PROGRESS"
    (fault,) = judge(plain)
    assert str(fault).startswith("placeholder: history at rest: ")


def test_a_call_that_nobody_has_cut_or_answered(plain):
    """A model that called something finds no word of it."""
    at = find(plain.history, "tool")
    del plain.history[at - 1 : at + 1]
    plain.runs.clear()
    assert FaultKind.LOST in kinds(plain)


# --- side effects ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_bookings():
    """One of two calls with side effects had reported when the user barged in."""
    begun = play(books_two, TRANSACTIONAL).runs[0].started
    outcome = play(books_two, TRANSACTIONAL, At(begun + 0.5))
    assert judge(outcome) == []
    contents = [m["content"] for m in outcome.history if m["role"] == "tool"][:2]
    assert "INTERRUPTED" in contents[0] and "INTERRUPTED" not in contents[1]
    return outcome


@pytest.fixture
def booked(two_bookings):
    return copy.deepcopy(two_bookings)


def test_a_cut_call_with_side_effects_that_is_not_on_record(booked):
    at = find(booked.history, "tool", "INTERRUPTED")
    booked.history[at - 1]["tool_calls"].pop(0)
    del booked.history[at]
    assert kinds(booked) == {FaultKind.LOST}


def test_a_finished_call_with_side_effects_that_is_said_to_be_cut(booked):
    at = find(booked.history, "tool", "INTERRUPTED")
    booked.history[at + 1]["content"] = booked.history[at]["content"]
    assert kinds(booked) == {FaultKind.WRONG_RESULT}


def test_a_cut_call_with_side_effects_that_is_said_to_be_done(booked):
    at = find(booked.history, "tool", "INTERRUPTED")
    booked.history[at]["content"] = '{"city": "Paris", "weather": "sunny"}'
    assert kinds(booked) == {FaultKind.WRONG_RESULT}


@pytest.mark.parametrize(
    "options",
    [{"timeout": 0.6, "seconds": 9.0}, {"behaviour": Behaviour.NEVER_REPORTS, "seconds": 0.6}],
    ids=["a deadline", "no report"],
)
def test_a_call_with_side_effects_that_had_ended_without_a_result_was_not_cut(options):
    tools = (Tool("book", mark=side_effects, **options), Tool("check", seconds=3.0))

    def model(request):
        if "Never mind" in request.user or request.calls:
            return Reply().say("All right.")
        return Reply().call("book", {}).call("check", {})

    conversation = talk.but(tools=tools, script=lambda: model, barge_in="Never mind.", expects="")
    begun = play(conversation, TRANSACTIONAL).runs[0].started
    outcome = play(conversation, TRANSACTIONAL, At(begun + 1.5))
    assert [run.ending for run in outcome.runs][1] == "cancelled"
    assert judge(outcome) == []


# --- results that are none ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def odd():
    outcome = play(odd_results, TRANSACTIONAL)
    assert judge(outcome) == []
    return outcome


@pytest.mark.parametrize(
    ("content", "other"),
    [
        ("COMPLETED", "null"),
        ("[]", "COMPLETED"),
        ("false", "0"),
        ("could not be passed on", "COMPLETED"),
    ],
)
def test_a_result_that_became_another_one_like_it(odd, content, other):
    outcome = copy.deepcopy(odd)
    outcome.history[find(outcome.history, "tool", content)]["content"] = other
    assert kinds(outcome) == {FaultKind.WRONG_RESULT}


def deep():
    return functools.reduce(lambda inner, _: [inner], range(2000), [])


@pytest.mark.parametrize(
    ("result", "other"),
    [
        ("a\ud83d", '"a"'),
        ({"x": float("inf")}, '{"x": "NaN"}'),
        ({"x": 1}, '{"x": true}'),
        (deep(), None),
    ],
    ids=["half a character", "a number that JSON does not know", "a number", "too deep"],
)
def test_a_result_that_is_spelt_otherwise_is_not_another_one(result, other):
    tool = replace(order.tools[0], result=result)

    def model(request):
        return Reply().say("Done.") if request.calls else Reply().call(tool.name, {"order_id": "1"})

    conversation = order.but(tools=(tool,), script=lambda: model, expects="")
    outcome = play(conversation, TRANSACTIONAL)
    assert judge(outcome) == []

    history: list[Any] = outcome.history
    if other:
        history[find(history, "tool")]["content"] = other
        assert kinds(outcome) == {FaultKind.WRONG_RESULT}
