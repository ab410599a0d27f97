# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The one gate before each request: what becomes of those who ask for a run."""

import pytest
from pipecat.frames.frames import LLMContextFrame

from pipecat_turn_acid.context import RunVerdict
from pipecat_turn_acid.events import StaleFenced, StaleWork
from pipecat_turn_acid.stamps import OWED_KEY, stamp


def asks(context, epoch=None, *, owed=False):
    frame = LLMContextFrame(context)
    if epoch is not None:
        stamp(frame, epoch)
    if owed:
        frame.metadata[OWED_KEY] = True
    return frame


def test_a_run_of_the_current_turn_is_admitted(context):
    context.begin_turn()
    assert context.admit_run(asks(context)) is RunVerdict.RUN
    assert context.admit_run(asks(context, 1)) is RunVerdict.RUN


@pytest.mark.parametrize("how", ["ended", "followed"])
def test_a_run_that_a_turn_asked_for_which_is_over_is_dropped(context, events, how):
    """Otherwise the killed turn answers, and the new one too."""
    context.begin_turn()
    frame = asks(context, 1)
    unstamped = asks(context)
    if how == "ended":
        context.end_turn()
    else:
        context.begin_turn()
    assert context.admit_run(frame) is RunVerdict.FENCED
    assert context.admit_run(unstamped) is RunVerdict.FENCED
    assert events[-1] == StaleFenced(StaleWork("run", 1))


def test_complete_rounds_are_committed_before_the_request(context, tool_call):
    context.stage_assistant_tool_calls([tool_call("a")])
    context.stage_tool_result("a", "1")
    assert context.admit_run(asks(context)) is RunVerdict.RUN
    assert len(context.messages) == 2


def test_a_run_waits_for_a_round_that_is_not_complete(context, tool_call):
    """The model would not see the call, and would make it again."""
    round = context.stage_assistant_tool_calls([tool_call("a")])
    assert context.admit_run(asks(context)) is RunVerdict.OWED
    assert context.owes_run
    assert context.staged == (round,)
    context.stage_tool_result("a", "1")
    assert context.admit_run(asks(context)) is RunVerdict.RUN
    assert not context.owes_run


def test_a_committed_round_asks_for_one_run(context, tool_call):
    context.stage_assistant_tool_calls([tool_call("a"), tool_call("b")])
    context.stage_tool_result("a", "1")
    context.stage_tool_result("b", "2")
    context.commit()
    assert context.owes_run
    assert context.admit_run(asks(context, owed=True)) is RunVerdict.RUN
    assert context.admit_run(asks(context, owed=True)) is RunVerdict.FENCED


def test_a_round_whose_results_want_no_run_asks_for_none(context, tool_call):
    context.stage_assistant_tool_calls([tool_call("a")])
    context.stage_tool_result("a", "1", wants_run=False)
    context.commit()
    assert not context.owes_run


def test_a_round_that_a_run_has_seen_asks_for_no_other(context, tool_call):
    """The user's next words bring a run that sees the result; one more would answer it twice."""
    context.stage_assistant_tool_calls([tool_call("a")])
    context.stage_tool_result("a", "1")
    context.commit()
    assert context.admit_run(asks(context)) is RunVerdict.RUN
    assert context.admit_run(asks(context, owed=True)) is RunVerdict.FENCED


def test_a_run_owed_by_a_turn_that_is_over_is_owed_no_more(context):
    context.owe_run()
    context.end_turn()
    assert not context.owes_run


def test_what_a_barge_in_committed_is_still_to_be_seen(context, tool_call):
    context.begin_turn()
    context.stage_assistant_tool_calls([tool_call("a")])
    context.stage_tool_result("a", "1")
    context.end_turn()
    assert context.owes_run
    context.begin_turn()
    assert context.admit_run(asks(context)) is RunVerdict.RUN
    assert not context.owes_run


def test_runs_can_be_held_until_a_round_has_ended(context, tool_call):
    round = context.stage_assistant_tool_calls([tool_call("a")])
    context.stage_tool_result("a", "1")
    context.hold_runs(round)
    assert context.runs_held
    context.commit()
    assert not context.runs_held


def test_a_round_of_a_turn_that_is_over_holds_nothing(context, tool_call):
    round = context.stage_assistant_tool_calls([tool_call("a")])
    context.hold_runs(round)
    context.begin_turn()
    assert not context.runs_held


def test_a_run_that_names_no_turn_begins_one_after_an_interruption(context):
    """An application that pushes context frames of its own is answered."""
    context.begin_turn()
    context.end_turn()
    frame = asks(context)
    assert context.admit_run(frame) is RunVerdict.RUN
    assert context.epoch == 2
    assert frame.metadata["turn_epoch"] == 2


def test_a_run_that_names_no_turn_waits_while_the_user_has_the_floor(context):
    context.begin_turn()
    context.end_turn()
    context.user_turn_open = True
    assert context.admit_run(asks(context)) is RunVerdict.OWED
    assert context.epoch == 1
    assert context.owes_run


def test_two_services_may_run_on_the_same_frame(context):
    """A pipeline with two branches has one in each."""
    context.begin_turn()
    context.owe_run()
    frame = asks(context, owed=True)
    assert context.admit_run(frame) is RunVerdict.RUN
    assert context.admit_run(frame) is RunVerdict.RUN
