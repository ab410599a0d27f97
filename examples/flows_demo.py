# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Order a pizza by telephone, and change your mind while the order is being noted.

    make demo-flows

Each flow is played twice, on stock Pipecat and on the drop-ins, with a scripted model, without a
key, in virtual time: a minute of talk takes less than a second. The model goes by the messages and
the functions that it is shown, and by nothing else.
"""

import re
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from examples import flows_handlers, flows_nodes
from examples.flows_hook import TwoSteps
from pipecat_turn_acid.testing.conversation import (
    STOCK,
    TRANSACTIONAL,
    At,
    Bot,
    Conversation,
    Kit,
    Outcome,
    play,
)
from pipecat_turn_acid.testing.script import ChatRequest, Reply

_SIZES = "small|medium|large"


# --- the flows ---------------------------------------------------------------------------------


async def with_yaml(bot: Bot) -> None:
    flow = flows_handlers.flow()
    bot.flow_manager = bot.kit.make(
        "flow_manager",
        llm=bot.llm,
        context_aggregator=bot.aggregators,
        worker=bot.worker,
        global_functions=flow.global_functions,
    )
    await bot.flow_manager.initialize(flow.initial_node)


async def with_python(bot: Bot) -> None:
    bot.flow_manager = bot.kit.make(
        "flow_manager",
        llm=bot.llm,
        context_aggregator=bot.aggregators,
        worker=bot.worker,
        global_functions=[flows_nodes.opening_hours],
    )
    await bot.flow_manager.initialize(flows_nodes.order_node())


async def by_hand(bot: Bot) -> None:
    bot.flow_manager = TwoSteps(bot.llm, bot.context)
    await bot.flow_manager.start()


# --- the model ---------------------------------------------------------------------------------


def model(request: ChatRequest) -> Reply:
    """Answer as a model would that sees this request and nothing else."""
    reply, tools = Reply(), request.tools
    heard = [str(m["content"]) for m in request.messages if m.get("role") == "user"]
    said = heard[-1] if heard else ""
    if "choose_pizza" in tools:
        sizes = re.findall(_SIZES, " ".join(heard))
        kinds = re.findall("margherita|funghi", " ".join(heard)) or ["margherita"]
        if not re.search(_SIZES, said):
            return reply.say("Which size would you like?")
        if request.recent:
            return reply.say(f"I am noting a {sizes[-1]} {kinds[-1]}.")
        reply = reply.call("choose_pizza", {"kind": kinds[-1], "size": sizes[-1]})
        return reply.call("check_stock", {"kind": kinds[-1]}) if "check_stock" in tools else reply
    if "set_address" in tools:
        if "Street" in said and not request.recent:
            return reply.call("set_address", {"address": said.rstrip(".")})
        if request.recent and request.recent[-1].name == "set_address":
            return reply.say("Thank you.")
        return reply.say("Where shall it go?")
    agreed = re.findall(r"an? (\w+ \w+) to (.+)\.", request.system)
    if "place_order" in tools:
        if "yes" in said.casefold() and not request.recent:
            return reply.call("place_order", {})
        return reply.say(f"A {agreed[-1][0]} to {agreed[-1][1]}, is that right?")
    return reply.say("Thank you, goodbye.")


# --- the calls ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Show:
    """One comparison.

    Parameters:
        title: What it shows.
        prepare: Gives a bot its flow.
        barge_in: When the caller changes their mind; None for never.
        kits: The bots that are compared.
    """

    title: str
    prepare: Callable[[Bot], Awaitable[None]]
    barge_in: At | None
    kits: tuple[Kit, ...] = (STOCK, TRANSACTIONAL)


MID_TRANSITION = At(2.7)
SHOWS = (
    Show("Python nodes, and nobody interrupts", with_python, None),
    Show("Python nodes, corrected in mid-transition", with_python, MID_TRANSITION),
    Show("YAML, corrected in mid-transition", with_yaml, MID_TRANSITION),
    Show("By hand on the hook, corrected", by_hand, MID_TRANSITION, (TRANSACTIONAL,)),
)


def call(show: Show, kit: Kit) -> Outcome:
    """Make one call."""
    says = ("A large margherita please.", "Ten Main Street.", "Yes please.")
    return play(
        Conversation(
            name="order",
            says=says[:2] if show.prepare is by_hand else says,
            barge_in="No wait, a small one.",
            script=lambda: model,
            prepare=show.prepare,
            inspect=_inspect,
        ),
        kit,
        show.barge_in,
    )


def _inspect(bot: Bot) -> dict[str, object]:
    flow = bot.flow_manager
    if isinstance(flow, TwoSteps):
        return {"node": flow.step}
    return {"node": flow.current_node, **flow.state}


def report(outcome: Outcome) -> str:
    """Tell a call as text: who said what, which functions were called, and where it ended."""
    happened = [(said.begun, f"caller  {said.text}") for said in outcome.said]
    happened += [
        (request.at, f"  calls {name}({arguments})")
        for request in outcome.requests
        for _, name, arguments in request.calls
    ]
    for index, request in enumerate(outcome.requests):
        words = [word for word in outcome.heard if word.request == index]
        if words:
            whole = len(words) == len(request.said.split())
            text = " ".join(word.text for word in words) + ("" if whole else " ...")
            happened.append((words[0].at, f"bot     {text}"))
    lines = [f"  {at:6.2f}  {what}" for at, what in sorted(happened, key=lambda one: one[0])]
    end = ", ".join(f"{key}: {value}" for key, value in outcome.found.items())
    return "\n".join([*lines, f"  at the end  {end}"])


def main() -> int:
    """Show everything."""
    for show in SHOWS:
        for kit in show.kits:
            print(f"\n=== {show.title}: {kit.name} ===")
            print(report(call(show, kit)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
