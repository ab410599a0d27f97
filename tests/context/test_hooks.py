# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What is called after a commit, and before the next run."""

import asyncio

import pytest
from pipecat.frames.frames import LLMContextFrame

from pipecat_turn_acid.context import RunVerdict
from pipecat_turn_acid.events import HookFailed, RoundCommitted


@pytest.fixture
def commit(context, tool_call):
    """Commit a round of one call."""

    def commit(tool_call_id="a"):
        round = context.stage_assistant_tool_calls([tool_call(tool_call_id)])
        context.stage_tool_result(tool_call_id, "1")
        context.commit(round)
        return round

    return commit


async def test_hooks_are_called_with_the_round_in_the_order_they_were_added(
    virtual_time, context, commit
):
    called = []
    context.on_round_committed(lambda round: called.append(("first", round)))
    context.on_round_committed(lambda round: called.append(("second", round)))
    rounds = [commit("a"), commit("b")]
    await context.run_commit_hooks()
    assert called == [(name, round) for round in rounds for name in ("first", "second")]


async def test_a_hook_finds_its_round_in_the_history(virtual_time, context, commit):
    """A state machine rewrites the history between rounds; its round must be there first."""
    seen = []
    context.on_round_committed(lambda round: seen.append(list(context.messages)))
    round = commit()
    await context.run_commit_hooks()
    assert seen == [list(round.messages)]


async def test_a_coroutine_is_awaited_before_the_next_hook(virtual_time, context, commit):
    called = []

    async def slow(round):
        await asyncio.sleep(1)
        called.append("slow")

    context.on_round_committed(slow)
    context.on_round_committed(lambda round: called.append("next"))
    commit()
    await context.run_commit_hooks()
    assert called == ["slow", "next"]
    assert virtual_time.elapsed == 1


async def test_no_run_is_admitted_before_the_hooks_are_done(virtual_time, context, commit):
    begun, release = asyncio.Event(), asyncio.Event()

    async def hook(round):
        begun.set()
        await release.wait()

    context.on_round_committed(hook)
    commit()
    assert context.hooks_pending
    assert context.admit_run(LLMContextFrame(context)) is RunVerdict.OWED
    running = asyncio.create_task(context.run_commit_hooks())
    await begun.wait()
    assert context.admit_run(LLMContextFrame(context)) is RunVerdict.OWED
    release.set()
    await running
    assert not context.hooks_pending
    assert context.admit_run(LLMContextFrame(context)) is RunVerdict.RUN


async def test_a_hook_that_raises_is_reported_and_keeps_nobody_from_being_called(
    virtual_time, context, events, commit
):
    called = []
    error = RuntimeError("no such node")

    def broken(round):
        raise error

    context.on_round_committed(broken)
    context.on_round_committed(called.append)
    round = commit()
    await context.run_commit_hooks()
    assert called == [round]
    assert events[-2:] == [RoundCommitted(round), HookFailed(round, error)]
    assert len(context.messages) == 2
    assert not context.hooks_pending


async def test_a_hook_that_has_begun_ends_even_if_its_caller_is_cancelled(
    virtual_time, context, commit
):
    """A transition is whole or not at all; a barge-in must not leave half of one."""
    called = []
    begun = asyncio.Event()

    async def hook(round):
        begun.set()
        await asyncio.sleep(1)
        called.append(round)

    context.on_round_committed(hook)
    round = commit()
    caller = asyncio.create_task(context.run_commit_hooks())
    await begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert called == []
    await context.run_commit_hooks()
    assert called == [round]


async def test_two_callers_call_each_hook_once(virtual_time, context, commit):
    called = []

    async def hook(round):
        await asyncio.sleep(1)
        called.append(round)

    context.on_round_committed(hook)
    round = commit()
    await asyncio.gather(context.run_commit_hooks(), context.run_commit_hooks())
    assert called == [round]


async def test_a_hook_may_commit_a_round_which_is_hooked_in_turn(virtual_time, context, commit):
    called = []

    def hook(round):
        called.append(round.tool_call_ids)
        if len(called) == 1:
            commit("b")

    context.on_round_committed(hook)
    commit("a")
    await context.run_commit_hooks()
    assert called == [("a",), ("b",)]


async def test_a_hook_that_was_taken_away_is_not_called(virtual_time, context, commit):
    called = []
    remove = context.on_round_committed(called.append)
    remove()
    remove()
    commit()
    await context.run_commit_hooks()
    assert called == []
    assert not context.hooks_pending


async def test_a_round_that_was_rolled_back_calls_no_hook(virtual_time, context, tool_call):
    called = []
    context.on_round_committed(called.append)
    context.stage_assistant_tool_calls([tool_call("a")])
    context.end_turn()
    assert not context.hooks_pending
    await context.run_commit_hooks()
    assert called == []


async def test_a_round_that_a_barge_in_committed_calls_its_hook(virtual_time, context, tool_call):
    called = []
    context.on_round_committed(called.append)
    round = context.stage_assistant_tool_calls([tool_call("a")])
    context.stage_tool_result("a", "1")
    context.end_turn()
    await context.run_commit_hooks()
    assert called == [round]


def test_a_listener_that_was_taken_away_hears_nothing(context):
    heard = []
    remove = context.add_listener(heard.append)
    remove()
    remove()
    context.begin_turn()
    assert heard == []
