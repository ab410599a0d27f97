# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Rule 10: what becomes of the words of an interrupted answer, and of the user's own."""

import asyncio
from typing import Any

import pytest
from pipecat.frames.frames import (
    InterruptionFrame,
    LLMContextAssistantTimestampFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    TTSTextFrame,
)
from pipecat.tests.utils import SleepFrame, run_test

from pipecat_turn_acid import (
    TransactionalLLMAssistantAggregator,
    TransactionalLLMContext,
    TurnPolicy,
)
from pipecat_turn_acid.testing import conversations
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, After, At, play
from pipecat_turn_acid.testing.judge import judge

HEARD = TRANSACTIONAL.but("heard", policy=TurnPolicy(interrupted_text="heard"))
TALK = conversations.talk
ANSWER = {"role": "assistant", "content": "We are open from nine to five."}


def user(content):
    return {"role": "user", "content": content}


def stopped(outcome):
    return [e.detail for e in outcome.events if e.name == "on_assistant_turn_stopped"]


@pytest.fixture(scope="module")
def begun():
    """When each word of the whole answer is heard."""
    return [word.at for word in play(TALK, TRANSACTIONAL).heard]


@pytest.mark.parametrize("words", [1, 3, 6, 10])
def test_discard_reports_the_words_as_interrupted_and_forgets_them(begun, words):
    outcome = play(TALK, TRANSACTIONAL, At(begun[words - 1] + 0.2))
    assert outcome.history == [user(TALK.says[0]), user(TALK.barge_in), ANSWER]
    assert "content='Refunds" in stopped(outcome)[0]
    assert "interrupted=True" in stopped(outcome)[0]
    assert "interrupted=False" in stopped(outcome)[1]


@pytest.mark.parametrize("words", [1, 3, 6, 10])
def test_heard_keeps_the_words_that_were_heard_in_their_place(begun, words):
    outcome = play(TALK, HEARD, At(begun[words - 1] + 0.2))
    said = "Refunds take fourteen days. You get an email when the money is on its way.".split()
    first, kept, *rest = outcome.history
    assert (first, rest) == (user(TALK.says[0]), [user(TALK.barge_in), ANSWER])
    assert kept["role"] == "assistant"
    assert kept["content"].split() == said[: len(kept["content"].split())]
    assert abs(len(kept["content"].split()) - words) <= 1
    assert judge(outcome) == []


def test_heard_words_stand_before_the_record_of_what_they_announced():
    """What was said first was heard first."""
    policy = TurnPolicy(interrupted_text="heard", side_effect_tools=frozenset({"book_demo"}))
    clean = play(conversations.correct, TRANSACTIONAL)
    run = clean.runs[0]
    assert run.ended is not None
    outcome = play(
        conversations.correct, TRANSACTIONAL.but(policy=policy), At((run.started + run.ended) / 2)
    )
    roles = [m["role"] for m in outcome.history[:5]]
    assert roles == ["user", "assistant", "assistant", "tool", "user"]
    assert str(outcome.history[1]["content"]).startswith("Booking")
    assert "may have completed" in outcome.history[3]["content"]


@pytest.mark.parametrize("kit", [TRANSACTIONAL, HEARD], ids=["discard", "heard"])
@pytest.mark.parametrize("seconds", [0.1, 1.0, 2.5, 4.0])
def test_the_users_own_words_are_never_lost(kit, seconds):
    """A second barge-in before the first is settled, or after."""
    outcome = play(TALK, kit, At(5.0), second=After(seconds=seconds))
    said = " ".join(m["content"] for m in outcome.history if m["role"] == "user")
    assert said == f"{TALK.says[0]} {TALK.barge_in} {TALK.second_barge_in}"
    assert judge(outcome) == []


def test_the_words_before_a_call_are_kept_when_they_were_heard_to_their_end():
    """They were a part of the conversation; only what was cut is in question."""
    clean = play(conversations.order, TRANSACTIONAL)
    committed = next(e.at for e in clean.events if e.name == "on_round_committed")
    outcome = play(conversations.order, TRANSACTIONAL, At(committed + 0.3))
    assert outcome.history[1] == {"role": "assistant", "content": "Let me check 4471 for you."}
    assert judge(outcome) == []


def test_an_answer_that_was_heard_to_its_end_is_kept_however_soon_the_user_speaks():
    """Writing it down takes some passes of the event loop where somebody watches what is pushed."""

    async def prepare(bot):
        def speaks(_, frame):
            if isinstance(frame, LLMContextAssistantTimestampFrame):
                bot.context.end_turn()

        bot.aggregators.assistant().add_event_handler("on_before_push_frame", speaks)

    outcome = play(TALK.but(prepare=prepare), TRANSACTIONAL)

    assert [m["role"] for m in outcome.history] == ["user", "assistant"]


@pytest.mark.parametrize("policy", ["discard", "heard"])
async def test_a_word_that_comes_after_the_interruption_is_in_no_message(virtual_time, policy):
    """The output may have been about to release it; it is neither heard nor part of what follows."""
    context = TransactionalLLMContext(policy=TurnPolicy(interrupted_text=policy))
    context.begin_turn()
    aggregator = TransactionalLLMAssistantAggregator(context)
    start: Any = LLMFullResponseStartFrame()
    end: Any = LLMFullResponseEndFrame()
    words = [TTSTextFrame(text, "word") for text in ("Refunds", "take", "We", "are", "open.")]
    next_start: Any = LLMFullResponseStartFrame()
    next_end: Any = LLMFullResponseEndFrame()
    for frame in (next_start, next_end):
        frame.metadata["turn_epoch"] = 2
    asyncio.get_running_loop().call_later(3.5, context.begin_turn)
    frames: list[Any] = [start, words[0], InterruptionFrame(), words[1], end, next_start]
    frames += [*words[2:], next_end]
    pieces: list[Any] = []
    for frame in frames:
        pieces += [SleepFrame(0.8), frame]

    await run_test(aggregator, frames_to_send=pieces)

    kept = ["Refunds"] if policy == "heard" else []
    history: list[Any] = context.messages
    assert [m["content"] for m in history] == [*kept, "We are open."]
