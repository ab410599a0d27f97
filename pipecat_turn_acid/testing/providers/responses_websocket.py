# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""OpenAI's Responses over one connection that stays open.

The server remembers what it has answered on the connection, so that a request may name the response
before it and bring the new items alone. What is checked is what the two make together.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from websockets.protocol import State

from pipecat_turn_acid.testing.conversation import Conversation, Kit, Outcome
from pipecat_turn_acid.testing.http import HttpRequest
from pipecat_turn_acid.testing.judge import Fault, late_answer
from pipecat_turn_acid.testing.providers import responses
from pipecat_turn_acid.testing.providers.responses import Dialect
from pipecat_turn_acid.testing.server import ScriptedChatServer

__all__ = ["Dialect", "connect", "judged", "service_class"]


def service_class() -> Any:
    """The stock service."""
    from pipecat.services.openai.responses.llm import OpenAIResponsesLLMService

    return OpenAIResponsesLLMService


def connect(kit: Kit, server: ScriptedChatServer, conversation: Conversation) -> Any:
    """Make the LLM service with a connection that leads to the server.

    Args:
        kit: What the bot is built from.
        server: The model's server.
        conversation: What is played.
    """
    plain = kit.part("llm")

    class Connected(plain):
        async def _websocket_connect(self, *args: Any, **kwargs: Any) -> Any:
            return _Connection(server)

    Connected.__name__ = plain.__name__
    return responses.connect(kit.but(llm=Connected), server, conversation)


def judged(_: Outcome, faults: list[Fault]) -> list[Fault]:
    """Leave out answers that Pipecat has no means to stop.

    It can cancel a response on an open connection only when it knows its number, and discards one
    that was cut before that when it asks for the next.

    Args:
        _: What a run left behind.
        faults: What was found in it.

    Returns:
        The faults that count.
    """
    return [fault for fault in faults if late_answer(fault) is None]


class _Connection:
    """Both ends of a connection."""

    def __init__(self, server: ScriptedChatServer):
        self.state = State.OPEN
        self._server = server
        self._events: asyncio.Queue[str] = asyncio.Queue()
        self._answering: asyncio.Task[None] | None = None
        self._known: dict[str, list[Any]] = {}

    async def send(self, message: str) -> None:
        request = json.loads(message)
        if request["type"] == "response.create":
            assert self._answering is None or self._answering.done(), "one response at a time"
            self._answering = asyncio.create_task(self._answer(request), name="responses")
        elif request["type"] == "response.cancel" and self._answering:
            self._answering.cancel()

    async def recv(self) -> str:
        return await self._events.get()

    async def ping(self) -> None:
        return

    async def close(self) -> None:
        self.state = State.CLOSED
        if self._answering:
            self._answering.cancel()

    async def _answer(self, request: Mapping[str, Any]) -> None:
        items = list(request["input"])
        if previous := request.get("previous_response_id"):
            if previous not in self._known:
                self._tell("error", error={"code": "previous_response_not_found"})
                return
            items = self._known[previous] + items
        body = json.dumps({**request, "input": items}).encode()
        try:
            response = await self._server.dispatch(HttpRequest("POST", "/v1/responses", {}, body))
            if isinstance(response.body, bytes):
                self._tell("error", error=json.loads(response.body)["error"])
                return
            try:
                async for data in response.body:
                    self._pass_on(data, items)
            finally:
                await response.body.aclose()
        except asyncio.CancelledError:
            if self.state is State.OPEN:
                self._tell("response.incomplete", response={"output": []})
            raise

    def _pass_on(self, data: bytes, items: list[Any]) -> None:
        event = json.loads(data.decode().partition("data: ")[2])
        if event["type"] == "response.completed":
            response = event["response"]
            self._known[response["id"]] = [*items, *response["output"]]
        self._events.put_nowait(json.dumps(event))

    def _tell(self, type: str, **values: Any) -> None:
        self._events.put_nowait(json.dumps({"type": type, **values}))
