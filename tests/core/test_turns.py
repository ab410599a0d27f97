# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Facts about turns and their tool rounds, without a history and without Pipecat."""

import json

import pytest

from pipecat_turn_acid.core import (
    DuplicateToolCallError,
    IllegalTransitionError,
    InvalidMessageError,
    RoundState,
    StaleEpochError,
    ToolCall,
    TurnEnd,
    Turns,
    TurnState,
    UnknownToolCallError,
    UsageError,
)
from pipecat_turn_acid.core.turns import REMEMBERED_CALLS


def call(tool_call_id, *, name="look_up", arguments="{}", **facts):
    return ToolCall(tool_call_id, name, arguments, **facts)


def assistant(*ids, name="look_up", arguments="{}"):
    return {
        "role": "assistant",
        "tool_calls": [
            {"id": i, "function": {"name": name, "arguments": arguments}, "type": "function"}
            for i in ids
        ],
    }


def tool(tool_call_id, content):
    return {"role": "tool", "content": content, "tool_call_id": tool_call_id}


@pytest.fixture
def turns():
    return Turns()


# --- epochs ------------------------------------------------------------------------------------


def test_before_the_first_turn_the_epoch_is_0_and_live(turns):
    """The bot may greet, and call tools for it, before the user has said anything."""
    assert turns.epoch == 0
    assert turns.is_live(0)


def test_each_turn_has_the_next_number(turns):
    assert [turns.begin().epoch for _ in range(3)] == [0, 1, 2]
    assert turns.epoch == 3


def test_an_ended_turn_keeps_its_number_and_is_not_live(turns):
    turns.begin()
    turns.end()
    assert turns.epoch == 1
    assert turns.state is TurnState.OVER
    assert not turns.is_live(1)


def test_ending_a_turn_again_changes_nothing(turns):
    turns.begin()
    turns.stage_calls([call("a")], epoch=1)
    turns.end()
    assert turns.end() == TurnEnd(1)


@pytest.mark.parametrize("epoch", [-1, 0, 2, 99])
def test_only_the_current_turn_is_live(turns, epoch):
    turns.begin()
    assert not turns.is_live(epoch)


# --- staging -----------------------------------------------------------------------------------


def test_a_round_holds_all_the_calls_of_a_response_in_model_order(turns):
    round = turns.stage_calls([call("b"), call("a")], epoch=0)
    assert round.tool_call_ids == ("b", "a")
    assert round.awaited == round.unanswered == ("b", "a")
    assert round.state is RoundState.STAGED
    assert turns.staged == (round,)


def test_rounds_are_counted_through_the_conversation(turns):
    first = turns.stage_calls([call("a")], epoch=0)
    turns.begin()
    second = turns.stage_calls([call("b")], epoch=1)
    assert (first.number, first.epoch, second.number, second.epoch) == (1, 0, 2, 1)


def test_a_round_shows_copies_of_its_calls(turns):
    round = turns.stage_calls([call("a")], epoch=0)
    round.calls[0].content = "forged"
    assert round.unanswered == ("a",)


def test_a_round_names_itself_by_ids_and_not_by_texts(turns):
    round = turns.stage_calls([call("a", arguments='{"card": "4111"}')], epoch=0)
    assert repr(round) == "<ToolRound 1 of turn 0: staged [a]>"


def test_a_round_of_no_calls_is_refused(turns):
    with pytest.raises(InvalidMessageError, match="can't stage a round without tool calls"):
        turns.stage_calls([], epoch=0)


@pytest.mark.parametrize("ids", [("a", "a"), ("b", "a")])
def test_an_id_that_is_staged_is_refused_and_nothing_is_changed(turns, ids):
    turns.stage_calls([call("a")], epoch=0)
    with pytest.raises(DuplicateToolCallError, match="give each call an id of its own") as caught:
        turns.stage_calls([call(i) for i in ids], epoch=0)
    assert caught.value.tool_call_id == "a"
    assert len(turns.staged) == 1


def test_an_id_may_be_used_again_once_its_round_has_ended(turns):
    """Some services count their calls anew in each response."""
    turns.stage_calls([call("a")], epoch=0)
    turns.rollback(epoch=0)
    round = turns.stage_calls([call("a")], epoch=0)
    assert turns.find("a") is round


@pytest.mark.parametrize("end", [Turns.end, Turns.begin])
def test_a_turn_that_is_over_stages_nothing(turns, end):
    end(turns)
    with pytest.raises(StaleEpochError, match="turn 0 is over") as caught:
        turns.stage_calls([call("a")], epoch=0)
    assert caught.value.epoch == 0
    assert turns.staged == ()
    assert turns.find("a") is None


def test_a_fenced_round_is_remembered_so_that_its_results_are_late_and_not_unknown(turns):
    turns.begin()
    round = turns.fence_calls([call("a")], epoch=0)
    assert round.state is RoundState.FENCED
    assert turns.staged == ()
    with pytest.raises(StaleEpochError, match="its round is fenced"):
        turns.stage_result("a", "late", epoch=0)


def test_a_call_that_is_announced_late_joins_its_round(turns):
    round = turns.stage_calls([call("a")], epoch=0)
    turns.add_call(round, call("b"))
    assert round.tool_call_ids == ("a", "b")


def test_a_late_call_cannot_take_an_id_that_is_staged(turns):
    round = turns.stage_calls([call("a")], epoch=0)
    with pytest.raises(DuplicateToolCallError, match="can't stage tool call 'a' twice"):
        turns.add_call(round, call("a"))


def test_a_complete_round_takes_no_further_calls(turns):
    round = turns.stage_calls([call("a")], epoch=0)
    turns.stage_result("a", "1", epoch=0)
    with pytest.raises(IllegalTransitionError, match="round 1 of turn 0 is complete"):
        turns.add_call(round, call("b"))


# --- results -----------------------------------------------------------------------------------


def test_a_round_is_complete_with_its_last_result_whatever_the_order(turns):
    round = turns.stage_calls([call("a"), call("b")], epoch=0)
    turns.stage_result("b", "2", epoch=0)
    assert (round.state, round.unanswered) == (RoundState.STAGED, ("a",))
    assert round.messages == ()
    turns.stage_result("a", "1", epoch=0)
    assert (round.state, round.unanswered) == (RoundState.COMPLETE, ())


@pytest.mark.parametrize("content", ["", "0", "[]", "{}", "null", "false"])
def test_an_empty_result_is_a_result(turns, content):
    """``[]`` from a search is an answer; taking it for none leaves the bot hanging."""
    round = turns.stage_calls([call("a")], epoch=0)
    turns.stage_result("a", content, epoch=0)
    assert round.state is RoundState.COMPLETE
    assert turns.commit().messages == (assistant("a"), tool("a", content))


def test_a_second_result_is_refused_and_the_first_stands(turns):
    round = turns.stage_calls([call("a"), call("b")], epoch=0)
    turns.stage_result("a", "first", epoch=0)
    with pytest.raises(IllegalTransitionError, match="it already has one, which stands"):
        turns.stage_result("a", "second", epoch=0)
    assert round.calls[0].content == "first"


def test_a_result_for_a_committed_call_is_refused_and_the_first_stands(turns):
    turns.stage_calls([call("a")], epoch=0)
    turns.stage_result("a", "first", epoch=0)
    turns.commit()
    with pytest.raises(IllegalTransitionError, match="its round is committed"):
        turns.stage_result("a", "second", epoch=0)


def test_a_result_for_an_id_that_nobody_staged_names_the_way_out(turns):
    with pytest.raises(UnknownToolCallError, match=r"stage_assistant_tool_calls\(\)") as caught:
        turns.stage_result("nobody", "1", epoch=0)
    assert caught.value.tool_call_id == "nobody"


def test_a_result_of_a_dropped_round_is_late(turns):
    turns.stage_calls([call("a")], epoch=0)
    turns.rollback(epoch=0)
    with pytest.raises(StaleEpochError, match="its round is rolled back"):
        turns.stage_result("a", "1", epoch=0)


def test_a_result_of_an_ended_turn_is_late_even_if_nobody_remembers_the_call(turns):
    turns.begin()
    with pytest.raises(StaleEpochError, match="turn 0 is over"):
        turns.stage_result("forgotten", "1", epoch=0)


def test_a_late_result_does_not_answer_a_new_call_with_the_same_id(turns):
    """Ids are reused; turn 1's weather must not answer turn 2's question."""
    turns.begin()
    turns.stage_calls([call("a")], epoch=1)
    turns.begin()
    round = turns.stage_calls([call("a")], epoch=2)
    with pytest.raises(StaleEpochError, match="it is of turn 1, the call .* is of turn 2"):
        turns.stage_result("a", "old", epoch=1)
    assert round.unanswered == ("a",)


def test_a_round_wants_a_run_if_any_result_does(turns):
    round = turns.stage_calls([call("a"), call("b")], epoch=0)
    turns.stage_result("a", "1", epoch=0, wants_run=False)
    turns.stage_result("b", "2", epoch=0, wants_run=True)
    assert round.wants_run


def test_a_round_wants_no_run_if_no_result_does(turns):
    round = turns.stage_calls([call("a"), call("b")], epoch=0)
    turns.stage_result("a", "1", epoch=0, wants_run=False)
    turns.stage_result("b", "2", epoch=0, wants_run=False)
    assert not round.wants_run


# --- commit ------------------------------------------------------------------------------------


def test_a_commit_is_one_assistant_message_and_the_results_in_call_order(turns):
    """Every provider accepts this sequence; most refuse any other."""
    turns.stage_calls([call("a"), call("b")], epoch=0)
    turns.stage_result("b", "2", epoch=0)
    turns.stage_result("a", "1", epoch=0)
    assert turns.commit().messages == (assistant("a", "b"), tool("a", "1"), tool("b", "2"))


def test_what_the_round_shows_is_what_is_committed(turns):
    round = turns.stage_calls([call("a")], epoch=0)
    turns.stage_result("a", "1", epoch=0)
    shown = round.messages
    assert turns.commit().messages == shown == round.messages


def test_a_commit_of_nothing_is_nothing(turns):
    assert turns.commit() == TurnEnd(0)


def test_a_commit_drops_what_is_not_fully_answered(turns):
    whole = turns.stage_calls([call("a")], epoch=0)
    partial = turns.stage_calls([call("b"), call("c")], epoch=0)
    turns.stage_result("a", "1", epoch=0)
    turns.stage_result("b", "2", epoch=0)
    end = turns.commit()
    assert (end.committed, end.rolled_back) == ((whole,), (partial,))
    assert end.messages == (assistant("a"), tool("a", "1"))
    assert turns.staged == ()


def test_a_commit_of_one_round_leaves_the_others_staged(turns):
    first = turns.stage_calls([call("a")], epoch=0)
    second = turns.stage_calls([call("b")], epoch=0)
    turns.stage_result("b", "2", epoch=0)
    assert turns.commit(second).committed == (second,)
    assert turns.staged == (first,)


@pytest.mark.parametrize("drop", [False, True])
def test_a_commit_of_a_round_that_has_ended_is_nothing(turns, drop):
    round = turns.stage_calls([call("a")], epoch=0)
    if not drop:
        turns.stage_result("a", "1", epoch=0)
    turns.commit(round)
    assert turns.commit(round) == TurnEnd(0)


def test_a_round_of_another_conversation_is_refused(turns):
    other = Turns().stage_calls([call("a")], epoch=0)
    with pytest.raises(UsageError, match="it is staged in another conversation"):
        turns.commit(other)


# --- rollback and the end of a turn ------------------------------------------------------------


def test_a_rollback_drops_what_is_unfinished_and_keeps_what_is_complete(turns):
    whole = turns.stage_calls([call("a")], epoch=0)
    partial = turns.stage_calls([call("b")], epoch=0)
    turns.stage_result("a", "1", epoch=0)
    assert turns.rollback(epoch=0).rolled_back == (partial,)
    assert turns.staged == (whole,)
    assert turns.rollback(epoch=0) == TurnEnd(0)


def test_a_rollback_of_another_turn_drops_nothing(turns):
    turns.begin()
    round = turns.stage_calls([call("a")], epoch=1)
    assert turns.rollback(epoch=0) == TurnEnd(1)
    assert turns.staged == (round,)


@pytest.mark.parametrize("end", [Turns.end, Turns.begin])
def test_the_end_of_a_turn_commits_what_is_complete_and_drops_the_rest(turns, end):
    whole = turns.stage_calls([call("a")], epoch=0)
    partial = turns.stage_calls([call("b"), call("c")], epoch=0)
    turns.stage_result("a", "1", epoch=0)
    turns.stage_result("c", "3", epoch=0)
    result = end(turns)
    assert result.epoch == 0
    assert result.committed == (whole,)
    assert result.rolled_back == (partial,)
    assert result.messages == (assistant("a"), tool("a", "1"))
    assert turns.staged == ()


def test_a_dropped_round_shows_no_messages(turns):
    round = turns.stage_calls([call("a")], epoch=0)
    turns.end()
    assert round.messages == ()


def test_a_round_whose_turn_ends_before_it_has_reported_is_late(turns):
    on_time = turns.stage_calls([call("a")], epoch=0)
    late = turns.stage_calls([call("b")], epoch=0)
    turns.stage_result("a", "1", epoch=0)
    turns.end()
    assert (on_time.is_late, late.is_late) == (False, True)


def test_what_is_still_in_progress_is_not_late(turns):
    assert not turns.stage_calls([call("a")], epoch=0).is_late


# --- side effects ------------------------------------------------------------------------------


def test_a_started_call_with_side_effects_stays_on_record_when_it_is_cut(turns):
    """A booking that may have gone through must be checked before it is repeated."""
    round = turns.stage_calls([call("a", name="book", has_side_effects=True)], epoch=0)
    end = turns.end()
    assert end.rolled_back == (round,)
    record, result = end.messages
    assert record == assistant("a", name="book")
    text = json.loads(result["content"])
    assert result["tool_call_id"] == "a"
    assert "may have completed" in text
    assert "Check before repeating" in text


def test_a_call_with_side_effects_that_never_started_leaves_nothing(turns):
    turns.stage_calls([call("a", has_side_effects=True, started=False)], epoch=0)
    assert turns.end().messages == ()


def test_a_call_that_starts_after_it_was_staged_counts_as_started(turns):
    turns.stage_calls([call("a", has_side_effects=True, started=False)], epoch=0)
    turns.mark_started("a")
    assert len(turns.end().messages) == 2


def test_a_finished_call_of_a_cut_round_keeps_its_true_result_if_it_has_side_effects(turns):
    turns.stage_calls([call("a", has_side_effects=True), call("b")], epoch=0)
    turns.stage_result("a", '"booked"', epoch=0)
    assert turns.end().messages == (assistant("a"), tool("a", '"booked"'))


def test_calls_without_side_effects_leave_nothing_beside_those_that_have_some(turns):
    turns.stage_calls([call("a"), call("b", has_side_effects=True), call("c")], epoch=0)
    turns.stage_result("a", "1", epoch=0)
    record, *results = turns.end().messages
    assert record == assistant("b")
    assert [r["tool_call_id"] for r in results] == ["b"]


# --- calls that outlive the turn ---------------------------------------------------------------


def test_a_round_that_the_model_waits_for_in_no_part_is_outliving_at_once(turns):
    round = turns.stage_calls([call("a", outlives_turn=True)], epoch=0)
    assert round.state is RoundState.OUTLIVING
    assert turns.staged == ()
    assert round.awaited == ()
    assert turns.find("a") is round


def test_the_end_of_the_turn_does_not_touch_what_outlives_it(turns):
    round = turns.stage_calls([call("a", outlives_turn=True)], epoch=0)
    turns.end()
    turns.begin()
    assert round.state is RoundState.OUTLIVING
    assert round.is_late
    assert turns.deliver("a").committed == (round,)
    assert round.state is RoundState.COMMITTED


def test_a_round_that_outlives_its_turn_is_on_time_if_it_has_reported_before(turns):
    """The report counts, not the moment it reaches the history."""
    round = turns.stage_calls([call("a", outlives_turn=True)], epoch=0)
    turns.note_report("a")
    turns.begin()
    assert not round.is_late
    assert turns.deliver("a").committed == (round,)


def test_an_outliving_round_is_committed_with_its_last_result(turns):
    round = turns.stage_calls(
        [call("a", outlives_turn=True), call("b", outlives_turn=True)], epoch=0
    )
    assert turns.deliver("b") == TurnEnd(0)
    assert turns.deliver("a").committed == (round,)


def test_only_what_the_model_waits_for_is_spelled_out(turns):
    """The messages of a call that outlives the turn are Pipecat's, written when it starts."""
    turns.stage_calls([call("a", outlives_turn=True), call("b")], epoch=0)
    turns.stage_result("b", "2", epoch=0)
    assert turns.commit().messages == (assistant("b"), tool("b", "2"))


def test_a_mixed_round_is_spliced_first_and_committed_with_its_last_result(turns):
    round = turns.stage_calls([call("a", outlives_turn=True), call("b")], epoch=0)
    turns.stage_result("b", "2", epoch=0)
    end = turns.commit()
    assert (end.spliced, end.committed) == ((round,), ())
    assert round.state is RoundState.OUTLIVING
    end = turns.deliver("a")
    assert (end.committed, end.messages) == ((round,), ())
    assert round.state is RoundState.COMMITTED


def test_a_mixed_round_is_committed_at_once_if_the_other_call_was_delivered_before(turns):
    round = turns.stage_calls([call("a", outlives_turn=True), call("b")], epoch=0)
    assert turns.deliver("a") == TurnEnd(0)
    turns.stage_result("b", "2", epoch=0)
    assert turns.commit().committed == (round,)


def test_a_mixed_round_that_is_cut_is_rolled_back_for_what_the_model_waits_for(turns):
    round = turns.stage_calls([call("a", outlives_turn=True), call("b")], epoch=0)
    assert turns.end().rolled_back == (round,)
    assert turns.deliver("a") == TurnEnd(0)
    assert round.state is RoundState.ROLLED_BACK


def test_a_call_that_turns_out_to_outlive_its_turn_completes_its_round(turns):
    """A stock service tells how a call behaves only when it starts."""
    round = turns.stage_calls([call("a"), call("b")], epoch=0)
    turns.stage_result("b", "2", epoch=0)
    turns.let_outlive("a")
    assert round.state is RoundState.COMPLETE
    assert turns.commit().spliced == (round,)


def test_a_round_whose_only_call_turns_out_to_outlive_it_is_outliving(turns):
    round = turns.stage_calls([call("a")], epoch=0)
    turns.let_outlive("a")
    assert round.state is RoundState.OUTLIVING
    assert turns.staged == ()


@pytest.mark.parametrize(
    "move", [Turns.let_outlive, Turns.note_report, Turns.mark_started, Turns.deliver]
)
def test_what_nobody_staged_is_ignored_by_those_who_merely_note(turns, move):
    assert move(turns, "nobody") in (None, TurnEnd(0))


def test_the_id_of_a_running_call_that_outlives_its_turn_is_taken(turns):
    turns.stage_calls([call("a", outlives_turn=True)], epoch=0)
    turns.begin()
    with pytest.raises(DuplicateToolCallError):
        turns.stage_calls([call("a")], epoch=1)


def test_a_late_call_cannot_take_the_id_of_one_that_outlives_its_turn(turns):
    turns.stage_calls([call("a", outlives_turn=True)], epoch=0)
    round = turns.stage_calls([call("b")], epoch=0)
    with pytest.raises(DuplicateToolCallError):
        turns.add_call(round, call("a"))


def test_a_second_result_is_refused_while_a_sibling_outlives_the_turn(turns):
    turns.stage_calls([call("a", outlives_turn=True), call("b")], epoch=0)
    turns.stage_result("b", "2", epoch=0)
    turns.commit()
    with pytest.raises(IllegalTransitionError, match="its round is committed"):
        turns.stage_result("b", "3", epoch=0)


@pytest.mark.parametrize("siblings", [[], ["b"]])
def test_a_result_that_the_model_does_not_wait_for_is_not_staged(turns, siblings):
    calls = [call("a", outlives_turn=True), *map(call, siblings)]
    round = turns.stage_calls(calls, epoch=0)
    with pytest.raises(IllegalTransitionError, match="the model does not wait for it"):
        turns.stage_result("a", "1", epoch=0)
    assert round.calls[0].content is None


# --- memory ------------------------------------------------------------------------------------


def test_what_is_remembered_of_ended_calls_is_bounded(turns):
    """Nothing grows with the length of a conversation except its history."""
    for number in range(REMEMBERED_CALLS + 50):
        turns.begin()
        turns.stage_calls([call(f"call_{number}")], epoch=turns.epoch)
    turns.begin()
    remembered = [n for n in range(REMEMBERED_CALLS + 50) if turns.find(f"call_{n}")]
    assert len(remembered) == REMEMBERED_CALLS
    assert remembered[0] == 50
