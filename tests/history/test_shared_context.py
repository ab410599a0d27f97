# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""One context in two pipelines: one conversation, whichever of them the user talks to when."""

import asyncio
from typing import Any

import pytest
from pipecat.workers.runner import WorkerRunner

from pipecat_turn_acid import TransactionalLLMContext
from pipecat_turn_acid.testing import virtual_time
from pipecat_turn_acid.testing.checks import check_history, errors
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, Bot
from pipecat_turn_acid.testing.conversations import order

FIRST, SECOND = "What is the status of order 4471?", "And of order 4472?"
ANSWERS = ["Order 4471 has been shipped.", "Order 4472 has been shipped."]


async def speak_to_both(pause: float) -> dict[str, Any]:
    """Ask in the first pipeline, and some seconds later in the second."""
    shared: list[Any] = []

    def context(*args: Any, **kwargs: Any) -> Any:
        if not shared:
            shared.append(TransactionalLLMContext(*args, **kwargs))
        return shared[0]

    bots = [Bot(order.but(voice="text"), TRANSACTIONAL.but(context=context)) for _ in range(2)]
    runners = [
        WorkerRunner(handle_sigint=False, check_dangling_tasks=False, name=f"runner {n}")
        for n in range(2)
    ]
    started = [asyncio.Event() for _ in bots]
    running = []
    for bot, runner, event in zip(bots, runners, started, strict=True):
        bot.worker.add_event_handler("on_pipeline_started", lambda *_, event=event: event.set())
        await runner.add_workers(bot.worker)
        running.append(asyncio.create_task(runner.run()))
    await asyncio.gather(*(event.wait() for event in started))

    await bots[0].user.says(FIRST)
    await asyncio.sleep(pause)
    await bots[1].user.says(SECOND)
    await asyncio.sleep(6.0)

    found = {
        "history": [dict(message) for message in bots[0].context.get_messages()],
        "staged": bots[0].context.staged,
        "in_progress": [b.aggregators.assistant().has_function_calls_in_progress for b in bots],
        "statuses": {record.status for bot in bots for record in bot.server.requests},
        "asked": [[ascii(record.messages) for record in bot.server.requests] for bot in bots],
    }
    for runner in runners:
        await runner.cancel()
    await asyncio.gather(*running)
    return found


def said(history: list[Any], role: str) -> list[str]:
    return [m["content"] for m in history if m["role"] == role and "content" in m]


@pytest.mark.parametrize("pause", [number / 10 for number in range(0, 24, 2)])
def test_whenever_the_other_pipeline_is_spoken_to_nothing_is_half_done(pause):
    """A turn that begins in one ends the turn of the other, and its round with it."""
    found = virtual_time.run(lambda: speak_to_both(pause))

    history = found["history"]
    assert errors(check_history(history)) == []
    assert found["in_progress"] == [False, False] and found["staged"] == ()
    assert found["statuses"] <= {200, 0}
    assert said(history, "user") == [FIRST, SECOND]
    assert history[-1]["content"] == ANSWERS[1]


def test_a_pipeline_is_told_what_was_found_out_in_the_other():
    found = virtual_time.run(lambda: speak_to_both(4.0))

    assert [a for a in said(found["history"], "assistant") if a in ANSWERS] == ANSWERS
    assert len(found["asked"][0]) == len(found["asked"][1]) == 2
    assert ANSWERS[0] in found["asked"][1][0]
