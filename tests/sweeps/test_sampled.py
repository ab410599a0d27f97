# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A sample of the sweeps: whatever instant the user barges in at, no trace is left.

The whole sweeps are run by ``make sweep``; see ``docs/sweep.md`` for the command and the figures.
"""

import pytest

from pipecat_turn_acid import TurnPolicy
from pipecat_turn_acid.testing import conversations, scenarios
from pipecat_turn_acid.testing.conversation import STOCK, TRANSACTIONAL
from pipecat_turn_acid.testing.judge import FaultKind
from pipecat_turn_acid.testing.sweep import sweep

five = pytest.mark.parametrize("conversation", conversations.FIVE, ids=lambda one: one.name)
corners = pytest.mark.parametrize("conversation", scenarios.ALL, ids=lambda one: one.name)
voices = pytest.mark.parametrize("voice", ("words", "sentences", "text"))


@five
@voices
def test_a_barge_in_leaves_no_trace(conversation, voice):
    report = sweep(conversation.but(voice=voice), TRANSACTIONAL, sample=8)
    assert report.clean, str(report)


@five
def test_a_barge_in_at_a_time_leaves_no_trace(conversation):
    report = sweep(conversation, TRANSACTIONAL, ms=10, sample=6)
    assert report.clean, str(report)


@five
def test_a_second_barge_in_leaves_no_trace(conversation):
    report = sweep(conversation, TRANSACTIONAL, sample=6, second=True)
    assert report.clean, str(report)


@five
def test_a_false_start_leaves_no_trace(conversation):
    report = sweep(conversation, TRANSACTIONAL, sample=6, false_start=True)
    assert report.clean, str(report)


@corners
def test_a_barge_in_in_a_corner_leaves_no_trace(conversation):
    report = sweep(conversation, TRANSACTIONAL, sample=6)
    assert report.clean, str(report)


@corners
def test_a_second_barge_in_in_a_corner_leaves_no_trace(conversation):
    report = sweep(conversation, TRANSACTIONAL, sample=3, second=True)
    assert report.clean, str(report)


side_effects = (scenarios.books, scenarios.books_two, scenarios.books_on)


@pytest.mark.parametrize("conversation", side_effects, ids=lambda one: one.name)
def test_a_false_start_leaves_a_record_that_the_model_can_speak_of(conversation):
    report = sweep(conversation, TRANSACTIONAL, sample=12, false_start=True)
    assert report.clean, str(report)


@pytest.mark.parametrize("late_result", ["note", "drop"])
@pytest.mark.parametrize("second", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize(
    "conversation", [scenarios.outliving, scenarios.mixed], ids=lambda one: one.name
)
def test_a_late_result_leaves_no_trace_whatever_becomes_of_it(conversation, second, late_result):
    kit = TRANSACTIONAL.but(policy=TurnPolicy(late_result=late_result))
    report = sweep(conversation, kit, sample=8, second=second)
    assert report.clean, str(report)


@pytest.mark.parametrize(
    ("name", "damaged"),
    [("order", 0.15), ("parallel", 0.03), ("chain", 0.14), ("correct", 0.09)],
)
def test_the_same_sweep_finds_stock_damaged(name, damaged):
    """Were the sweep blind, the tests above would say nothing."""
    report = sweep(getattr(conversations, name), STOCK, sample=40)
    assert report.share >= damaged, str(report)
    assert FaultKind.LEFTOVER in report.kinds()
