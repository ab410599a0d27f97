# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What a session leaves behind, and a conversation that goes on in another one."""

import gc
import weakref
from dataclasses import replace
from typing import Any

import pytest

from pipecat_turn_acid import TransactionalLLMContext
from pipecat_turn_acid.testing import conversations, flow_conversations, scenarios
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, At, play


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


@pytest.mark.parametrize("ending", ["end", "cancel"])
def test_a_tool_that_outlives_its_turn_does_not_outlive_the_session(ending):
    """Pipecat cancels it at the end, so nothing is in progress any more."""
    slow = replace(scenarios.outliving.tools[0], seconds=60.0)
    conversation = scenarios.outliving.but(ending=ending, tools=(slow,))
    outcome = play(conversation, TRANSACTIONAL, At(4.0))

    assert [run.ending for run in outcome.runs] == ["cancelled"]
    assert not outcome.in_progress


@pytest.mark.parametrize("ending", ["end", "cancel"])
def test_a_node_that_is_being_entered_when_the_session_ends_waits_for_nothing(ending):
    """What it would have said is not said any more, and a server has many sessions."""

    def what_is_left(bot):
        tasks = bot.aggregators.assistant().task_manager.current_tasks()
        names = [task.get_name() for task in tasks]
        return [n for n in names if n.endswith(":transition")], bot.context.hooks_pending

    conversation = flow_conversations.speaking.but(inspect=what_is_left, judged=None)
    decided = play(conversation, TRANSACTIONAL).runs[0].ended
    assert decided is not None

    outcome = play(conversation.but(ending=ending), TRANSACTIONAL, At(decided + 0.1))

    assert outcome.found == ([], False)
