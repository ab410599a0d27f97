# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""OpenAI's Responses over HTTP: what it refuses, and how it streams."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pipecat_turn_acid.testing.checks import Finding, Rule
from pipecat_turn_acid.testing.conversation import Conversation, Kit, connected_llm
from pipecat_turn_acid.testing.providers.server import Piece, fault
from pipecat_turn_acid.testing.server import ScriptedChatServer
from pipecat_turn_acid.testing.wire import Chunk, SentCall, Step

__all__ = ["Dialect", "connect", "service_class"]

Item = Mapping[str, Any]


def service_class() -> Any:
    """The stock service."""
    from pipecat.services.openai.responses.llm import OpenAIResponsesHttpLLMService

    return OpenAIResponsesHttpLLMService


def connect(kit: Kit, server: ScriptedChatServer, conversation: Conversation) -> Any:
    """Make the LLM service with a client that leads to the server.

    Args:
        kit: What the bot is built from.
        server: The model's server.
        conversation: What is played.
    """
    plain = kit.part("llm")

    class Connected(plain):
        def _create_client(self, *args: Any, **kwargs: Any) -> Any:
            return server.client(max_retries=0)

    Connected.__name__ = plain.__name__
    return connected_llm(kit.but(llm=Connected), server, conversation)


class Dialect:
    """The protocol."""

    def __init__(self, *, thinking: bool = False):
        """Speak it.

        Args:
            thinking: Whether the model reasons before it answers, and wants its reasoning back.
        """
        self._thinking = thinking
        self._followers: dict[str, str] = {}

    def serves(self, method: str, path: str) -> bool:
        """Whether a request asks for an answer of the model."""
        return method == "POST" and path.rstrip("/") == "/v1/responses"

    # --- requests ---

    def read(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Read a request as the body of a chat completion request."""
        messages: list[dict[str, Any]] = []
        if instructions := body.get("instructions"):
            messages.append({"role": "system", "content": instructions})
        items = list(body.get("input", []))
        while items:
            item = items.pop(0)
            match item.get("type", "message"):
                case "function_call":
                    calls = [item]
                    while items and items[0].get("type") == "function_call":
                        calls.append(items.pop(0))
                    messages.append({"role": "assistant", "tool_calls": [_call(c) for c in calls]})
                case "function_call_output":
                    messages.append(
                        {
                            "role": "tool",
                            "tool_call_id": item["call_id"],
                            "content": item["output"],
                        }
                    )
                case "reasoning":
                    continue
                case _:
                    messages.append({"role": item["role"], "content": item["content"]})
        tools = [
            {"type": "function", "function": {"name": tool["name"]}}
            for tool in body.get("tools") or []
        ]
        return {"messages": messages, **({"tools": tools} if tools else {})}

    def check(self, body: Mapping[str, Any]) -> list[Finding]:
        """Find what OpenAI would refuse a request for."""
        items = list(body.get("input", []))
        if not items:
            return [fault("Missing required parameter: 'input'.")]
        return list(self._check(items))

    def _check(self, items: list[Item]) -> Iterator[Finding]:
        made = [item["call_id"] for item in items if item.get("type") == "function_call"]
        outputs = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
        for call_id in made:
            if call_id not in outputs:
                yield fault(
                    f"No tool output found for function call {call_id}.",
                    rule=Rule.ORPHAN_CALL,
                    call=call_id,
                )
        for call_id in outputs:
            if call_id not in made:
                yield fault(
                    f"No tool call found for function call output with call_id {call_id}.",
                    rule=Rule.DANGLING_RESULT,
                    call=call_id,
                )
        for group, rule in ((made, Rule.DUPLICATE_ID), (outputs, Rule.DUPLICATE_RESULT)):
            if len(set(group)) < len(group):
                yield fault("Duplicate item found in input.", rule=rule)
        for i, item in enumerate(items):
            if item.get("type") == "reasoning":
                yield from self._check_reasoning(i, item, items[i + 1 : i + 2])
            elif item.get("role") and not item.get("content"):
                yield fault(f"Invalid 'input[{i}].content': empty string.", index=i)

    def _check_reasoning(self, i: int, item: Item, following: list[Item]) -> Iterator[Finding]:
        wanted = self._followers.get(item["id"])
        if wanted is None:
            yield fault(f"Item with id '{item['id']}' not found.", index=i)
            return
        follower = following[0] if following else {}
        is_call = follower.get("type") == "function_call"
        found = follower["call_id"] if is_call else follower.get("role", "")
        if found != wanted:
            yield fault(
                f"Item '{item['id']}' of type 'reasoning' was provided without its required "
                "following item.",
                index=i,
            )

    def refusal(self, message: str) -> Mapping[str, Any]:
        """Build the body of a status 400."""
        return {
            "error": {
                "message": message,
                "type": "invalid_request_error",
                "param": "input",
                "code": None,
            }
        }

    # --- answers ---

    def stream(self, pieces: Iterator[Piece | Step], number: int) -> Iterator[Step]:
        """Encode an answer."""
        return _Stream(self._followers if self._thinking else None, number).encode(pieces)


class _Stream:
    """One answer, event by event."""

    def __init__(self, followers: dict[str, str] | None, number: int):
        self._followers = followers
        self._number = number
        self._events = 0
        self._output: list[Any] = []
        self._reasoned = False

    def encode(self, pieces: Iterator[Piece | Step]) -> Iterator[Step]:
        opened = False
        for piece in pieces:
            if not isinstance(piece, Piece):
                yield piece
                continue
            if not opened:
                opened = True
                yield self._event("response.created", response=self._response("in_progress"))
            if piece.begins:
                follower = piece.call.id if piece.call else "assistant"
                yield from self._reason(follower)
            yield from self._call(piece) if piece.call else self._say(piece)
        if not opened:
            yield self._event("response.created", response=self._response("in_progress"))
        done = self._event("response.completed", response=self._response("completed"))
        yield Chunk(done.data, last=True)

    def _reason(self, follower: str) -> Iterator[Chunk]:
        if self._followers is None or self._reasoned:
            return
        self._reasoned = True
        item_id = f"rs_{self._number:04d}"
        self._followers[item_id] = follower
        item = {"type": "reasoning", "id": item_id, "summary": [], "encrypted_content": "gAAA"}
        yield from self._added(item)
        yield from self._done(item)

    def _say(self, piece: Piece) -> Iterator[Chunk]:
        item_id = f"msg_{self._number:04d}_{len(self._output)}"
        message: dict[str, Any] = {"type": "message", "id": item_id, "role": "assistant"}
        if piece.begins:
            yield from self._added({**message, "status": "in_progress", "content": []})
        delta = self._event(
            "response.output_text.delta",
            item_id=item_id,
            output_index=len(self._output),
            content_index=0,
            delta=piece.text,
            logprobs=[],
        )
        yield Chunk(delta.data, text=piece.text)
        if piece.ends:
            text = {"type": "output_text", "text": piece.whole, "annotations": []}
            yield from self._done({**message, "status": "completed", "content": [text]})

    def _call(self, piece: Piece) -> Iterator[Chunk]:
        assert piece.call and isinstance(piece.whole, SentCall)
        item_id = f"fc_{piece.call.id}"
        item = {
            "type": "function_call",
            "id": item_id,
            "call_id": piece.call.id,
            "name": piece.call.name,
        }
        place = {"item_id": item_id, "output_index": len(self._output)}
        if piece.begins:
            (added,) = self._added({**item, "arguments": "", "status": "in_progress"})
            yield Chunk(added.data, calls=(piece.call,))
        else:
            kind = "response.function_call_arguments.delta"
            delta = self._event(kind, **place, delta=piece.call.arguments)
            yield Chunk(delta.data, calls=(piece.call,))
        if piece.ends:
            arguments = piece.whole.arguments
            kind = "response.function_call_arguments.done"
            yield self._event(kind, **place, arguments=arguments, name=piece.call.name)
            yield from self._done({**item, "arguments": arguments, "status": "completed"})

    def _added(self, item: Item) -> Iterator[Chunk]:
        yield self._event("response.output_item.added", output_index=len(self._output), item=item)

    def _done(self, item: Item) -> Iterator[Chunk]:
        yield self._event("response.output_item.done", output_index=len(self._output), item=item)
        self._output.append(item)

    def _response(self, status: str) -> dict[str, Any]:
        return {
            "id": f"resp_{self._number:04d}",
            "object": "response",
            "created_at": 1_767_225_600,
            "model": "gpt-scripted",
            "status": status,
            "output": list(self._output),
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }

    def _event(self, type: str, **values: Any) -> Chunk:
        self._events += 1
        data = json.dumps({"type": type, "sequence_number": self._events, **values})
        return Chunk(f"event: {type}\ndata: {data}\n\n".encode())


def _call(item: Item) -> dict[str, Any]:
    function = {"name": item["name"], "arguments": item["arguments"]}
    return {"id": item["call_id"], "type": "function", "function": function}
