# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A run must find the calls in the history that the model has just made."""

from pipecat.frames.frames import LLMContextFrame

from pipecat_turn_acid import TransactionalLLMContext
from pipecat_turn_acid.context import RunVerdict
from pipecat_turn_acid.core import ToolCall
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, After, Tick, play
from pipecat_turn_acid.testing.flow_conversations import late_edge
from pipecat_turn_acid.testing.judge import judge


def test_a_run_waits_for_a_call_that_is_not_in_the_history_yet():
    """The model makes a call again that it does not find."""
    context = TransactionalLLMContext()
    context.commits_in_order = True
    context.begin_turn()
    context.stage_round([ToolCall("call_1", "book", "{}", outlives_turn=True)])

    assert context.admit_run(LLMContextFrame(context)) is RunVerdict.OWED
    context.note_written("call_1")
    assert context.owes_run
    assert context.admit_run(LLMContextFrame(context)) is RunVerdict.RUN


def test_a_call_of_an_ended_turn_holds_nothing_up():
    context = TransactionalLLMContext()
    context.commits_in_order = True
    context.begin_turn()
    context.stage_round([ToolCall("call_1", "book", "{}", outlives_turn=True)])

    context.begin_turn()
    assert context.admit_run(LLMContextFrame(context)) is RunVerdict.RUN


def test_a_late_result_during_the_next_response_makes_no_call_twice():
    outcome = play(late_edge, TRANSACTIONAL, Tick(148), second=After(ticks=330))
    assert judge(outcome) == []
