# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The model is asked while the user's turn is still open: speculation, and "are you done?"."""

import asyncio

import pytest
from pipecat.frames.frames import (
    EagerTranscriptionFrame,
    ProposedUserStartedSpeakingFrame,
    ProposedUserStoppedSpeakingFrame,
    TranscriptionFrame,
)
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_completion_mixin import UserTurnCompletionConfig
from pipecat.turns.user_turn_strategies import (
    EagerUserTurnStrategies,
    FilterIncompleteUserTurnStrategies,
)
from pipecat.utils.time import time_now_iso8601

from pipecat_turn_acid.testing import conversations
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, At, play
from pipecat_turn_acid.testing.script import Script
from pipecat_turn_acid.testing.speech import Said, User


class PredictedUser(User):
    """A user before a recogniser that owns the turns and predicts where they end."""

    async def says(self, text: str) -> None:
        async with self._mouth:
            loop = asyncio.get_running_loop()
            said = Said(text, loop.time())
            self.said.append(said)
            microphone, who = self._microphone, ("user", time_now_iso8601())
            await microphone.broadcast_frame(ProposedUserStartedSpeakingFrame)
            await asyncio.sleep(1.0)
            await microphone.push_frame(EagerTranscriptionFrame(text, *who))
            await asyncio.sleep(0.03)
            said.recognised = loop.time()
            await microphone.push_frame(TranscriptionFrame(text, *who, finalized=True))
            await asyncio.sleep(0.02)
            await microphone.broadcast_frame(ProposedUserStoppedSpeakingFrame)


def predicted(conversation, voice="words"):
    async def prepare(bot):
        bot.user = PredictedUser(bot.transport.input())

    return conversation.but(
        voice=voice,
        user_params=lambda: {"user_turn_strategies": EagerUserTurnStrategies()},
        prepare=prepare,
    )


def roles(outcome):
    return [message["role"] for message in outcome.history]


@pytest.mark.parametrize("voice", ("words", "sentences", "text"))
def test_an_answer_that_was_speculated_is_remembered(voice):
    """It was begun before the turn ended, and belongs to that turn all the same."""
    outcome = play(predicted(conversations.talk, voice), TRANSACTIONAL)

    assert len(outcome.requests) == 1
    assert roles(outcome) == ["user", "assistant"]
    assert outcome.history[1]["content"] == outcome.requests[0].said


@pytest.mark.parametrize("voice", ("words", "text"))
def test_a_call_of_a_confirmed_speculation_gets_its_answer(voice):
    """The first run of a session may be a speculation, and its round asks for a second."""
    outcome = play(predicted(conversations.order, voice), TRANSACTIONAL)

    assert [request.said for request in outcome.requests] == [
        "Let me check 4471 for you.",
        "Order 4471 has been shipped.",
    ]
    assert roles(outcome) == ["user", "assistant", "assistant", "tool", "assistant"]


def test_what_a_confirmed_speculation_has_shown_is_not_answered_again():
    """A round that completed before the barge-in is part of what was speculated on."""
    conversation = predicted(conversations.order).but(barge_in="Never mind.")

    asked = play(conversation, TRANSACTIONAL).requests[0].at

    # The tool has reported, and the words before its call are still being said.
    outcome = play(conversation, TRANSACTIONAL, At(asked + 1.5))

    assert roles(outcome) == ["user", "assistant", "tool", "user", "assistant"]
    assert [request.said for request in outcome.requests[1:]] == ["Which order do you mean?"]


def incomplete_script():
    script = Script()
    script.on(when=lambda request: request.messages[-1]["role"] == "developer").say("● Go on.")
    script.on(user="help with").say("◐")
    return script


@pytest.mark.parametrize("watchdog", (5.0, 30.0))
def test_a_user_who_does_not_go_on_is_prompted(watchdog):
    """The turn is open until the model finds it complete, so the prompt can't wait for its end."""
    conversation = conversations.talk.but(
        says=("I need help with",),
        script=incomplete_script,
        quiet=12.0,
        user_params=lambda: {
            "user_turn_stop_timeout": watchdog,
            "user_turn_strategies": FilterIncompleteUserTurnStrategies(
                stop=[SpeechTimeoutUserTurnStopStrategy()],
                config=UserTurnCompletionConfig(incomplete_short_timeout=3.0),
            ),
        },
    )

    outcome = play(conversation, TRANSACTIONAL)

    assert [request.said for request in outcome.requests] == ["◐", "● Go on."]
    assert [word.text for word in outcome.heard] == ["Go", "on."]
