# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The commit hook in a running bot: after the commit, before the next run, and whole."""

import asyncio

from pipecat_turn_acid.testing import conversations
from pipecat_turn_acid.testing.checks import check_history
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, At, play, usual_pipeline
from pipecat_turn_acid.testing.virtual_time import VirtualTimeLoop

ORDER = conversations.order


def hooked(hook, conversation=ORDER):
    """The conversation, with a hook on each commit."""

    def assemble(bot):
        bot.context.on_round_committed(lambda round: hook(bot, round))
        return usual_pipeline(bot)

    return conversation.but(assemble=assemble)


def now():
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return loop.elapsed


def test_a_hook_may_rewrite_what_the_next_request_shows():
    async def hook(bot, round):
        await asyncio.sleep(1.0)
        bot.context.add_message({"role": "developer", "content": "Be kind."})

    clean = play(ORDER, TRANSACTIONAL)
    outcome = play(hooked(hook), TRANSACTIONAL)
    assert outcome.requests[1].messages[-1] == {"role": "developer", "content": "Be kind."}
    assert outcome.requests[1].messages[-2]["role"] == "tool"
    assert outcome.requests[1].at >= clean.requests[1].at + 1.0
    assert len(outcome.requests) == 2


def test_a_hook_that_fails_is_reported_and_the_model_runs_all_the_same():
    async def hook(bot, round):
        raise RuntimeError("no such node")

    outcome = play(hooked(hook), TRANSACTIONAL)
    assert any("no such node" in error for error in outcome.errors)
    assert [m["role"] for m in outcome.history] == [
        "user",
        "assistant",
        "assistant",
        "tool",
        "assistant",
    ]


def test_a_barge_in_during_a_hook_lets_it_end_before_the_next_request():
    """Half a transition would show the model the messages of one node and the tools of another."""
    ended = []

    async def hook(bot, round):
        await asyncio.sleep(6.0)
        ended.append((now(), round.epoch))

    committed = next(
        e.at for e in play(ORDER, TRANSACTIONAL).events if e.name == "on_round_committed"
    )
    outcome = play(hooked(hook, ORDER.but(quiet=8.0)), TRANSACTIONAL, At(committed + 0.5))
    assert ended[0][1] == 1
    assert [r.at >= ended[0][0] for r in outcome.requests] == [False, True, True]
    assert outcome.requests[1].asked == ORDER.barge_in
    finals = [r.said for r in outcome.requests if r.final]
    assert finals == ["Order 4472 has been shipped."]
    assert check_history(outcome.history) == []


def test_a_round_that_is_rolled_back_calls_no_hook():
    called = []
    outcome = play(hooked(lambda bot, round: called.append(round.epoch)), TRANSACTIONAL, At(3.9))
    assert [run.ending for run in outcome.runs] == ["cancelled", "reported"]
    assert called == [2]


def test_a_round_that_the_barge_in_committed_calls_its_hook_before_the_next_request():
    called = []
    outcome = play(
        hooked(lambda bot, round: called.append((round.epoch, now()))), TRANSACTIONAL, At(4.5)
    )
    assert [run.ending for run in outcome.runs] == ["reported", "reported"]
    assert [epoch for epoch, _ in called] == [1, 2]
    assert called[0][1] <= outcome.requests[1].at
