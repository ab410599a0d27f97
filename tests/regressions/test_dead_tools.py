# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A tool goes on after its turn was cut, and pushes frames of its own."""

import asyncio
from typing import Any

import pytest
from pipecat.frames.frames import LLMMessagesAppendFrame, TTSSpeakFrame

from pipecat_turn_acid.testing import conversations
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, At, play
from pipecat_turn_acid.testing.script import ChatRequest, Reply
from pipecat_turn_acid.testing.tools import Tool

NEWS: Any = {"role": "developer", "content": "Order 4471 is on its way, say so."}


def answer(request: ChatRequest) -> Reply:
    if NEWS in request.messages[-2:]:
        return Reply().say("It is on its way.")
    if "hours" in request.user:
        return Reply().say("We are open from nine to five.")
    if request.recent:
        return Reply().say("One moment.")
    return Reply().say("Let me check.").call("follow", {"order_id": "4471"})


def follow_up(frame, *, in_background=False, awaited=True):
    """A conversation whose tool pushes a frame 3.5 s after it was called, come what may."""

    async def prepare(bot):
        tool = bot.conversation.tools[0]

        async def follow(params):
            async def push():
                await asyncio.sleep(3.5)
                await params.llm.push_frame(frame())

            run = bot.toolbox.begin(tool, params.tool_call_id, params.arguments)
            pushing = asyncio.create_task(push())
            while not in_background and not pushing.done():
                try:
                    await asyncio.shield(pushing)
                except asyncio.CancelledError:
                    continue
            bot.toolbox.end(run, "reported", "followed")
            await params.result_callback("followed")

        bot.llm.register_function(tool.name, follow, cancel_on_interruption=awaited)

    return conversations.order.but(
        says=("Follow order 4471.",),
        barge_in="Never mind, what are your hours?",
        script=lambda: answer,
        tools=(Tool("follow", ("order_id",), cancel_on_interruption=awaited),),
        prepare=prepare,
        quiet=6.0,
    )


def news():
    return LLMMessagesAppendFrame([NEWS], run_llm=True)


def speech():
    return TTSSpeakFrame("Order 4471 is on its way.")


@pytest.mark.parametrize("frame", (news, speech), ids=("a message", "a sentence"))
def test_what_a_cut_call_still_asks_for_reaches_nobody(frame):
    """The caller has moved on, and hears nothing of what was given up."""
    conversation = follow_up(frame)
    asked = play(conversation, TRANSACTIONAL).requests[0].at

    outcome = play(conversation, TRANSACTIONAL, At(asked + 1.0))

    assert [message["content"] for message in outcome.history] == [
        "Follow order 4471.",
        "Never mind, what are your hours?",
        "We are open from nine to five.",
    ]
    assert "way" not in " ".join(word.text for word in outcome.heard)
    assert any("call_0001" in e.detail for e in outcome.events if e.name == "on_stale_fenced")


@pytest.mark.parametrize(
    "kind",
    ({"in_background": True}, {"awaited": False}),
    ids=("of a call that has reported", "of a call that outlives its turn"),
)
def test_what_a_call_leaves_running_on_purpose_is_heard(kind):
    """A reminder that was set is given, whatever the caller has talked of since."""
    conversation = follow_up(news, **kind)
    asked = play(conversation, TRANSACTIONAL).requests[0].at

    outcome = play(conversation, TRANSACTIONAL, At(asked + 1.0))

    assert NEWS in outcome.history
    assert outcome.history[-1]["content"] == "It is on its way."
