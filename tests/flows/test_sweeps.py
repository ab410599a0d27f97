# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A barge-in at instants all over a flow: node, functions, messages, state and runs agree.

The sweeps at every tick are run by hand; ``docs/flows.md`` has the command and the figures.
"""

import pytest
from pipecat.flows import FlowManager

from pipecat_turn_acid import TurnPolicy, _compat
from pipecat_turn_acid.testing import flow_conversations as flows
from pipecat_turn_acid.testing.conversation import STOCK, TRANSACTIONAL, At, play
from pipecat_turn_acid.testing.judge import FaultKind, judge
from pipecat_turn_acid.testing.sweep import sweep

every_flow = pytest.mark.parametrize("conversation", flows.ALL, ids=lambda one: one.name)


@every_flow
def test_without_a_barge_in_all_is_well(conversation):
    outcome = play(conversation, TRANSACTIONAL)
    assert judge(outcome) == []
    assert outcome.found.node == conversation.judged.__self__.goal


@every_flow
def test_a_barge_in_leaves_all_of_a_transition_or_nothing(conversation):
    report = sweep(conversation, TRANSACTIONAL, sample=6)
    assert report.clean, str(report)


@every_flow
def test_a_noise_leaves_all_of_a_transition_or_nothing(conversation):
    """Nobody says anything, so whoever has to answer must be found without it."""
    report = sweep(conversation, TRANSACTIONAL, sample=3, false_start=True)
    assert report.clean, str(report)


@every_flow
def test_two_barge_ins_leave_all_of_a_transition_or_nothing(conversation):
    report = sweep(conversation, TRANSACTIONAL, sample=3, second=True)
    assert report.clean, str(report)


@pytest.mark.parametrize("late_result", ("note", "drop"))
def test_a_result_that_comes_late_moves_no_flow_whatever_becomes_of_it(late_result):
    kit = TRANSACTIONAL.but(policy=TurnPolicy(late_result=late_result))
    report = sweep(flows.late_edge, kit, sample=8)
    assert report.clean, str(report)


@pytest.mark.parametrize("voice", ("sentences", "text"))
@pytest.mark.parametrize("name", ("quick_edge", "reset_cancels", "speaking"))
def test_other_voices_leave_the_same(name, voice):
    if (name, voice) == ("speaking", "sentences") and _compat.PIPECAT < (1, 13):
        pytest.skip("Pipecat 1.12 joins the application's words and the model's to one message")
    conversation = getattr(flows, name).but(voice=voice)
    report = sweep(conversation, TRANSACTIONAL, sample=6)
    assert report.clean, str(report)


def test_a_stock_llm_service_makes_the_same_transitions():
    """Rule 15: any service."""
    from pipecat.services.openai.llm import OpenAILLMService

    kit = TRANSACTIONAL.but("stock llm", llm=OpenAILLMService)
    for conversation in (flows.quick_edge, flows.slow_edge_cancels, flows.mixed, flows.reset):
        assert judge(play(conversation, kit)) == []


def test_the_stock_flow_manager_works_on_the_drop_ins():
    kit = TRANSACTIONAL.but("stock flow manager", flow_manager=FlowManager)
    for conversation in (flows.append, flows.reset, flows.append_cancels, flows.edge_raises):
        assert judge(play(conversation, kit)) == []


# --- what stock Pipecat does -------------------------------------------------------------------


def test_stock_never_transitions_beside_a_slower_function():
    outcome = play(flows.quick_edge, STOCK)
    assert outcome.found.node == "order" and outcome.found.pending is not None


def test_stock_answers_before_and_after_a_transition():
    outcome = play(flows.slow_edge, STOCK)
    assert FaultKind.MANY_ANSWERS in {fault.kind for fault in judge(outcome)}


def test_stock_forgets_a_node_that_cannot_be_entered():
    """Nobody hears anything any more."""
    outcome = play(flows.missing_key, STOCK)
    assert [fault.kind for fault in judge(outcome)] == [FaultKind.NO_ANSWER]


def test_stock_transitions_although_the_user_has_said_to_wait():
    outcome = play(flows.long_edge, STOCK, At(3.0))
    assert outcome.found.entries == ["order", "confirm"]
    decided = next(run for run in outcome.runs if run.name == "choose_size")
    assert decided.arguments == {"size": "large"} and decided.ended is not None
    assert decided.ended > outcome.turns[-1].at
