# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The dentist's bot of `dentist_bot.py`, swept. `docs/sweep-your-own-bot.md` goes through it.

python -m pipecat_turn_acid sweep examples.dentist_sweep:conversation --stock --sample 40
"""

import asyncio
import re
from collections.abc import Sequence

from pipecat.processors.frame_processor import FrameProcessor

from examples import dentist_bot
from pipecat_turn_acid.testing.conversation import Bot, Conversation, Outcome
from pipecat_turn_acid.testing.judge import Fault, FaultKind
from pipecat_turn_acid.testing.script import ChatRequest, Script


class FakeDiary:
    """The backend at its usual speed, without the network."""

    async def free_slots(self, day: str) -> list[str]:
        await asyncio.sleep(0.9)
        return [f"{day} at nine", f"{day} at eleven"]

    async def insurance(self, day: str) -> str:
        await asyncio.sleep(0.3)
        return "yes"


# --- the model ---------------------------------------------------------------------------------


def day(request: ChatRequest) -> dict[str, str]:
    return {"day": re.findall("Monday|Tuesday|Friday", request.user)[-1]}


def slot(request: ChatRequest) -> str:
    return request.result("find_slots")["slots"][0]


def script() -> Script:
    script = Script()
    script.on(after_tool="choose_slot").say(lambda r: f"I have {slot(r)}. Shall I book it?")
    script.on(after_tool=("find_slots", "check_insurance")).call(
        "choose_slot", lambda r: {"slot": slot(r)}
    )
    script.on(user=re.compile("Monday|Tuesday|Friday")).say("One moment, I look it up.").call(
        "find_slots", day
    ).call("check_insurance", day)
    script.on().say("Which day suits you?")
    return script


# --- the bot -----------------------------------------------------------------------------------


def assemble(bot: Bot) -> Sequence[FrameProcessor]:
    """Hand the scripted services to the project's own pipeline."""
    assert bot.tts is not None
    return dentist_bot.processors(
        bot.transport.input(), bot.aggregators, bot.llm, bot.tts, bot.transport.output()
    )


async def prepare(bot: Bot) -> None:
    """Do what the project does when a caller connects."""
    bot.flow_manager = bot.kit.make(
        "flow_manager", llm=bot.llm, context_aggregator=bot.aggregators, worker=bot.worker
    )
    await bot.flow_manager.initialize(dentist_bot.first_node(FakeDiary()))


# --- what must be true, beside the contract ----------------------------------------------------


def inspect(bot: Bot) -> tuple[str, str | None]:
    return bot.flow_manager.current_node, bot.flow_manager.state.get("slot")


def judged(outcome: Outcome, faults: list[Fault]) -> list[Fault]:
    """The flow stands where the caller was told it stands."""
    node, slot = outcome.found
    wanted = re.findall("Monday|Tuesday|Friday", outcome.said[-1].text)[-1]
    if node != "confirm" or not str(slot).startswith(wanted):
        faults.append(Fault(FaultKind.FLOW, f"at {node!r} with {slot!r}, and not with {wanted}"))
    return faults


conversation = Conversation(
    name="dentist",
    says=("Have you got anything on Monday?",),
    barge_in="Sorry, on Tuesday.",
    expects="I have Tuesday at nine.",
    second_barge_in="No, better on Friday.",
    script=script,
    assemble=assemble,
    prepare=prepare,
    inspect=inspect,
    judged=judged,
)
