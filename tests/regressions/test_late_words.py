# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A word is on its way past the interruption when the interruption comes."""

import asyncio

import pytest
from pipecat.frames.frames import Frame, LLMFullResponseEndFrame, LLMTextFrame
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

from pipecat_turn_acid import TurnPolicy
from pipecat_turn_acid.testing import conversations
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, At, play, usual_pipeline
from pipecat_turn_acid.testing.script import Script


class Lagging(FrameProcessor):
    """Passes words on a little later, whatever happens meanwhile."""

    async def process_frame(self, frame: Frame, direction: FrameDirection):
        await super().process_frame(frame, direction)
        if isinstance(frame, (LLMTextFrame, LLMFullResponseEndFrame)):
            asyncio.create_task(self._push_later(frame, direction))
        else:
            await self.push_frame(frame, direction)

    async def _push_later(self, frame: Frame, direction: FrameDirection):
        await asyncio.sleep(0.05)
        await self.push_frame(frame, direction)


def test_a_word_that_slips_past_the_interruption_is_not_remembered():
    """A voice that begins anew would say it, and nobody has heard the sentence it is from."""

    def assemble(bot):
        parts = usual_pipeline(bot)
        parts.insert(parts.index(bot.llm) + 1, Lagging())
        return parts

    conversation = conversations.talk.but(assemble=assemble)
    written = play(conversation, TRANSACTIONAL).requests[0]
    assert written.finished_at is not None and written.finished_at > written.at + 0.4

    outcome = play(conversation, TRANSACTIONAL, At(written.at + 0.23))

    assert [m["content"] for m in outcome.history] == [
        "Tell me about refunds.",
        "Never mind, what are your store hours?",
        "We are open from nine to five.",
    ]


def _pauses() -> Script:
    script = Script()
    script.on(user="hours").say("We are open from nine to five.")
    rest = "email when the money is on its way."
    script.on().say("Refunds take fourteen days. You get an").delay(5.0).say(rest)
    return script


# Pipecat 1.12 takes the pause for the end of the answer where words have times.
@pytest.mark.parametrize(
    "voice", [pytest.param("words", marks=pytest.mark.since(1, 13)), "sentences"]
)
@pytest.mark.parametrize(
    ("policy", "kept"), [("discard", []), ("heard", ["Refunds take fourteen days."])]
)
def test_a_sentence_that_the_voice_begins_as_it_is_cut_brings_nothing_back(policy, kept, voice):
    """The model stops in mid-sentence, and the voice takes up what there is of it."""
    conversation = conversations.talk.but(script=_pauses, voice=voice)
    kit = TRANSACTIONAL.but(policy=TurnPolicy(interrupted_text=policy))

    outcome = play(conversation, kit, At(6.0))

    assert [m["content"] for m in outcome.history] == [
        "Tell me about refunds.",
        *kept,
        "Never mind, what are your store hours?",
        "We are open from nine to five.",
    ]
