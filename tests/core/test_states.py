# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The two tables, spelled out by hand: a rule that changes has to be changed twice."""

import itertools

import pytest

from pipecat_turn_acid.core import (
    ROUND_TRANSITIONS,
    TURN_TRANSITIONS,
    IllegalTransitionError,
    RoundMove,
    RoundState,
    TurnMove,
    TurnState,
)
from pipecat_turn_acid.core.states import next_state

LEGAL_TURN_MOVES = [
    ("live", "begin", "live"),
    ("live", "end", "over"),
    ("over", "begin", "live"),
    ("over", "end", "over"),
]

LEGAL_ROUND_MOVES = [
    ("staged", "stage a result", "staged"),
    ("staged", "stage the last result", "complete"),
    ("staged", "let outlive", "outliving"),
    ("staged", "roll back", "rolled back"),
    ("complete", "commit", "committed"),
    ("complete", "commit what is awaited", "outliving"),
    ("outliving", "commit", "committed"),
    ("rolled back", "roll back", "rolled back"),
    ("fenced", "roll back", "fenced"),
]


def spelled_out(table):
    return [
        (str(state), str(move), str(after))
        for state, moves in table.items()
        for move, after in moves.items()
    ]


def test_these_are_all_the_legal_moves_of_a_turn():
    assert sorted(spelled_out(TURN_TRANSITIONS)) == sorted(LEGAL_TURN_MOVES)


def test_these_are_all_the_legal_moves_of_a_round():
    assert sorted(spelled_out(ROUND_TRANSITIONS)) == sorted(LEGAL_ROUND_MOVES)


def test_every_state_stands_in_its_table():
    """A state that is missing would be a KeyError of ours, not a rule."""
    assert set(TURN_TRANSITIONS) == set(TurnState)
    assert set(ROUND_TRANSITIONS) == set(RoundState)


@pytest.mark.parametrize(("state", "move", "after"), LEGAL_TURN_MOVES)
def test_a_legal_move_of_a_turn_leads_where_the_table_says(state, move, after):
    assert next_state(TURN_TRANSITIONS, TurnState(state), TurnMove(move), "turn 1") == after


@pytest.mark.parametrize(("state", "move", "after"), LEGAL_ROUND_MOVES)
def test_a_legal_move_of_a_round_leads_where_the_table_says(state, move, after):
    assert next_state(ROUND_TRANSITIONS, RoundState(state), RoundMove(move), "round 1") == after


@pytest.mark.parametrize(
    ("state", "move"),
    [
        (state, move)
        for state, move in itertools.product(RoundState, RoundMove)
        if (state, move) not in {(s, m) for s, m, _ in LEGAL_ROUND_MOVES}
    ],
)
def test_every_other_move_of_a_round_is_refused_and_names_what_it_met(state, move):
    with pytest.raises(IllegalTransitionError, match=f"can't {move}: round 7 of turn 2 is {state}"):
        next_state(ROUND_TRANSITIONS, state, move, "round 7 of turn 2")


@pytest.mark.parametrize("state", [RoundState.COMPLETE, RoundState.OUTLIVING, RoundState.COMMITTED])
def test_what_is_complete_cannot_be_rolled_back(state):
    """A finished result is never lost to a barge-in."""
    assert RoundMove.ROLLBACK not in ROUND_TRANSITIONS[state]


def test_what_is_committed_stays_as_it_is():
    assert ROUND_TRANSITIONS[RoundState.COMMITTED] == {}


@pytest.mark.parametrize("state", [RoundState.ROLLED_BACK, RoundState.FENCED])
def test_what_was_dropped_can_be_dropped_again_and_nothing_else(state):
    """An interruption arrives as several copies, and a shutdown may ask as well."""
    assert ROUND_TRANSITIONS[state] == {RoundMove.ROLLBACK: state}
