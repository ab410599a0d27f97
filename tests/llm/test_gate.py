# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Rule 8 at the service, which may stand alone: nothing else commits, calls hooks or makes up for runs."""

import asyncio
from typing import Any

import pytest
from pipecat.frames.frames import Frame, InterruptionFrame, LLMContextFrame
from pipecat.services.llm_service import FunctionCallParams
from pipecat.tests.utils import SleepFrame, run_test

from pipecat_turn_acid import TransactionalLLMContext, TransactionalOpenAILLMService
from pipecat_turn_acid.testing.checks import check_history
from pipecat_turn_acid.testing.script import Reply
from pipecat_turn_acid.testing.server import ScriptedChatServer


def tool_call(tool_call_id, name="look_up"):
    return {"id": tool_call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def a_context() -> Any:
    """A context in its first turn. Made inside the run, where frames are numbered anew."""
    context = TransactionalLLMContext()
    context.begin_turn()
    context.add_message({"role": "user", "content": "Hello"})
    return context


@pytest.fixture
def server():
    """Answers every request with words."""
    return ScriptedChatServer(lambda request: Reply().say("Here you are."))


@pytest.fixture
def send(server):
    """Send frames through the service alone."""

    async def send(*frames, service=None):
        service = service or server.service(TransactionalOpenAILLMService)
        pieces: list[Frame] = []
        for frame in frames:
            pieces += [frame, SleepFrame(2.0)]
        await run_test(service, frames_to_send=pieces)

    return send


def shown(server, number=0):
    return [m for m in server.requests[number].messages if m["role"] != "system"]


async def test_a_complete_round_is_committed_before_the_request(virtual_time, server, send):
    context = a_context()
    context.stage_assistant_tool_calls([tool_call("a")])
    context.stage_tool_result("a", "1")
    await send(LLMContextFrame(context))
    assert [m["role"] for m in shown(server)] == ["user", "assistant", "tool"]
    assert check_history(context.messages) == []


async def test_a_request_waits_for_a_round_that_is_not_complete(virtual_time, server, send):
    context = a_context()
    context.stage_assistant_tool_calls([tool_call("a")])
    await send(LLMContextFrame(context))
    assert server.requests == []
    assert context.owes_run


async def test_leftovers_of_a_turn_that_is_over_are_not_shown(virtual_time, server, send):
    context = a_context()
    context.stage_assistant_tool_calls([tool_call("a")])
    context.begin_turn()
    await send(LLMContextFrame(context))
    assert [m["role"] for m in shown(server)] == ["user"]


async def test_a_request_of_a_turn_that_is_over_is_not_made(virtual_time, server, send):
    context = a_context()
    frame = LLMContextFrame(context)
    context.begin_turn()
    await send(frame)
    assert server.requests == []


async def test_an_orphan_is_repaired_in_what_is_sent_and_kept_in_the_history(
    virtual_time, server, send
):
    """The strict server would answer 400."""
    context = a_context()
    context.add_message({"role": "assistant", "tool_calls": [tool_call("a")]})
    await send(LLMContextFrame(context))
    assert [m["role"] for m in shown(server)] == ["user"]
    assert server.requests[0].status == 200
    assert len(context.messages) == 2


async def test_hooks_are_called_before_the_request(virtual_time, server, send):
    context = a_context()

    async def hook(round):
        await asyncio.sleep(0.5)
        context.add_message({"role": "developer", "content": "Be kind."})

    context.on_round_committed(hook)
    context.stage_assistant_tool_calls([tool_call("a")])
    context.stage_tool_result("a", "1")
    await send(LLMContextFrame(context))
    assert [m["role"] for m in shown(server)] == ["user", "assistant", "tool", "developer"]


async def test_calls_are_staged_and_answered_without_an_aggregator(virtual_time, server, send):
    """What the tool reports is a fact when it reports it, whoever else listens."""
    context = a_context()
    replies = [Reply().call("look_up", {}, id="call_1"), Reply().say("Here you are.")]
    server = ScriptedChatServer(replies)
    service = server.service(TransactionalOpenAILLMService)

    async def look_up(params: FunctionCallParams):
        await params.result_callback({"ok": True})

    service.register_function("look_up", look_up)
    await send(LLMContextFrame(context), LLMContextFrame(context), service=service)
    assert [m["role"] for m in shown(server, 1)] == ["user", "assistant", "tool"]
    assert shown(server, 1)[1]["tool_calls"] == [tool_call("call_1")]


async def test_an_interruption_rolls_back_without_an_aggregator(virtual_time, send):
    context = a_context()
    server = ScriptedChatServer([Reply().call("look_up", {}), Reply().say("Here you are.")])
    service = server.service(TransactionalOpenAILLMService)
    cancelled = []

    async def look_up(params: FunctionCallParams):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(params.tool_call_id)
            raise

    service.register_function("look_up", look_up)
    await send(LLMContextFrame(context), InterruptionFrame(), service=service)
    assert cancelled == ["call_0001"]
    assert context.staged == ()
    assert context.is_over
    assert [m["role"] for m in context.messages] == ["user"]


async def test_a_call_that_no_interruption_has_cancelled_is_cancelled_at_the_next_request(
    virtual_time, send
):
    """Somebody began a turn by hand while a tool was at work: nobody waits for it any more."""
    context = a_context()
    server = ScriptedChatServer([Reply().call("look_up", {}), Reply().say("Here you are.")])
    service = server.service(TransactionalOpenAILLMService)
    cancelled = []

    async def look_up(params: FunctionCallParams):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(params.tool_call_id)
            raise

    service.register_function("look_up", look_up)

    asyncio.get_running_loop().call_later(1.0, context.begin_turn)
    await send(LLMContextFrame(context), _asks(context, 2), service=service)
    assert cancelled == ["call_0001"]
    assert len(server.requests) == 2


def _asks(context, epoch):
    frame = LLMContextFrame(context)
    frame.metadata["turn_epoch"] = epoch
    return frame
