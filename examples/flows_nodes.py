# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The flow of flows_order.yaml, with its nodes written in Python."""

import asyncio

from pipecat.flows import (
    ContextStrategy,
    ContextStrategyConfig,
    FlowArgs,
    FlowManager,
    FlowsFunctionSchema,
    NodeConfig,
)

from pipecat_turn_acid import side_effects

# --- functions ---------------------------------------------------------------------------------


async def choose_pizza(flow_manager: FlowManager, kind: str, size: str):
    """Note which pizza the caller would like.

    Args:
        kind: Such as margherita.
        size: small, medium or large.
    """
    flow_manager.state["order"] = {"kind": kind, "size": size}
    await asyncio.sleep(0.8)  # The till is slow.
    return {"kind": kind, "size": size}, address_node()


async def check_stock(flow_manager: FlowManager, kind: str):
    """Look whether a pizza is to be had today.

    Args:
        kind: Such as margherita.
    """
    await asyncio.sleep(0.4)
    return {"kind": kind, "in_stock": True}, None


async def set_address(flow_manager: FlowManager, address: str):
    """Note where the pizza goes.

    Args:
        address: Street and number.
    """
    flow_manager.state["address"] = address
    return {"address": address, "delivers": True}, confirm_node()


@side_effects
async def place_order(args: FlowArgs, flow_manager: FlowManager):
    await asyncio.sleep(0.3)
    flow_manager.state["receipt"] = 17
    return {"receipt": 17}, done_node()


async def start_over(flow_manager: FlowManager):
    """Go back to choosing a pizza."""
    return None, order_node()


async def opening_hours(flow_manager: FlowManager):
    """Say when the pizzeria is open."""
    return {"from": "noon", "to": "midnight"}, None


# --- nodes -------------------------------------------------------------------------------------


def order_node() -> NodeConfig:
    return {
        "name": "order",
        "role_message": "You take orders for a pizzeria, on the telephone. Be brief.",
        "task_messages": [
            {
                "role": "developer",
                "content": "Ask which pizza the caller would like, and in which size.",
            }
        ],
        "functions": [choose_pizza, check_stock],
        "respond_immediately": False,
    }


def address_node() -> NodeConfig:
    return {
        "name": "address",
        "context_strategy": ContextStrategyConfig(ContextStrategy.RESET),
        "task_messages": [
            {
                "role": "developer",
                "content": "The caller orders a {{ order.size }} {{ order.kind }}. Ask where it is "
                "to be delivered.",
            }
        ],
        "functions": [set_address, start_over],
    }


def confirm_node() -> NodeConfig:
    return {
        "name": "confirm",
        "task_messages": [
            {
                "role": "developer",
                "content": "Ask whether it is right: a {{ order.size }} {{ order.kind }} to "
                "{{ address }}.",
            }
        ],
        "functions": [
            FlowsFunctionSchema(
                name="place_order",
                description="Order what was agreed.",
                properties={},
                required=[],
                handler=place_order,
            ),
            start_over,
        ],
    }


def done_node() -> NodeConfig:
    return {
        "name": "done",
        "task_messages": [
            {
                "role": "developer",
                "content": "Thank the caller for order {{ receipt }}, and say goodbye.",
            }
        ],
        "post_actions": [{"type": "end_conversation"}],
    }
