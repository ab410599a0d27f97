# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What else writes to the history while a round is open or is being dropped.

Each of them happens in the instant of a barge-in, at many instants; whatever it does to the
history, a request never shows half a round and the user gets an answer.
"""

import asyncio
import copy
import json
from typing import Any

import pytest
from pipecat.bus.messages import BusFrameMessage
from pipecat.bus.serializers.json import JSONMessageSerializer
from pipecat.frames.frames import (
    LLMContextFrame,
    LLMMessagesTransformFrame,
    LLMMessagesUpdateFrame,
    LLMSetToolsFrame,
    LLMSummarizeContextFrame,
    UserImageRawFrame,
)
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameDirection
from pipecat.workers.runner import WorkerRunner

from pipecat_turn_acid import TransactionalLLMContext
from pipecat_turn_acid._compat import ToolsSchema
from pipecat_turn_acid.testing import virtual_time
from pipecat_turn_acid.testing.checks import check_history, errors
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, Bot, Conversation, play
from pipecat_turn_acid.testing.conversations import chain, order, parallel
from pipecat_turn_acid.testing.script import ChatRequest, Reply
from pipecat_turn_acid.testing.sweep import sweep

NOTE: Any = {"role": "developer", "content": "The shop has moved."}
SUMMARY = "The user asked about an order."


def _summarizes(script: Any) -> Any:
    """A model that also writes summaries."""

    def answer(request: ChatRequest) -> Reply:
        if not request.stream:
            return Reply().say(SUMMARY)
        return script(request)

    return answer


async def summarize(bot: Bot) -> None:
    await bot.queue(LLMSummarizeContextFrame())


async def replace(bot: Bot) -> None:
    await bot.queue(LLMMessagesUpdateFrame([copy.deepcopy(NOTE)], run_llm=False))


async def transform(bot: Bot) -> None:
    await bot.queue(LLMMessagesTransformFrame(lambda messages: [*messages, copy.deepcopy(NOTE)]))


async def set_messages(bot: Bot) -> None:
    bot.context.set_messages([copy.deepcopy(NOTE)])


async def show(bot: Bot) -> None:
    image = UserImageRawFrame(
        image=bytes(12),
        size=(2, 2),
        format="RGB",
        text="This one.",
        append_to_context=True,
        run_llm=False,
    )
    await bot.queue(image)


async def change_tools(bot: Bot) -> None:
    schemas = [tool.schema for tool in bot.conversation.tools]
    renamed = [copy.copy(schema) for schema in schemas]
    await bot.queue(LLMSetToolsFrame(tools=ToolsSchema(standard_tools=renamed[:1])))


def with_cue(conversation: Conversation, cue: Any) -> Conversation:
    script = conversation.script
    return conversation.but(
        # A summary keeps the last four messages.
        says=("Hello?", "Can you hear me?", *conversation.says),
        name=f"{conversation.name}, {cue.__name__}",
        cue=cue,
        script=lambda: _summarizes(script()),
        user_params=lambda: {"add_tool_change_messages": True},
    )


@pytest.mark.parametrize(
    "cue", [summarize, replace, transform, set_messages, change_tools], ids=lambda c: c.__name__
)
@pytest.mark.parametrize("conversation", [order, parallel, chain], ids=lambda c: c.name)
def test_no_request_shows_half_a_round_whatever_is_done_to_the_history(conversation, cue):
    """The round that is open stays out of sight, and is dropped or appended whole."""
    report = sweep(with_cue(conversation, cue), TRANSACTIONAL, sample=10)

    kinds = {fault.kind.value for verdict in report.verdicts for fault in verdict.faults}
    assert not kinds & {"refused", "placeholder", "half round", "stuck", "no answer"}, str(report)


def during_the_tool(action: Any, conversation: Conversation = order) -> Any:
    """Play a conversation in which something happens while its first tool works."""
    script = conversation.script
    plain = conversation.but(
        voice="text",  # so that what was said before the call is history when it begins
        script=lambda: _summarizes(script()),
        user_params=lambda: {"add_tool_change_messages": True},
    )
    started = play(plain, TRANSACTIONAL).runs[0].started
    return play(plain.but(during=((started + 0.3, action),)), TRANSACTIONAL)


def roles(history: list[Any]) -> list[str]:
    return ["calls" if m.get("tool_calls") else m["role"] for m in history]


def test_a_summary_leaves_the_open_round_to_its_commit():
    """What is summarized is history, and the round is not yet."""
    greetings = ("Hello?", "Can you hear me?")
    outcome = during_the_tool(summarize, order.but(says=(*greetings, *order.says)))

    assert SUMMARY in outcome.history[0]["content"]
    assert roles(outcome.history)[-3:] == ["calls", "tool", "assistant"]
    assert json.loads(outcome.history[-2]["content"])["order_id"] == "4471"
    assert not outcome.in_progress


@pytest.mark.parametrize("action", [replace, set_messages], ids=lambda c: c.__name__)
def test_a_replaced_history_gets_the_open_round_when_it_is_complete(action):
    """The tool has been called, and the model is told what it found."""
    outcome = during_the_tool(action)

    assert roles(outcome.history) == ["developer", "calls", "tool", "assistant"]
    assert outcome.history[-1]["content"] == "Order 4471 has been shipped."


@pytest.mark.parametrize(
    ("action", "role"),
    [(transform, "developer"), pytest.param(show, "user", marks=pytest.mark.since(1, 13))],
)
def test_what_is_added_meanwhile_stands_before_the_round(action, role):
    """A round becomes history when it is complete."""
    outcome = during_the_tool(action)

    assert roles(outcome.history)[-4:] == [role, "calls", "tool", "assistant"]


def test_a_tool_that_is_taken_away_while_it_works_is_still_answered():
    """The call was made when the tool was there."""

    async def take_away(bot: Bot) -> None:
        await bot.queue(LLMSetToolsFrame(tools=ToolsSchema(standard_tools=[])))

    outcome = during_the_tool(take_away)

    assert roles(outcome.history)[-4:] == ["developer", "calls", "tool", "assistant"]
    assert "get_order_status" in outcome.history[-4]["content"]


# --- where a context goes ----------------------------------------------------------------------


def test_a_context_that_crosses_the_bus_arrives_as_its_history_alone():
    """Another process gets the messages, and neither what is staged nor a live turn."""
    context = TransactionalLLMContext([{"role": "user", "content": "Hello."}])
    context.begin_turn()
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    context.stage_assistant_tool_calls([call])
    frame = LLMContextFrame(context)
    serializer = JSONMessageSerializer()

    message = BusFrameMessage(source="here", frame=frame, direction=FrameDirection.DOWNSTREAM)
    arrived = serializer.deserialize(serializer.serialize(message))

    assert isinstance(arrived, BusFrameMessage)
    assert isinstance(arrived.frame, LLMContextFrame)
    assert type(arrived.frame.context) is LLMContext
    assert arrived.frame.context.messages == [{"role": "user", "content": "Hello."}]


def test_two_pipelines_on_one_context_have_one_conversation():
    """A turn that begins in one ends the turn of the other, and leaves it nothing half done."""
    histories = virtual_time.run(_two_at_once)

    history, in_progress, answers = histories
    assert errors(check_history(history)) == []
    assert in_progress == [False, False]
    assert "Order 4472 has been shipped." in answers
    assert "Order 4471 has been shipped." not in answers
    assert [m["content"] for m in history if m["role"] == "user"] == [
        "What is the status of order 4471?",
        "And of order 4472?",
    ]


async def _two_at_once() -> tuple[list[Any], list[bool], list[str]]:
    shared: list[Any] = []

    def context(*args: Any, **kwargs: Any) -> Any:
        if not shared:
            shared.append(TransactionalLLMContext(*args, **kwargs))
        return shared[0]

    quick = order.but(voice="text")
    bots = [Bot(quick, TRANSACTIONAL.but(context=context)) for _ in range(2)]
    runners, running, started = [], [], []
    for number, bot in enumerate(bots):
        event = asyncio.Event()
        started.append(event)
        bot.worker.add_event_handler("on_pipeline_started", _setter(event))
        runner = WorkerRunner(handle_sigint=False, check_dangling_tasks=False, name=f"r{number}")
        await runner.add_workers(bot.worker)
        runners.append(runner)
        running.append(asyncio.create_task(runner.run()))
    await asyncio.gather(*(event.wait() for event in started))
    await bots[0].user.says("What is the status of order 4471?")
    while not bots[0].toolbox.working:  # noqa: ASYNC110 - in virtual time
        await asyncio.sleep(0.05)
    await bots[1].user.says("And of order 4472?")
    await asyncio.sleep(5)
    history = [dict(message) for message in bots[0].context.get_messages()]
    in_progress = [b.aggregators.assistant().has_function_calls_in_progress for b in bots]
    for runner in runners:
        await runner.cancel()
    await asyncio.gather(*running)
    answers = [m["content"] for m in history if m["role"] == "assistant" and "content" in m]
    return history, in_progress, answers


def _setter(event: asyncio.Event) -> Any:
    return lambda *_: event.set()
