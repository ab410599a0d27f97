# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Every member of the context, used by hand, without a pipeline."""

import copy
import inspect
from typing import Any

import pytest
from loguru import logger
from pipecat.frames.frames import InterruptionFrame, LLMContextFrame
from pipecat.processors.aggregators.llm_context import LLMContext, LLMSpecificMessage

from pipecat_turn_acid import FenceOutcome, RoundState, TransactionalLLMContext, TurnPolicy
from pipecat_turn_acid.context import RunVerdict
from pipecat_turn_acid.core import OrphanKind
from pipecat_turn_acid.events import (
    HistoryRepaired,
    RoundCommitted,
    RoundRolledBack,
    RoundSpliced,
    RoundStaged,
    StaleFenced,
    StaleWork,
    TurnEnded,
    TurnEnding,
    TurnStarted,
)


def user(content="Hello"):
    return {"role": "user", "content": content}


# --- epoch and begin_turn ----------------------------------------------------------------------


def test_the_epoch_is_0_before_the_first_turn(context):
    assert context.epoch == 0


def test_begin_turn_returns_the_new_epoch(context):
    assert [context.begin_turn(), context.begin_turn()] == [1, 2]
    assert context.epoch == 2


def test_begin_turn_drops_what_the_turn_before_has_not_finished(context, events, tool_call):
    context.begin_turn()
    round = context.stage_assistant_tool_calls([tool_call("a"), tool_call("b")])
    context.stage_tool_result("a", "1")
    context.begin_turn()
    assert round.state is RoundState.ROLLED_BACK
    assert context.messages == []
    assert context.staged == ()
    assert RoundRolledBack(round) in events


def test_begin_turn_keeps_what_the_turn_before_has_finished(context, tool_call):
    context.begin_turn()
    context.stage_assistant_tool_calls([tool_call("a")])
    context.stage_tool_result("a", "1")
    context.begin_turn()
    assert [m["role"] for m in context.messages] == ["assistant", "tool"]


def test_end_turn_ends_it_once(context, events):
    context.begin_turn()
    assert [context.end_turn(), context.end_turn()] == [1, 1]
    assert context.is_over
    assert context.was_interrupted(1)
    assert events[-2:] == [TurnEnding(1), TurnEnded(1)]


def test_a_turn_that_merely_gives_way_to_the_next_was_not_barged_in_on(context, events):
    context.begin_turn()
    context.begin_turn()
    assert TurnEnding(1) not in events
    assert TurnEnded(1) in events
    assert not context.was_interrupted(1)


def test_a_turn_tells_that_it_starts_after_the_one_before_is_settled(context, events, tool_call):
    round = context.stage_assistant_tool_calls([tool_call("a")])
    events.clear()
    context.begin_turn()
    assert events == [RoundRolledBack(round), TurnEnded(0), TurnStarted(1)]


# --- interruptions -----------------------------------------------------------------------------


def test_an_interruption_ends_the_turn_it_was_raised_in(context):
    context.begin_turn()
    frame = InterruptionFrame()
    assert context.end_turn_of(frame)
    assert context.is_over
    assert frame.metadata["turn_epoch"] == 1


def test_copies_of_an_interruption_end_the_turn_once(context, events):
    context.begin_turn()
    copies = [InterruptionFrame(), InterruptionFrame()]
    assert all(context.end_turn_of(frame) for frame in copies)
    assert events.count(TurnEnded(1)) == 1


@pytest.mark.parametrize("stamped", [True, False])
def test_a_late_copy_never_touches_the_turn_that_has_begun_since(
    context, events, tool_call, stamped
):
    """From whichever processor: one without our stamp is told by its age."""
    context.begin_turn()
    frame, late = InterruptionFrame(), InterruptionFrame()
    context.end_turn_of(frame)
    if stamped:
        late.metadata["turn_epoch"] = 1
    context.begin_turn()
    round = context.stage_assistant_tool_calls([tool_call("a")])
    assert not context.end_turn_of(late)
    assert context.is_live(2)
    assert context.staged == (round,)
    assert StaleFenced(StaleWork("interruption", 1)) in events


# --- stage_assistant_tool_calls ----------------------------------------------------------------


def test_a_staged_round_does_not_show(context, events, tool_call):
    context.add_message(user())
    round = context.stage_assistant_tool_calls([tool_call("a"), tool_call("b")])
    assert round.state is RoundState.STAGED
    assert context.staged == (round,)
    assert context.messages == context.get_messages() == context.get_messages("openai") == [user()]
    assert events == [RoundStaged(round)]


def test_what_is_staged_is_a_copy(context, tool_call):
    """A caller who goes on using its dict must not change the history with it."""
    entry = tool_call("a")
    context.stage_assistant_tool_calls([entry])
    context.stage_tool_result("a", "1")
    entry["id"] = "forged"
    entry["function"]["arguments"] = "forged"
    context.commit()
    assert context.messages[0]["tool_calls"] == [tool_call("a")]


@pytest.mark.parametrize("over", [True, False])
def test_a_round_of_a_turn_that_is_over_is_fenced_and_not_raised(context, events, tool_call, over):
    """Lateness is normal."""
    epoch = context.begin_turn()
    if over:
        context.end_turn()
    else:
        context.begin_turn()
    round = context.stage_assistant_tool_calls([tool_call("a")], epoch=epoch)
    assert round.state is RoundState.FENCED
    assert context.staged == ()
    assert events[-1] == StaleFenced(StaleWork("calls", epoch, "a"))
    assert context.stage_tool_result("a", "1", epoch=epoch) is FenceOutcome.FENCED
    assert context.commit(round) == 0
    assert context.messages == []


def test_a_turn_that_has_not_begun_cannot_stage_either(context, tool_call):
    assert context.stage_assistant_tool_calls([tool_call("a")], epoch=7).state is RoundState.FENCED


# --- stage_tool_result -------------------------------------------------------------------------


def test_a_result_is_staged_and_does_not_show(context, tool_call):
    round = context.stage_assistant_tool_calls([tool_call("a")])
    assert context.stage_tool_result("a", {"status": "shipped"}) is FenceOutcome.STAGED
    assert round.state is RoundState.COMPLETE
    assert context.messages == []


def test_a_result_after_the_turn_is_fenced_and_never_raises(context, events, tool_call):
    epoch = context.begin_turn()
    context.stage_assistant_tool_calls([tool_call("a")])
    context.begin_turn()
    assert context.stage_tool_result("a", "1", epoch=epoch) is FenceOutcome.FENCED
    assert context.stage_tool_result("a", "1") is FenceOutcome.FENCED
    assert context.stage_tool_result("never heard of", "1", epoch=epoch) is FenceOutcome.FENCED
    assert context.messages == []
    assert events[-1] == StaleFenced(StaleWork("result", epoch, "never heard of"))


def test_a_result_of_turn_1_does_not_answer_a_call_of_turn_2_with_the_same_id(context, tool_call):
    first = context.begin_turn()
    context.stage_assistant_tool_calls([tool_call("a")])
    second = context.begin_turn()
    round = context.stage_assistant_tool_calls([tool_call("a")])
    assert context.stage_tool_result("a", "old", epoch=first) is FenceOutcome.FENCED
    assert round.unanswered == ("a",)
    assert context.stage_tool_result("a", "new", epoch=second) is FenceOutcome.STAGED


# --- commit ------------------------------------------------------------------------------------


def test_commit_returns_how_many_messages_it_added(context, events, tool_call):
    context.add_message(user())
    round = context.stage_assistant_tool_calls([tool_call("a"), tool_call("b")])
    context.stage_tool_result("b", [])
    context.stage_tool_result("a", "shipped")
    assert context.commit() == 3
    assert context.messages == [
        user(),
        {"role": "assistant", "tool_calls": [tool_call("a"), tool_call("b")]},
        {"role": "tool", "content": "shipped", "tool_call_id": "a"},
        {"role": "tool", "content": "[]", "tool_call_id": "b"},
    ]
    assert context.staged == ()
    assert events[-1] == RoundCommitted(round)


def test_commit_with_nothing_staged_is_0_and_changes_nothing(context, events):
    context.add_message(user())
    assert context.commit() == 0
    assert context.messages == [user()]
    assert events == []


def test_commit_drops_what_is_not_fully_answered_with_what_dangles_from_it(
    context, events, tool_call
):
    round = context.stage_assistant_tool_calls([tool_call("a"), tool_call("b")])
    context.stage_tool_result("b", "2")
    assert context.commit() == 0
    assert context.messages == []
    assert events[-1] == RoundRolledBack(round)
    assert context.stage_tool_result("a", "1") is FenceOutcome.FENCED


def test_commit_of_one_round_leaves_the_others(context, tool_call):
    first = context.stage_assistant_tool_calls([tool_call("a")])
    second = context.stage_assistant_tool_calls([tool_call("b")])
    context.stage_tool_result("a", "1")
    context.stage_tool_result("b", "2")
    assert context.commit(second) == 2
    assert context.staged == (first,)
    assert context.commit() == 2
    assert [m.get("tool_call_id") for m in context.messages] == [None, "b", None, "a"]


def test_commit_cannot_be_cut_in_two(context):
    """A cancelled task cannot leave half a round behind, for there is no await in it."""
    assert not inspect.iscoroutinefunction(TransactionalLLMContext.commit)
    assert not inspect.iscoroutinefunction(TransactionalLLMContext.rollback)


def test_a_round_that_waits_for_a_call_which_outlives_the_turn_is_spliced_first(context, events):
    from pipecat_turn_acid.core import ToolCall

    round = context.stage_round(
        [ToolCall("a", "slow", "{}", outlives_turn=True), ToolCall("b", "quick", "{}")]
    )
    context.stage_tool_result("b", "2")
    assert context.commit() == 2
    assert events[-1] == RoundSpliced(round)
    context.deliver("a")
    assert events[-1] == RoundCommitted(round)


# --- rollback ----------------------------------------------------------------------------------


def test_rollback_leaves_the_history_untouched_and_may_be_asked_again(context, events, tool_call):
    context.add_message(user())
    round = context.stage_assistant_tool_calls([tool_call("a")])
    context.rollback()
    context.rollback()
    assert context.messages == [user()]
    assert context.staged == ()
    assert events.count(RoundRolledBack(round)) == 1


def test_rollback_of_another_turn_drops_nothing(context, tool_call):
    context.begin_turn()
    round = context.stage_assistant_tool_calls([tool_call("a")])
    context.rollback(epoch=0)
    assert context.staged == (round,)


def test_rollback_never_drops_what_is_complete(context, tool_call):
    round = context.stage_assistant_tool_calls([tool_call("a")])
    context.stage_tool_result("a", "1")
    context.rollback()
    assert context.staged == (round,)
    assert context.commit() == 2


def test_rollback_keeps_a_record_of_what_may_have_happened(tool_call):
    """A booking that was cut must be checked before it is made again."""
    policy = TurnPolicy(side_effect_tools=frozenset({"book"}))
    context: Any = TransactionalLLMContext(policy=policy)
    context.stage_assistant_tool_calls([tool_call("a", "book"), tool_call("b")])
    context.rollback()
    call, result = context.messages
    assert call == {"role": "assistant", "tool_calls": [tool_call("a", "book")]}
    assert "may have completed" in result["content"]
    assert context.check() == ()


# --- the history -------------------------------------------------------------------------------


def test_messages_is_the_live_list_and_the_same_dicts():
    """Pipecat's code, and applications, change the history through it."""
    mine: Any = [user()]
    context = TransactionalLLMContext(mine)
    assert context.messages is context.get_messages() is mine
    assert context.messages[0] is mine[0]


def test_a_commit_adds_to_the_live_list(context, tool_call):
    live = context.messages
    context.stage_assistant_tool_calls([tool_call("a")])
    context.stage_tool_result("a", "1")
    context.commit()
    assert context.messages is live
    assert len(live) == 2


def test_messages_carry_no_keys_of_ours(context, tool_call):
    """What is committed is what a request shows; some services refuse keys they do not know."""
    context.stage_assistant_tool_calls([tool_call("a")])
    context.stage_tool_result("a", "1")
    context.commit()
    assert set(context.messages[0]) == {"role", "tool_calls"}
    assert set(context.messages[0]["tool_calls"][0]) == {"id", "type", "function"}
    assert set(context.messages[1]) == {"role", "content", "tool_call_id"}


def test_set_messages_leaves_what_is_staged(context, tool_call):
    round = context.stage_assistant_tool_calls([tool_call("a")])
    context.set_messages([user("summary")])
    assert context.staged == (round,)
    context.stage_tool_result("a", "1")
    context.commit()
    assert [m["role"] for m in context.messages] == ["user", "assistant", "tool"]


def test_an_orphan_that_got_in_by_another_way_is_repaired_in_what_is_sent(context, tool_call):
    context.set_messages(
        [user(), {"role": "assistant", "tool_calls": [tool_call("a")]}, user("Hello?")]
    )
    assert context.get_messages("openai") == [user(), user("Hello?")]
    assert len(context.messages) == 3
    assert [(o.kind, o.tool_call_id) for o in context.check()] == [(OrphanKind.CALL, "a")]


def test_the_repair_is_told_by_one_warning_and_one_event(context, events, tool_call):
    context.set_messages([{"role": "assistant", "tool_calls": [tool_call("a")]}])
    warnings: list[str] = []
    sink = logger.add(warnings.append, level="WARNING", format="{message}")
    try:
        for _ in range(2):
            assert context.admit_run(LLMContextFrame(context)) is RunVerdict.RUN
    finally:
        logger.remove(sink)
    assert len(warnings) == 1
    assert "tool call 'a'" in warnings[0]
    assert len([e for e in events if isinstance(e, HistoryRepaired)]) == 1


def test_messages_of_one_service_are_kept_and_filtered_as_in_stock(context):
    mine, other = LLMSpecificMessage("openai", {"a": 1}), LLMSpecificMessage("google", {"b": 2})
    context.add_messages([user(), mine, other])
    assert context.messages == [user(), mine, other]
    assert context.get_messages("openai") == [user(), mine]


def test_large_values_are_shortened_as_in_stock():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9999}}
    messages: Any = [{"role": "user", "content": [image]}]
    stock = LLMContext(copy.deepcopy(messages))
    ours = TransactionalLLMContext(copy.deepcopy(messages))
    shown = ours.get_messages(truncate_large_values=True)
    assert shown == stock.get_messages(truncate_large_values=True) != messages


# --- copies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_is_another_conversation(context, events, tool_call, copied):
    """It has the history and the policy, not what is staged nor those who listen."""
    context.adopt_policy(TurnPolicy(interrupted_text="heard"))
    context.begin_turn()
    context.add_message(user())
    context.stage_assistant_tool_calls([tool_call("a")])
    events.clear()
    twin = copied(context)
    assert type(twin) is TransactionalLLMContext
    assert twin.messages == [user()]
    assert twin.messages is not context.messages
    assert twin.staged == ()
    assert twin.policy == context.policy
    twin.begin_turn()
    twin.stage_assistant_tool_calls([tool_call("a")])
    twin.stage_tool_result("a", "1")
    twin.commit()
    assert events == []
    assert context.messages == [user()]


def test_a_deep_copy_shares_no_message_and_keeps_the_tools(context):
    context.add_message(user())
    context.set_tool_choice("none")
    twin = copy.deepcopy(context)
    twin.messages[0]["content"] = "changed"
    assert context.messages == [user()]
    assert twin.tool_choice == "none"


def test_a_context_inside_something_that_is_copied_is_copied_once(context):
    one, other = copy.deepcopy([context, context])
    assert one is other is not context


# --- ids ---------------------------------------------------------------------------------------


def test_an_id_that_is_free_is_kept(context):
    assert context.unused_call_id("a", []) == "a"


@pytest.mark.parametrize("tool_call_id", [None, ""])
def test_a_call_without_an_id_gets_one(context, tool_call_id):
    assert context.unused_call_id(tool_call_id, []) == "call"
    assert context.unused_call_id(tool_call_id, ["call"]) == "call-2"


def test_an_id_is_taken_by_the_response_by_what_is_staged_and_by_the_history(context, tool_call):
    context.stage_assistant_tool_calls([tool_call("a")])
    assert context.unused_call_id("a", []) == "a-2"
    assert context.unused_call_id("a", ["a-2"]) == "a-3"
    context.set_messages([{"role": "assistant", "tool_calls": [tool_call("b")]}])
    assert context.unused_call_id("b", []) == "b-2"
