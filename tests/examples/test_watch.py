# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What clients are told about the turns, message by message."""

import asyncio
import json
from typing import Any

from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.frameworks.rtvi import RTVIProcessor

from examples.kit.watch import HISTORY, STATE, TurnWatch
from pipecat_turn_acid import (
    TransactionalLLMContext,
    TransactionalLLMContextAggregatorPair,
    TransactionalOpenAILLMService,
)

DATA_CHANNEL_BYTES = 65536


class Client(RTVIProcessor):
    """Pipecat's RTVI processor, with a client that keeps what it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[dict[str, Any]] = []

    async def send_server_message(self, data: Any) -> None:
        self.sent.append(data)

    @property
    def state(self) -> dict[str, Any]:
        return [data for data in self.sent if data["type"] == STATE][-1]

    @property
    def history(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        for data in self.sent:
            if data["type"] == HISTORY:
                messages[data["start"] :] = data["messages"]
        return messages


def watched(client: Client) -> TransactionalLLMContext:
    context = TransactionalLLMContext()
    pair = TransactionalLLMContextAggregatorPair(context)
    llm = TransactionalOpenAILLMService(api_key="none is needed")
    worker = PipelineWorker(Pipeline([pair.user(), llm, pair.assistant()]), rtvi_processor=client)
    TurnWatch(worker, context, pair, llm)
    return context


async def told() -> None:
    """Let the watch tell what is to be told."""
    for _ in range(10):
        await asyncio.sleep(0)


def look_up(number: int) -> list[dict[str, Any]]:
    function = {"name": "lookup_order", "arguments": json.dumps({"order": str(number)})}
    return [{"id": f"call_{number}", "type": "function", "function": function}]


async def test_a_client_can_keep_the_history_from_what_it_is_told(virtual_time):
    """It is told what is new, and what replaces something, and ends up with the same."""
    client = Client()
    context = watched(client)

    for number in range(1, 4):
        context.begin_turn()
        context.add_message({"role": "user", "content": f"Where is order {number}?"})
        context.stage_assistant_tool_calls(look_up(number))
        await told()
        assert client.history == context.get_messages()
        assert client.state["rounds"][-1]["state"] == "staged"
        context.stage_tool_result(f"call_{number}", {"arrives": "today"})
        context.commit()
        await told()
        assert client.history == context.get_messages()

    context.set_messages([{"role": "user", "content": "Where are we?"}])
    context.begin_turn()
    await told()
    assert client.history == [{"role": "user", "content": "Where are we?"}]


async def test_what_becomes_of_each_round_is_told(virtual_time):
    """The counts go on when the rounds themselves are too many to be shown."""
    client = Client()
    context = watched(client)

    for number in range(40):
        context.begin_turn()
        context.stage_assistant_tool_calls(look_up(number))
        if number % 4:
            context.stage_tool_result(f"call_{number}", "sent")
        await told()
    context.begin_turn()
    context.stage_tool_result("call_36", "late", epoch=37)
    await told()

    assert client.state["epoch"] == 41
    assert client.state["counts"] == {"committed": 30, "rolled_back": 10, "fenced": 1}
    assert [r["state"] for r in client.state["rounds"][-4:]] == ["rolled back"] + ["committed"] * 3
    assert len(client.state["rounds"]) == 30
    assert client.state["fenced"] == [{"kind": "result", "epoch": 37, "reason": "the turn is over"}]


async def test_a_client_that_joins_late_is_told_everything(virtual_time):
    """A reload of the page shows the whole conversation, not the rest of it."""
    client = Client()
    context = watched(client)
    context.begin_turn()
    context.add_message({"role": "user", "content": "Hello?"})
    await told()

    client.sent.clear()
    await client.set_client_ready()
    await asyncio.sleep(0.1)

    assert client.history == [{"role": "user", "content": "Hello?"}]
    assert client.state["epoch"] == 1


async def test_no_message_is_too_long_for_a_data_channel(virtual_time):
    """A long history comes in pieces, and a message that is too long by itself is shortened."""
    client = Client()
    context = watched(client)
    context.begin_turn()

    for number in range(200):
        context.add_message({"role": "user", "content": f"{number} " + "word " * 400})
    context.add_message({"role": "user", "content": "word " * 100_000})
    context.begin_turn()
    await told()

    assert max(len(json.dumps(data)) for data in client.sent) < DATA_CHANNEL_BYTES
    assert client.history[:200] == context.get_messages()[:200]
    assert client.history[200]["content"].endswith("…")
