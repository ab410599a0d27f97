# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The four scenarios and the three dialogues of the source design, by hand on the context."""

import pytest

from pipecat_turn_acid import FenceOutcome, RoundState, TransactionalLLMContext
from pipecat_turn_acid.events import RoundRolledBack
from pipecat_turn_acid.testing.checks import check_history, check_request


def call(tool_call_id, name, arguments):
    function = {"name": name, "arguments": arguments}
    return {"id": tool_call_id, "type": "function", "function": function}


def user(content):
    return {"role": "user", "content": content}


def bot(content):
    return {"role": "assistant", "content": content}


def calls(*tool_calls):
    return {"role": "assistant", "tool_calls": list(tool_calls)}


def result(tool_call_id, content):
    return {"role": "tool", "content": content, "tool_call_id": tool_call_id}


LOOK_UP_4471 = call("call_1", "get_order_status", '{"order_id": "4471"}')
LOOK_UP_4472 = call("call_2", "get_order_status", '{"order_id": "4472"}')
BOOK_3PM = call("call_1", "book_demo", '{"time": "3pm"}')
BOOK_4PM = call("call_2", "book_demo", '{"time": "4pm"}')


@pytest.fixture
def context():
    return TransactionalLLMContext()


@pytest.fixture(autouse=True)
def what_is_left_would_be_accepted(context):
    yield
    assert check_history(context.messages) == []
    if context.messages:
        assert check_request(context.get_messages("openai")) == []


def test_clean_turn(context):
    """A turn that nobody interrupts is remembered whole."""
    epoch = context.begin_turn()
    context.add_message(user("What is the status of order 4471?"))
    round = context.stage_assistant_tool_calls([LOOK_UP_4471], epoch=epoch)
    assert context.stage_tool_result("call_1", "shipped", epoch=epoch) is FenceOutcome.STAGED
    assert context.commit(round) == 2
    context.add_message(bot("Order 4471 has been shipped."))

    assert context.messages == [
        user("What is the status of order 4471?"),
        calls(LOOK_UP_4471),
        result("call_1", "shipped"),
        bot("Order 4471 has been shipped."),
    ]
    assert (context.epoch, round.state, context.staged) == (1, RoundState.COMMITTED, ())


def test_barge_in_mid_llm(context):
    """The model was still answering: the history is as it was, and the next turn has a new number."""
    context.begin_turn()
    context.add_message(user("Tell me about refunds."))
    before = list(context.messages)

    context.end_turn()
    context.rollback()
    assert context.messages == before

    assert context.begin_turn() == 2
    context.add_message(user("Never mind."))
    assert context.messages == [*before, user("Never mind.")]


def test_interruption_between_tool_call_and_result(context):
    """The orphaned call is dropped, so that no request shows a call without its result."""
    epoch = context.begin_turn()
    context.add_message(user("What is the status of order 4471?"))
    round = context.stage_assistant_tool_calls([LOOK_UP_4471], epoch=epoch)
    context.rollback(epoch=epoch)

    assert round.state is RoundState.ROLLED_BACK
    assert context.get_messages("openai") == [user("What is the status of order 4471?")]
    assert context.stage_tool_result("call_1", "shipped", epoch=epoch) is FenceOutcome.FENCED
    assert context.commit() == 0
    assert context.messages == [user("What is the status of order 4471?")]


def test_empty_turn(context):
    """Nothing was staged, so there is nothing to commit and nothing to roll back."""
    context.begin_turn()
    assert context.commit() == 0
    context.rollback()
    assert context.messages == []
    assert context.begin_turn() == 2


def test_interrupt_during_a_lookup(context):
    """ "Status of order 4471?" - "Let me check" - "Sorry, 4472." """
    killed = context.begin_turn()
    context.add_message(user("Status of order 4471?"))
    context.stage_assistant_tool_calls([LOOK_UP_4471], epoch=killed)
    context.end_turn()

    epoch = context.begin_turn()
    context.add_message(user("Sorry, 4472."))
    assert context.stage_tool_result("call_1", "late", epoch=killed) is FenceOutcome.FENCED
    context.stage_assistant_tool_calls([LOOK_UP_4472], epoch=epoch)
    context.stage_tool_result("call_2", "shipped", epoch=epoch)
    context.commit()

    assert context.messages == [
        user("Status of order 4471?"),
        user("Sorry, 4472."),
        calls(LOOK_UP_4472),
        result("call_2", "shipped"),
    ]


def test_no_residue_from_an_abandoned_turn(context):
    """A result that was written in mid-flight goes with its turn, and what was complete stays."""
    killed = context.begin_turn()
    context.add_message(user("Tell me about refunds."))
    search, price = call("call_1", "search", "{}"), call("call_2", "price", "{}")
    context.stage_assistant_tool_calls([search, price], epoch=killed)
    context.stage_tool_result("call_1", "Refunds take 14 days", epoch=killed)
    context.end_turn()

    context.begin_turn()
    context.add_message(user("Never mind, store hours?"))
    context.commit()

    assert context.messages == [user("Tell me about refunds."), user("Never mind, store hours?")]
    assert context.staged == ()


def test_rapid_mid_answer_correction(context):
    """The model's next view of the history is exactly: the user wants 4pm."""
    events: list = []
    context.add_listener(events.append)
    killed = context.begin_turn()
    context.add_message(user("Book the 3pm demo."))
    round = context.stage_assistant_tool_calls([BOOK_3PM], epoch=killed)
    context.end_turn()
    epoch = context.begin_turn()
    context.add_message(user("No wait, 4pm."))

    assert context.get_messages("openai") == [user("Book the 3pm demo."), user("No wait, 4pm.")]
    context.stage_assistant_tool_calls([BOOK_4PM], epoch=epoch)
    context.stage_tool_result("call_2", "booked", epoch=epoch)
    context.commit()
    assert [m.get("tool_call_id") for m in context.messages] == [None, None, None, "call_2"]
    assert events.count(RoundRolledBack(round)) == 1
