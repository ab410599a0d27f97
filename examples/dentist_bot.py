# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A bot as a project has it: flows, parallel tools, a backend. It knows nothing of the sweep.

The surgery's diary is asked over the network, so its answers take time.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from pipecat.flows import FlowArgs, FlowsFunctionSchema, NodeConfig
from pipecat.processors.frame_processor import FrameProcessor


class Diary(Protocol):
    """The surgery's backend."""

    async def free_slots(self, day: str) -> list[str]: ...

    async def insurance(self, day: str) -> str: ...


def processors(
    microphone: FrameProcessor,
    aggregators: Any,
    llm: FrameProcessor,
    tts: FrameProcessor,
    loudspeaker: FrameProcessor,
) -> Sequence[FrameProcessor]:
    """The pipeline, from services that somebody else has made."""
    user, assistant = aggregators
    return [microphone, user, llm, tts, loudspeaker, assistant]


def first_node(diary: Diary) -> NodeConfig:
    """The flow: find a slot, then have it confirmed."""

    async def find_slots(args: FlowArgs, flow_manager: Any):
        slots = await diary.free_slots(args["day"])
        return {"day": args["day"], "slots": slots}, None

    async def check_insurance(args: FlowArgs, flow_manager: Any):
        return {"day": args["day"], "covered": await diary.insurance(args["day"])}, None

    async def choose_slot(args: FlowArgs, flow_manager: Any):
        flow_manager.state["slot"] = args["slot"]
        return {"slot": args["slot"]}, confirm()

    def find() -> NodeConfig:
        return NodeConfig(
            name="find",
            role_message="You take calls for a dentist. Be brief.",
            task_messages=[
                {
                    "role": "developer",
                    "content": "Find out which day. Look up the slots and the insurance together, "
                    "then choose the first slot.",
                }
            ],
            functions=[
                _function("find_slots", "day", find_slots),
                _function("check_insurance", "day", check_insurance),
                _function("choose_slot", "slot", choose_slot),
            ],
            respond_immediately=False,
        )

    def confirm() -> NodeConfig:
        return NodeConfig(
            name="confirm",
            task_messages=[{"role": "developer", "content": "Have the slot confirmed."}],
            functions=[
                _function("find_slots", "day", find_slots),
                _function("check_insurance", "day", check_insurance),
                _function("choose_slot", "slot", choose_slot),
            ],
        )

    return find()


def _function(
    name: str, parameter: str, handler: Callable[[FlowArgs, Any], Awaitable[Any]]
) -> FlowsFunctionSchema:
    return FlowsFunctionSchema(
        name=name,
        description=name.replace("_", " ").capitalize() + ".",
        properties={parameter: {"type": "string"}},
        required=[parameter],
        handler=handler,
        cancel_on_interruption=True,
    )
