# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Files that come while a round is open, from the user or from the tool itself."""

import asyncio
from typing import Any

import pytest
from pipecat.frames import frames

from pipecat_turn_acid import TransactionalLLMContext
from pipecat_turn_acid.core import RoundState
from pipecat_turn_acid.testing.checks import check_history, errors
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, Bot, play
from pipecat_turn_acid.testing.conversations import order
from pipecat_turn_acid.testing.judge import Fault, FaultKind
from pipecat_turn_acid.testing.script import ChatRequest, Reply
from pipecat_turn_acid.testing.sweep import sweep

pytestmark = pytest.mark.since(1, 13)

PDF = "data:application/pdf;base64,JVBERi0="
READ = order.but(voice="text")  # so that the words before the call are history when it begins


def file_frame(run_llm: bool | None = False) -> Any:
    return frames.UserFileRawFrame(
        file=PDF,
        type="bytes",
        format="application/pdf",
        filename="invoice.pdf",
        text="This one.",
        append_to_context=True,
        run_llm=run_llm,
    )


async def sends_a_file(bot: Bot) -> None:
    await bot.queue(file_frame())


async def sends_a_file_and_asks_for_a_run(bot: Bot) -> None:
    await bot.queue(file_frame(run_llm=None))


def while_the_tool_works(action, conversation=READ):
    """A conversation in which something happens while its first tool works."""
    started = play(conversation, TRANSACTIONAL).runs[0].started
    return conversation.but(during=((started + 0.3, action),))


def is_file(message):
    return isinstance(message.get("content"), list)


def roles(messages):
    return [
        "file" if is_file(m) else "calls" if m.get("tool_calls") else m["role"] for m in messages
    ]


@pytest.mark.parametrize("action", [sends_a_file, sends_a_file_and_asks_for_a_run])
def test_a_file_that_comes_while_a_tool_works_is_shown_with_the_result(action):
    """One request shows both; none shows the file beside half a round."""
    outcome = play(while_the_tool_works(action), TRANSACTIONAL)

    assert roles(outcome.history) == ["user", "assistant", "file", "calls", "tool", "assistant"]
    assert outcome.history[-1]["content"] == "Order 4471 has been shipped."
    assert len(outcome.requests) == 2
    assert roles(outcome.requests[1].messages)[-3:] == ["file", "calls", "tool"]
    assert not any(request.refusal for request in outcome.requests)
    assert not outcome.in_progress


def test_a_file_that_comes_while_the_user_speaks_is_shown_by_the_users_own_run():
    conversation = order.but(during=((1.5, sends_a_file_and_asks_for_a_run),))

    outcome = play(conversation, TRANSACTIONAL)

    assert roles(outcome.history)[:2] == ["file", "user"]
    assert outcome.requests[0].asked == order.says[0]
    assert len(outcome.requests) == 2


def test_a_file_is_kept_once_whenever_the_user_barges_in():
    """It is the user's own, and outlives the round that it came in."""

    def judged(outcome, faults):
        files = sum(is_file(message) for message in outcome.history)
        kept = [f for f in faults if f.kind is not FaultKind.USER_WORDS]
        sent = len(outcome.barge_ins)
        return kept if files == sent else [*kept, Fault(FaultKind.LOST, f"{files} files")]

    report = sweep(READ.but(cue=sends_a_file, judged=judged), TRANSACTIONAL, sample=12)

    assert not report.damaged, str(report)


def test_a_file_with_an_interruption_begins_a_turn_of_its_own():
    """A client may send one and have it answered at once, whatever the bot is doing."""

    async def interrupts_with_a_file(bot: Bot) -> None:
        await bot.transport.input().broadcast_interruption()
        await bot.queue(file_frame(run_llm=None))

    script = READ.script

    def answers() -> Any:
        model = script()
        return lambda r: Reply().say("I have read it.") if is_file(r.messages[-1]) else model(r)

    conversation = while_the_tool_works(interrupts_with_a_file).but(script=answers)
    outcome = play(conversation, TRANSACTIONAL)

    assert roles(outcome.history) == ["user", "assistant", "file", "assistant"]
    assert outcome.history[-1]["content"] == "I have read it."
    assert [run.ending for run in outcome.runs] == ["cancelled"]
    assert not outcome.in_progress


# --- files that the provider refuses -----------------------------------------------------------


def refuses_files(script):
    def answer(request: ChatRequest) -> Reply:
        if any(is_file(message) for message in request.messages):
            return Reply().error(400, "Invalid file.")
        return script(request)

    return answer


def test_a_refused_file_that_came_while_a_tool_worked_does_not_end_the_conversation():
    """It stands before the round, where Pipecat takes it for one that was accepted."""
    conversation = while_the_tool_works(sends_a_file).but(
        script=lambda: refuses_files(order.script()),
        says=(*order.says, "And order 4474?"),
    )

    outcome = play(conversation, TRANSACTIONAL)

    assert not any(is_file(message) for message in outcome.history)
    assert "tool" in roles(outcome.history[:4])
    assert outcome.history[-1]["content"] == "Order 4474 has been shipped."
    assert errors(check_history(outcome.history)) == []


async def test_a_file_that_the_model_has_answered_to_stays(virtual_time):
    """What is refused later is something that came later."""
    accepted: Any = {"role": "user", "content": [{"type": "file_base64", "file": {}}]}
    refused: Any = {"role": "user", "content": [{"type": "image_url", "image_url": {}}]}
    call = {"id": "a", "function": {"name": "read", "arguments": "{}"}}
    context = TransactionalLLMContext([accepted])
    context.begin_turn()
    context.admit_run(frames.LLMContextFrame(context))
    round = context.stage_assistant_tool_calls([call])
    context.add_message(refused)
    context.stage_tool_result("a", "read")
    context.commit()

    assert round.state is RoundState.COMMITTED
    assert context.remove_invalid_file_message()
    assert roles(context.messages) == ["file", "calls", "tool"]
    assert context.messages[0] is accepted
    assert not context.remove_invalid_file_message()


# --- files from tools --------------------------------------------------------------------------


def reading(seconds_before, seconds_after):
    """A tool that sends a file, which is what it has found, and then reports."""

    async def prepare(bot):
        (tool,) = bot.conversation.tools

        async def read(params):
            run = bot.toolbox.begin(tool, params.tool_call_id, params.arguments)

            async def find() -> None:
                await asyncio.sleep(seconds_before)
                await params.llm.push_frame(file_frame())
                await asyncio.sleep(seconds_after)

            finding = asyncio.create_task(find())
            while not finding.done():
                try:
                    await asyncio.shield(finding)
                except asyncio.CancelledError:
                    continue
            bot.toolbox.end(run, "reported", {"order_id": "4471"})
            await params.result_callback({"order_id": "4471"})

        bot.llm.register_function(tool.name, read)

    return READ.but(prepare=prepare, barge_in="Never mind.", script=lambda: _reads)


def _reads(request: ChatRequest) -> Reply:
    if "Never mind" in request.user:
        return Reply().say("All right.")
    if request.calls:
        return Reply().say("It is an invoice.")
    return Reply().call("get_order_status", {"order_id": "4471"})


def test_a_file_that_a_tool_sends_stands_before_its_round():
    """The model sees the call, its result and the file in one request."""
    outcome = play(reading(0.3, 0.3), TRANSACTIONAL)

    assert roles(outcome.history) == ["user", "file", "calls", "tool", "assistant"]
    assert len(outcome.requests) == 2
    assert roles(outcome.requests[1].messages)[1:] == ["user", "file", "calls", "tool"]
    assert not outcome.in_progress
