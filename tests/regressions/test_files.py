# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A file or an image comes in the middle of an answer, or from a tool, and the user barges in."""

import asyncio

import pytest
from pipecat.frames import frames

from pipecat_turn_acid import TurnPolicy
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, At, play
from pipecat_turn_acid.testing.conversations import order, talk
from pipecat_turn_acid.testing.script import ChatRequest, Reply

pytestmark = pytest.mark.since(1, 13)

HALF = "Refunds take fourteen days. You get an email"


def image():
    return frames.UserImageRawFrame(
        image=bytes(12), size=(2, 2), format="RGB", append_to_context=True, run_llm=False
    )


def file():
    return frames.UserFileRawFrame(
        file="data:application/pdf;base64,JVBERi0=",
        type="bytes",
        filename="invoice.pdf",
        format="application/pdf",
        append_to_context=True,
        run_llm=False,
    )


@pytest.mark.parametrize("make", [image, file])
@pytest.mark.parametrize(("policy", "kept"), [("discard", []), ("heard", [HALF, "when the"])])
def test_words_before_what_was_sent_are_words_of_the_same_answer(make, policy, kept):
    """Pipecat writes them down early; the answer is cut all the same."""
    frame = make()

    async def send(bot):
        await bot.queue(frame)

    kit = TRANSACTIONAL.but(policy=TurnPolicy(interrupted_text=policy))
    outcome = play(talk.but(during=((5.0, send),)), kit, At(5.6))

    said = [m["content"] for m in outcome.history if m["role"] == "assistant"]
    assert said == [*kept, "We are open from nine to five."]
    assert sum(isinstance(m["content"], list) for m in outcome.history) == 1


@pytest.mark.parametrize("make", [image, file])
def test_words_before_what_was_sent_stay_when_the_answer_ends(make):
    frame = make()

    async def send(bot):
        await bot.queue(frame)

    outcome = play(talk.but(during=((5.0, send),)), TRANSACTIONAL)

    said = [m["content"] for m in outcome.history if m["role"] == "assistant"]
    assert said == [HALF, "when the money is on its way."]


def reads(request: ChatRequest) -> Reply:
    if "Never mind" in request.user:
        return Reply().say("All right.")
    if request.calls:
        return Reply().say("It is an invoice.")
    return Reply().call("get_order_status", {"order_id": "4471"})


def drawing():
    return frames.AssistantImageRawFrame(
        image=bytes(12), size=(2, 2), format="RGB", original_data=b"\xff\xd8"
    )


@pytest.mark.parametrize("make", [image, file, drawing])
def test_what_a_cut_tool_still_sends_reaches_nobody(make):
    """Its result is turned away, and so is what belongs to the result."""
    frame = make()

    async def prepare(bot):
        (tool,) = bot.conversation.tools

        async def read(params):
            run = bot.toolbox.begin(tool, params.tool_call_id, params.arguments)
            finding = asyncio.create_task(asyncio.sleep(3.0))
            while not finding.done():
                try:
                    await asyncio.shield(finding)
                except asyncio.CancelledError:
                    continue
            await params.llm.push_frame(frame)
            bot.toolbox.end(run, "reported", {"order_id": "4471"})
            await params.result_callback({"order_id": "4471"})

        bot.llm.register_function(tool.name, read)

    conversation = order.but(
        voice="text", prepare=prepare, barge_in="Never mind.", script=lambda: reads
    )
    outcome = play(conversation, TRANSACTIONAL, At(4.0))

    assert [message["content"] for message in outcome.history] == [
        order.says[0],
        "Never mind.",
        "All right.",
    ]
    assert not outcome.in_progress
