# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Each corner case shows on the stock classes what it is there to show."""

import pytest

from pipecat_turn_acid.testing import conversations, scenarios
from pipecat_turn_acid.testing.conversation import STOCK, TRANSACTIONAL, At, play
from pipecat_turn_acid.testing.judge import FaultKind, judge

EVERYTHING = (*conversations.FIVE, *scenarios.ALL)


def kinds(outcome):
    return {fault.kind for fault in judge(outcome)}


@pytest.mark.parametrize("scenario", EVERYTHING, ids=lambda one: one.name)
def test_with_the_drop_ins_all_is_well(scenario):
    """Without a barge-in, and with one in the middle of things."""
    assert judge(play(scenario, TRANSACTIONAL)) == []
    outcome = play(scenario, TRANSACTIONAL, At(3.9))
    assert len(outcome.barge_ins) == 1 and judge(outcome) == []


def test_every_scenario_has_a_name_of_its_own():
    names = [scenario.name for scenario in EVERYTHING]
    assert len(set(names)) == len(names)
    for module in (conversations, scenarios):
        for scenario in EVERYTHING:
            assert getattr(module, scenario.name, scenario) is scenario


def test_a_stubborn_tool_keeps_stock_speaking():
    """The interruption waits for the tool to stop, and the bot talks on."""
    outcome = play(scenarios.stubborn, STOCK, At(3.6))
    assert FaultKind.DEAD_TURN in kinds(outcome)


def test_a_timeout_during_the_words_leaves_stock_waiting_for_ever():
    """The cancel overtakes the call that it cancels."""
    outcome = play(scenarios.timeout, STOCK)
    assert {FaultKind.STUCK, FaultKind.NO_ANSWER, FaultKind.PLACEHOLDER} <= kinds(outcome)


def test_ungrouped_tools_show_stock_models_a_call_without_its_result():
    assert FaultKind.PLACEHOLDER in kinds(play(scenarios.ungrouped, STOCK))


def test_a_run_during_a_call_shows_stock_models_a_placeholder():
    outcome = play(scenarios.run_during_call.but(voice="text", during=_early()), STOCK)
    assert FaultKind.PLACEHOLDER in kinds(outcome)


def _early():
    ((_, action),) = scenarios.run_during_call.during
    return ((3.5, action),)


def test_a_session_that_ends_in_mid_round_leaves_stock_with_calls_in_progress():
    assert FaultKind.STUCK in kinds(play(scenarios.ends, STOCK, At(3.1)))
    assert FaultKind.STUCK in kinds(play(scenarios.is_cancelled, STOCK, At(3.6)))


def test_a_muted_user_interrupts_nothing():
    outcome = play(scenarios.muted.but(voice="text"), STOCK, At(2.4))
    assert outcome.muted and kinds(outcome) == set()


def test_three_words_are_needed_to_interrupt_a_bot_that_speaks():
    outcome = play(scenarios.min_words, STOCK, At(3.6))
    assert outcome.turns[1].at == pytest.approx(3.6 + 3 * 0.3)
    plain = play(conversations.order, STOCK, At(3.6))
    assert plain.turns[1].at == pytest.approx(3.6)


def test_a_tool_that_outlives_the_turn_brings_its_news_later():
    outcome = play(scenarios.outliving.but(voice="text"), STOCK, At(3.6))
    texts = [m["content"] for m in outcome.history if m["role"] == "assistant" and "content" in m]
    assert any("4471 has been shipped" in text for text in texts)
    assert any("4472 has been shipped" in text for text in texts)


@pytest.mark.parametrize(
    ("scenario", "found"),
    [
        (scenarios.stumbles, FaultKind.NO_ANSWER),
        (scenarios.stumbles_beside, FaultKind.LOST),
        (scenarios.odd_results, FaultKind.WRONG_RESULT),
        (scenarios.unruly, FaultKind.STUCK),
        (scenarios.same_ids, FaultKind.HALF_ROUND),
        (scenarios.ids_are_names, FaultKind.HALF_ROUND),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_models_and_tools_do_wrong_leaves_stock_with_damage(scenario, found):
    """Without any barge-in."""
    assert found in kinds(play(scenario, STOCK))


def test_a_booking_that_is_cut_is_on_record_and_one_made_since_is_not_taken_for_it():
    """It is made in the world all the same, when the user speaks of another already."""
    for scenario, ending in ((scenarios.books, "cancelled"), (scenarios.books_on, "reported")):
        begun = play(scenario, TRANSACTIONAL).runs[0].started
        outcome = play(scenario, TRANSACTIONAL, At(begun + 0.5))
        assert [run.ending for run in outcome.runs] == [ending, "reported"]
        contents = [m["content"] for m in outcome.history if m["role"] == "tool"]
        assert "may have completed" in contents[0]
        assert contents[1:] == ['{"booked": "4pm"}']
        assert judge(outcome) == []
