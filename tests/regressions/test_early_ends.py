# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A call ends before its announcement has crossed the words that were said before it."""

from typing import Any

import pytest
from pipecat.processors.aggregators import async_tool_messages

from pipecat_turn_acid.testing import conversations
from pipecat_turn_acid.testing.conversation import STOCK, TRANSACTIONAL, Kit, play
from pipecat_turn_acid.testing.script import ChatRequest, Reply
from pipecat_turn_acid.testing.tools import Tool

STOCK_SERVICE = TRANSACTIONAL.but("stock service", llm=STOCK.part("llm"))


def answer(request: ChatRequest) -> Reply:
    if request.recent:
        return Reply().say("I could not look that up.")
    return Reply().say("Let me check that for you.").call("get_order_status", {"order_id": "4471"})


@pytest.mark.parametrize("kit", (TRANSACTIONAL, STOCK_SERVICE), ids=lambda kit: kit.name)
@pytest.mark.parametrize("awaited", (True, False), ids=("awaited", "outlives its turn"))
def test_a_deadline_that_passes_behind_the_words_settles_the_call(kit: Kit, awaited: bool):
    """The caller hears that it did not work, instead of nothing at all."""
    tool = Tool(
        "get_order_status",
        ("order_id",),
        seconds=30.0,
        timeout=0.5,
        cancel_on_interruption=awaited,
    )
    conversation = conversations.order.but(script=lambda: answer, tools=(tool,))

    outcome = play(conversation, kit)

    assert not outcome.in_progress
    assert [r.said for r in outcome.requests] == [
        "Let me check that for you.",
        "I could not look that up.",
    ]
    if awaited:
        assert "timed out" in outcome.history[3]["content"]
    else:
        message: Any = outcome.history[4]
        notice = async_tool_messages.parse_message(message)
        assert notice is not None and notice.status == "finished"
