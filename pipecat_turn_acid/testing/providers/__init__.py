# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The scripted model behind other protocols than OpenAI's chat completions.

Each provider has a *dialect*: it reads a request as a chat completion request, so that the same
scripts answer and the same judge judges it; it refuses what the provider would refuse; and it
encodes an answer as the provider streams it. A kit that speaks one::

    play(order, speaking("anthropic", TRANSACTIONAL))
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from pipecat_turn_acid.testing.conversation import Kit
from pipecat_turn_acid.testing.providers import (
    anthropic,
    google,
    responses,
    responses_websocket,
)
from pipecat_turn_acid.testing.providers.server import ScriptedProviderServer

__all__ = ["PROVIDERS", "ScriptedProviderServer", "speaking"]

PROVIDERS: Final[Mapping[str, Any]] = {
    "anthropic": anthropic,
    "google": google,
    "responses": responses,
    "responses-websocket": responses_websocket,
}
"""The modules of the dialects, by name."""


def speaking(provider: str, kit: Kit, *, thinking: bool = False) -> Kit:
    """Return a kit whose service speaks another protocol.

    Args:
        provider: ``anthropic``, ``google``, ``responses`` or ``responses-websocket``.
        kit: What the rest of the bot is built from.
        thinking: Whether the model thinks before it answers, and wants to see its thoughts again.
    """
    module = PROVIDERS[provider]
    service: Any = module.service_class()
    if kit.transactional:
        from pipecat_turn_acid import transactional

        service = transactional(service)

    def server(script: Callable[..., Any]) -> ScriptedProviderServer:
        return ScriptedProviderServer(script, module.Dialect(thinking=thinking))

    name = f"{kit.name} {provider}" + (" thinking" if thinking else "")
    kit = kit.but(name, llm=service, server=server, connect=module.connect)
    return replace(kit, judged=getattr(module, "judged", None))
