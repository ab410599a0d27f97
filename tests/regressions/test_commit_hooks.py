# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A commit hook that comes to grief keeps nobody waiting."""

import asyncio

from pipecat_turn_acid.testing import conversations
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, play


def test_the_run_is_made_when_what_a_hook_waits_for_is_cancelled():
    """A task that a barge-in cancels must not take the bot's answers with it."""

    async def prepare(bot):
        async def wait_for_a_cancelled_task(round):
            waiting = asyncio.create_task(asyncio.sleep(5))
            asyncio.get_running_loop().call_later(0.1, waiting.cancel)
            await waiting

        bot.context.on_round_committed(wait_for_a_cancelled_task)

    outcome = play(conversations.order.but(prepare=prepare), TRANSACTIONAL)

    assert outcome.history[-1]["content"] == "Order 4471 has been shipped."
    assert any("on_round_committed failed" in error for error in outcome.errors)
