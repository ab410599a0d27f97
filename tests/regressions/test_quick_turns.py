# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A client interrupts and asks in one breath, so the next turn overtakes the interruption."""

import asyncio
from typing import Any

import pytest
from pipecat.frames.frames import Frame, InterruptionFrame, LLMMessagesAppendFrame
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

from pipecat_turn_acid.testing import conversations
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, play, usual_pipeline

ANSWER = "We are open from nine to five."


class Slow(FrameProcessor):
    """Passes everything on in order, and interruptions after a moment."""

    async def process_frame(self, frame: Frame, direction: FrameDirection):
        await super().process_frame(frame, direction)
        if isinstance(frame, InterruptionFrame):
            await asyncio.sleep(0.01)
        await self.push_frame(frame, direction)


async def interrupt_and_ask(bot):
    """What Pipecat's RTVI processor does with a text from the client."""
    await bot.transport.input().broadcast_interruption()
    question: Any = {"role": "user", "content": "What are your store hours?"}
    await bot.transport.input().push_frame(LLMMessagesAppendFrame([question], run_llm=True))


@pytest.mark.parametrize("behind", ("user", "llm", "tts"))
def test_an_interruption_that_the_next_turn_overtook_still_stops_the_old_answer(behind):
    """What the user talked over is neither said to its end nor glued to the next answer."""

    def assemble(bot):
        user, *others = usual_pipeline(bot)[1:]
        parts = [bot.transport.input(), user, *others]
        place = {"user": user, "llm": bot.llm, "tts": bot.tts}[behind]
        parts.insert(parts.index(place) + 1, Slow())
        return parts

    conversation = conversations.talk.but(assemble=assemble)
    asked = play(conversation, TRANSACTIONAL).requests[0].at
    conversation = conversation.but(during=((asked + 2.0, interrupt_and_ask),))

    outcome = play(conversation, TRANSACTIONAL)

    assert [m["content"] for m in outcome.history if m["role"] == "assistant"] == [ANSWER]
    assert " ".join(word.text for word in outcome.heard).endswith("You " + ANSWER)
    stopped = [e.detail for e in outcome.events if e.name == "on_assistant_turn_stopped"]
    assert ["interrupted=True" in detail for detail in stopped] == [True, False]
