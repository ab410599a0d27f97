# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""One conversation that goes on in another session."""

import gc
import weakref
from typing import Any

from pipecat_turn_acid import TransactionalLLMContext
from pipecat_turn_acid.testing import conversations
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, play


def test_a_context_forgets_the_aggregators_of_a_session_that_has_ended():
    """A bot that answers one caller all day keeps the history, and not every pipeline."""
    context = TransactionalLLMContext()
    kit = TRANSACTIONAL.but("one context", context=lambda **kwargs: context)
    assistants = []

    async def watch(bot):
        assistants.append(weakref.ref(bot.aggregators.assistant()))

    for _ in range(2):
        outcome = play(conversations.talk.but(prepare=watch), kit)
        assert outcome.rested
        del outcome
    gc.collect()

    messages: list[Any] = context.messages
    assert [message["role"] for message in messages] == ["user", "assistant"] * 2
    assert [assistant() for assistant in assistants] == [None, None]
