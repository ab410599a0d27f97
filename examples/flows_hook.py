# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A state machine of one's own on the commit hook: two steps, and no Pipecat Flows.

A tool says nothing of steps. Once all the calls of a response have their results in the history,
and before the model is asked again, `TwoSteps.move` is called with the round and awaited. It may
change the messages, the tools and the system instruction, and nobody sees a half of that.
"""

import asyncio

from pipecat.frames.frames import LLMUpdateSettingsFrame
from pipecat.services.llm_service import FunctionCallParams, LLMService
from pipecat.services.settings import LLMSettings

from pipecat_turn_acid import ToolRound, TransactionalLLMContext

STEPS: dict[str, dict[str, str]] = {
    "order": {
        "system": "You take orders for a pizzeria. You are to find out which pizza.",
        "task": "Ask which pizza the caller would like, and in which size.",
    },
    "address": {
        "system": "You take orders for a pizzeria. You are to find out the address.",
        "task": "Ask where the pizza is to be delivered.",
    },
}
LEADS_TO = {"choose_pizza": "address"}


class TwoSteps:
    """A flow of two steps."""

    def __init__(self, llm: LLMService, context: TransactionalLLMContext):
        self._llm = llm
        self._context = context
        self.step = ""
        self._tools = {"order": self.choose_pizza, "address": self.set_address}
        context.on_round_committed(self.move)

    async def start(self) -> None:
        await self._enter("order")

    async def move(self, round: ToolRound) -> None:
        """Go where the first call leads that leads anywhere."""
        for call in round.calls:
            if call.name in LEADS_TO:
                await self._enter(LEADS_TO[call.name])
                return

    async def _enter(self, step: str) -> None:
        self.step = step
        settings = LLMSettings(system_instruction=STEPS[step]["system"])
        await self._llm.queue_frame(LLMUpdateSettingsFrame(delta=settings))
        self._context.add_message({"role": "developer", "content": STEPS[step]["task"]})
        self._context.set_tools([self._tools[step]])

    async def choose_pizza(self, params: FunctionCallParams, kind: str, size: str) -> None:
        """Note the pizza.

        Args:
            params: Of the call.
            kind: What is on it.
            size: How large it is.
        """
        await asyncio.sleep(0.8)  # The till is slow.
        await params.result_callback({"kind": kind, "size": size})

    async def set_address(self, params: FunctionCallParams, address: str) -> None:
        """Note the address.

        Args:
            params: Of the call.
            address: Where the pizza is to be delivered.
        """
        await params.result_callback({"address": address})
