# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A small flow for one question at a time."""

from collections.abc import Callable
from typing import Any

from pipecat.flows import FlowsFunctionSchema

from pipecat_turn_acid.testing.conversation import Bot, Conversation
from pipecat_turn_acid.testing.script import ChatRequest, Reply


def function(name: str, handler: Callable[..., Any], **options: Any) -> FlowsFunctionSchema:
    return FlowsFunctionSchema(name, f"{name}.", {}, [], handler, **options)


def node(name: str, *functions: Any, **more: Any) -> Any:
    return {
        "name": name,
        "task_messages": [{"role": "developer", "content": f"You are at {name}."}],
        "functions": list(functions),
        **more,
    }


def model(*calls: str) -> Callable[[], Any]:
    """A model that makes calls when it is told to go, and then speaks of where it is."""

    def answer(request: ChatRequest) -> Reply:
        if calls and request.user.endswith("Go.") and not request.recent:
            reply = Reply()
            for name in calls:
                reply = reply.call(name, {})
            return reply
        where = [w for w in ("first", "second", "third") if f"at {w}." in request.system]
        return Reply().say(f"Here is {where[-1] if where else 'nowhere'}.")

    return lambda: answer


def talk(initial: Any, calls: tuple[str, ...], **changes: Any) -> Conversation:
    """A conversation in which the user says Go, and waits or says never mind."""

    async def prepare(bot: Bot) -> None:
        bot.flow_manager = bot.kit.make(
            "flow_manager", llm=bot.llm, context_aggregator=bot.aggregators, worker=bot.worker
        )
        await bot.flow_manager.initialize({**initial, "respond_immediately": False})

    def inspect(bot: Bot) -> dict[str, Any]:
        return {"node": bot.flow_manager.current_node, "state": dict(bot.flow_manager.state)}

    options = {"barge_in": "Never mind.", "prepare": prepare, "inspect": inspect, **changes}
    return Conversation(name="talk", says=("Go.",), script=model(*calls), **options)
