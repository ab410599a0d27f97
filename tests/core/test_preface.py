# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What one provider wants to see before the calls of a round shares the round's fate."""

import pytest

from pipecat_turn_acid.core import IllegalTransitionError, ToolCall, Turns

THOUGHT = object()


def staged(turns, **more):
    return turns.stage_calls([ToolCall("a", "f", "{}", **more)], epoch=turns.epoch)


def test_it_stands_right_before_the_round_in_the_history():
    """A thought that led to a call is of no use anywhere else."""
    turns = Turns()
    round = staged(turns)
    turns.precede(round, [THOUGHT])
    turns.stage_result("a", "done", epoch=turns.epoch)

    messages = turns.commit().messages

    assert messages[0] is THOUGHT
    assert [m["role"] for m in messages[1:]] == ["assistant", "tool"]


def test_it_is_dropped_with_the_round():
    """A thought without its call is refused by those who wanted to see it."""
    turns = Turns()
    turns.precede(staged(turns), [THOUGHT])

    end = turns.end()

    assert end.rolled_back
    assert end.messages == ()


def test_it_stays_with_what_stays_on_record():
    """A call that may have acted is kept, and so is what it must be shown with."""
    turns = Turns()
    turns.precede(staged(turns, has_side_effects=True), [THOUGHT])

    messages = turns.end().messages

    assert messages[0] is THOUGHT
    assert len(messages) == 3


def test_nothing_is_put_before_a_round_that_is_over():
    """It would stand alone."""
    turns = Turns()
    round = staged(turns)
    turns.end()

    with pytest.raises(IllegalTransitionError, match="rolled back"):
        turns.precede(round, [THOUGHT])
