# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The Python behind flows_order.yaml. It is stock Pipecat Flows but for one decorator."""

import asyncio
from pathlib import Path

from pipecat.flows import TRANSITION_IN_YAML, Flow, FlowConfig, FlowManager

from pipecat_turn_acid import side_effects


async def choose_pizza(flow_manager: FlowManager, kind: str, size: str):
    """Note which pizza the caller would like.

    Args:
        kind: Such as margherita.
        size: small, medium or large.
    """
    flow_manager.state["order"] = {"kind": kind, "size": size}
    await asyncio.sleep(0.8)  # The till is slow.
    return {"kind": kind, "size": size}, TRANSITION_IN_YAML


async def check_stock(flow_manager: FlowManager, kind: str):
    """Look whether a pizza is to be had today.

    Args:
        kind: Such as margherita.
    """
    await asyncio.sleep(0.4)
    return {"kind": kind, "in_stock": True}, TRANSITION_IN_YAML


async def set_address(flow_manager: FlowManager, address: str):
    """Note where the pizza goes.

    Args:
        address: Street and number.
    """
    flow_manager.state["address"] = address
    return {"address": address, "delivers": True}, TRANSITION_IN_YAML


@side_effects
async def place_order(flow_manager: FlowManager):
    """Order what was agreed."""
    await asyncio.sleep(0.3)
    flow_manager.state["receipt"] = 17
    return {"receipt": 17}, TRANSITION_IN_YAML


async def opening_hours(flow_manager: FlowManager):
    """Say when the pizzeria is open."""
    return {"from": "noon", "to": "midnight"}, TRANSITION_IN_YAML


def flow() -> Flow:
    """Join the file to its handlers."""
    config = FlowConfig.from_file(Path(__file__).with_name("flows_order.yaml"))
    return Flow(config, handlers=globals())
