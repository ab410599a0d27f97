# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Anthropic's messages: what it refuses, and how it streams."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pipecat_turn_acid.testing.checks import Finding, Rule
from pipecat_turn_acid.testing.conversation import Conversation, Kit
from pipecat_turn_acid.testing.providers.server import Piece, fault
from pipecat_turn_acid.testing.server import ScriptedChatServer
from pipecat_turn_acid.testing.wire import Chunk, Step

__all__ = ["Dialect", "connect", "service_class"]

Block = Mapping[str, Any]


def service_class() -> Any:
    """The stock service."""
    from pipecat.services.anthropic.llm import AnthropicLLMService

    return AnthropicLLMService


def connect(kit: Kit, server: ScriptedChatServer, conversation: Conversation) -> Any:
    """Make the LLM service with a client that leads to the server.

    Args:
        kit: What the bot is built from.
        server: The model's server.
        conversation: What is played.
    """
    from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

    modules = [base.__module__.partition(".")[0] for base in DefaultAsyncHttpxClient.__mro__]
    family = next(name for name in modules if name.startswith("httpx"))
    client = AsyncAnthropic(
        api_key="scripted",
        base_url="http://scripted.invalid",
        http_client=server.http_client(family=family),
        max_retries=0,
    )
    client._platform = "Unknown"  # pyright: ignore[reportPrivateUsage,reportAttributeAccessIssue]
    service = kit.part("llm")
    settings = service.Settings(system_instruction=conversation.system)
    return kit.make("llm", api_key="scripted", client=client, settings=settings)


class Dialect:
    """The protocol."""

    def __init__(self, *, thinking: bool = False):
        """Speak it.

        Args:
            thinking: Whether the model thinks before it calls a tool, and wants its thoughts back.
        """
        self._thinking = thinking
        self._signatures: dict[str, str] = {}

    def serves(self, method: str, path: str) -> bool:
        """Whether a request asks for an answer of the model."""
        return method == "POST" and path.rstrip("/") == "/v1/messages"

    # --- requests ---

    def read(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Read a request as the body of a chat completion request."""
        messages: list[dict[str, Any]] = []
        if system := body.get("system"):
            messages.append({"role": "system", "content": _text(system)})
        for message in body.get("messages", []):
            messages += _read_message(message)
        tools = [
            {"type": "function", "function": {"name": t["name"], "parameters": t["input_schema"]}}
            for t in body.get("tools") or []
        ]
        return {"messages": messages, **({"tools": tools} if tools else {})}

    def check(self, body: Mapping[str, Any]) -> list[Finding]:
        """Find what Anthropic would refuse a request for."""
        messages = body.get("messages", [])
        if not messages:
            return [fault("messages: at least one message is required")]
        return list(self._check(messages))

    def _check(self, messages: list[Any]) -> Iterator[Finding]:
        if messages[0]["role"] != "user":
            yield fault('messages: first message must use the "user" role', index=0)
        if messages[-1]["role"] == "assistant":
            yield fault("This model does not support assistant message prefill.")
        seen: set[str] = set()
        for i, message in enumerate(messages):
            blocks = _blocks(message)
            if not blocks:
                yield fault(f"messages.{i}: all messages must have non-empty content", index=i)
            for block in blocks:
                if block["type"] == "text" and not block["text"].strip():
                    yield fault("messages: text content blocks must contain non-whitespace text")
            if message["role"] == "assistant":
                yield from self._check_assistant(messages, i, blocks, seen)
            else:
                yield from _check_results(messages, i, blocks)

    def _check_assistant(
        self, messages: list[Any], i: int, blocks: list[Block], seen: set[str]
    ) -> Iterator[Finding]:
        if blocks and blocks[-1]["type"] == "thinking":
            yield fault(
                f"messages.{i}: The final block in an assistant message cannot be `thinking`.",
                index=i,
            )
        made = [b["id"] for b in blocks if b["type"] == "tool_use"]
        for tool_use_id in made:
            if tool_use_id in seen:
                yield fault("messages: `tool_use` ids must be unique", rule=Rule.DUPLICATE_ID)
            seen.add(tool_use_id)
        for block in blocks:
            if block["type"] == "tool_use" and not isinstance(block["input"], dict):
                yield fault(f"messages.{i}: tool_use.input: Input should be a valid dictionary")
        following = _blocks(messages[i + 1]) if i + 1 < len(messages) else []
        answered = set()
        for block in following:
            if block["type"] != "tool_result":
                break
            answered.add(block["tool_use_id"])
        if missing := [m for m in made if m not in answered]:
            yield fault(
                f"messages.{i}: `tool_use` ids were found without `tool_result` blocks immediately "
                f"after: {', '.join(missing)}. Each `tool_use` block must have a corresponding "
                "`tool_result` block in the next message.",
                rule=Rule.ORPHAN_CALL,
                index=i,
                call=missing[0],
            )
        yield from self._check_thoughts(messages, i, blocks, made)

    def _check_thoughts(
        self, messages: list[Any], i: int, blocks: list[Block], made: list[str]
    ) -> Iterator[Finding]:
        for number, block in enumerate(blocks):
            if block["type"] == "thinking":
                answers = [b.get("id") for b in blocks[number:] if b["type"] == "tool_use"]
                owner = self._signatures.get(block["signature"])
                if owner is None:
                    yield fault(f"messages.{i}: Invalid `signature` in `thinking` block", index=i)
                elif owner and owner not in answers:
                    yield fault(f"messages.{i}: a `thinking` block without its `tool_use`", index=i)
        said_since = any(
            m["role"] == "user" and any(b["type"] == "text" for b in _blocks(m))
            for m in messages[i + 1 :]
        )
        wanted = {s for s, call in self._signatures.items() if call in made}
        shown = {b["signature"] for b in blocks if b["type"] == "thinking"}
        if wanted - shown and not said_since:
            yield fault(
                f"messages.{i}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
                "found `tool_use`. When `thinking` is enabled, a final `assistant` message must "
                "start with a thinking block.",
                index=i,
            )

    def refusal(self, message: str) -> Mapping[str, Any]:
        """Build the body of a status 400."""
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}

    # --- answers ---

    def stream(self, pieces: Iterator[Piece | Step], number: int) -> Iterator[Step]:
        """Encode an answer."""
        usage = {"input_tokens": 10, "output_tokens": 1}
        message = {
            "id": f"msg_{number:04d}",
            "type": "message",
            "role": "assistant",
            "model": "claude-scripted",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        index, opened, called, thought = -1, False, False, False
        for piece in pieces:
            if not isinstance(piece, Piece):
                yield piece
                continue
            if not opened:
                opened = True
                yield _event("message_start", message=message)
            if self._thinking and piece.begins and piece.call and not thought:
                index += 1
                thought = True
                yield from self._think(index, piece.call.id)
            if piece.begins:
                index += 1
                block: dict[str, Any] = {"type": "text", "text": ""}
                if piece.call:
                    block = {
                        "type": "tool_use",
                        "id": piece.call.id,
                        "name": piece.call.name,
                        "input": {},
                    }
                yield _event("content_block_start", index=index, content_block=block)
            delta: dict[str, Any] = {"type": "text_delta", "text": piece.text}
            if piece.call:
                called = True
                delta = {"type": "input_json_delta", "partial_json": piece.call.arguments}
            event = _event("content_block_delta", index=index, delta=delta)
            calls = (piece.call,) if piece.call else ()
            yield Chunk(event.data, text=piece.text, calls=calls)
            if piece.ends:
                yield _event("content_block_stop", index=index)
        if not opened:
            yield _event("message_start", message=message)
        reason = "tool_use" if called else "end_turn"
        yield _event(
            "message_delta",
            delta={"stop_reason": reason, "stop_sequence": None},
            usage={"input_tokens": 10, "output_tokens": 20},
        )
        yield Chunk(_event("message_stop").data, last=True)

    def _think(self, index: int, tool_call_id: str) -> Iterator[Chunk]:
        signature = f"signature-{tool_call_id}"
        self._signatures[signature] = tool_call_id
        block = {"type": "thinking", "thinking": "", "signature": ""}
        yield _event("content_block_start", index=index, content_block=block)
        for delta in (
            {"type": "thinking_delta", "thinking": "Hm."},
            {"type": "signature_delta", "signature": signature},
        ):
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)


def _event(type: str, **values: Any) -> Chunk:
    data = json.dumps({"type": type, **values}, ensure_ascii=False)
    return Chunk(f"event: {type}\ndata: {data}\n\n".encode())


def _blocks(message: Mapping[str, Any]) -> list[Block]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content)


def _check_results(messages: list[Any], i: int, blocks: list[Block]) -> Iterator[Finding]:
    before = _blocks(messages[i - 1]) if i else []
    made = [b["id"] for b in before if b["type"] == "tool_use"]
    answered: list[str] = []
    for block in blocks:
        if block["type"] != "tool_result":
            continue
        tool_use_id = block["tool_use_id"]
        if tool_use_id not in made:
            yield fault(
                f"messages.{i}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{tool_use_id}. Each `tool_result` block must have a corresponding `tool_use` "
                "block in the previous message.",
                rule=Rule.DANGLING_RESULT,
                index=i,
                call=tool_use_id,
            )
        if tool_use_id in answered:
            yield fault(
                f"messages.{i}: each tool_use must have a single result. Found multiple "
                f"`tool_result` blocks with id: {tool_use_id}",
                rule=Rule.DUPLICATE_RESULT,
                index=i,
            )
        answered.append(tool_use_id)


def _read_message(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for block in _blocks(message):
        match block["type"]:
            case "text":
                read.append({"role": message["role"], "content": block["text"]})
            case "tool_use":
                function = {"name": block["name"], "arguments": json.dumps(block["input"])}
                calls.append({"id": block["id"], "type": "function", "function": function})
            case "tool_result":
                content = _text(block["content"])
                read.append(
                    {"role": "tool", "tool_call_id": block["tool_use_id"], "content": content}
                )
            case _:
                pass
    if calls:
        read.append({"role": "assistant", "tool_calls": calls})
    return read
