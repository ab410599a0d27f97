# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Google's Gemini: what it refuses, and how it streams."""

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pipecat_turn_acid.testing.checks import Finding, Rule
from pipecat_turn_acid.testing.conversation import Conversation, Kit, Outcome
from pipecat_turn_acid.testing.judge import Fault, late_answer
from pipecat_turn_acid.testing.providers.server import Piece, fault
from pipecat_turn_acid.testing.server import ScriptedChatServer
from pipecat_turn_acid.testing.wire import Chunk, SentCall, Step

__all__ = ["Dialect", "connect", "judged", "service_class"]

Part = Mapping[str, Any]

_NO_SIGNATURE = base64.urlsafe_b64encode(b"skip_thought_signature_validator").decode()
"""What Google documents for calls that it has not signed."""


def service_class() -> Any:
    """The stock service."""
    from pipecat.services.google.llm import GoogleLLMService

    return GoogleLLMService


def connect(kit: Kit, server: ScriptedChatServer, conversation: Conversation) -> Any:
    """Make the LLM service with a client that leads to the server.

    Args:
        kit: What the bot is built from.
        server: The model's server.
        conversation: What is played.
    """
    from google.genai.types import HttpOptions

    service = kit.part("llm")
    options = HttpOptions(
        base_url="http://scripted.invalid",
        httpx_async_client=server.http_client(family="httpx"),
    )
    settings = service.Settings(system_instruction=conversation.system, model="gemini-3-scripted")
    return kit.make("llm", api_key="scripted", http_options=options, settings=settings)


def judged(outcome: Outcome, faults: list[Fault]) -> list[Fault]:
    """Leave out answers that are left to the garbage collector.

    Google's client closes a stream that was cut in the very instant in which a piece of it came
    when it is collected, and nothing is while virtual time runs.

    Args:
        outcome: What a run left behind.
        faults: What was found in it.

    Returns:
        The faults that count.
    """
    cut = [mark.at for mark in outcome.barge_ins]

    def is_left_open(fault: Fault) -> bool:
        number = late_answer(fault)
        pieces = outcome.requests[number - 1].sent_at if number else ()
        return any(abs(piece - at) < 1e-6 for piece in pieces for at in cut)

    return [fault for fault in faults if not is_left_open(fault)]


class Dialect:
    """The protocol."""

    def __init__(self, *, thinking: bool = False):
        """Speak it.

        Args:
            thinking: Whether the model signs the first call of each response, and wants each
                signature back with its call.
        """
        self._thinking = thinking
        self._signatures: dict[str, str] = {}

    def serves(self, method: str, path: str) -> bool:
        """Whether a request asks for an answer of the model."""
        return method == "POST" and path.endswith(":streamGenerateContent")

    # --- requests ---

    def read(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Read a request as the body of a chat completion request."""
        messages: list[dict[str, Any]] = []
        if system := body.get("systemInstruction"):
            text = "".join(part.get("text", "") for part in system["parts"])
            messages.append({"role": "system", "content": text})
        for content in body.get("contents", []):
            messages += _read_content(content)
        tools = [
            {"type": "function", "function": {"name": declared["name"]}}
            for tool in body.get("tools") or []
            for declared in tool.get("functionDeclarations", [])
        ]
        return {"messages": messages, **({"tools": tools} if tools else {})}

    def check(self, body: Mapping[str, Any]) -> list[Finding]:
        """Find what Gemini would refuse a request for."""
        contents = body.get("contents", [])
        if not contents:
            return [fault("* GenerateContentRequest.contents: contents is not specified")]
        return list(self._check(contents))

    def _check(self, contents: list[Any]) -> Iterator[Finding]:
        for i, content in enumerate(contents):
            parts = content.get("parts", [])
            if not parts:
                yield fault(f"contents[{i}].parts: must not be empty", index=i)
            calls = [p["functionCall"] for p in parts if "functionCall" in p]
            answers = [p["functionResponse"] for p in parts if "functionResponse" in p]
            before = contents[i - 1] if i else {"parts": []}
            after = contents[i + 1] if i + 1 < len(contents) else {"parts": []}
            made = [p["functionCall"] for p in before.get("parts", []) if "functionCall" in p]
            given = [
                p["functionResponse"] for p in after.get("parts", []) if "functionResponse" in p
            ]
            if made and not answers:
                yield _uneven(i - 1)
            if calls and len(calls) != len(given):
                yield _uneven(i)
            elif calls and [c["name"] for c in calls] != [g["name"] for g in given]:
                yield _uneven(i)
            if answers and not made:
                yield fault(
                    "Please ensure that function response turn comes immediately after a function "
                    "call turn.",
                    rule=Rule.DANGLING_RESULT,
                    index=i,
                )
            yield from self._check_signatures(i, parts)

    def _check_signatures(self, i: int, parts: list[Part]) -> Iterator[Finding]:
        for part in parts:
            signature = part.get("thoughtSignature")
            call = part.get("functionCall")
            if signature and signature not in (*self._signatures, _NO_SIGNATURE):
                yield fault("Invalid thought signature.", index=i)
            wanted = next((s for s, c in self._signatures.items() if call and c == call["id"]), "")
            if wanted and signature != wanted:
                assert call
                yield fault(
                    f"Function call `{call['name']}` in the {i}. content block is missing a "
                    "`thought_signature`.",
                    index=i,
                )
            owner = self._signatures.get(signature or "")
            if owner and (not call or call["id"] != owner):
                yield fault("Thought signature is not valid.", index=i)

    def refusal(self, message: str) -> Mapping[str, Any]:
        """Build the body of a status 400."""
        return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}

    # --- answers ---

    def stream(self, pieces: Iterator[Piece | Step], number: int) -> Iterator[Step]:
        """Encode an answer. A call is one part, when its arguments are complete."""
        signed = False
        for piece in pieces:
            if not isinstance(piece, Piece):
                yield piece
            elif piece.text:
                yield Chunk(_event([{"text": piece.text}]), text=piece.text)
            elif piece.ends and isinstance(piece.whole, SentCall):
                call = piece.whole
                arguments = json.loads(call.arguments or "{}")
                part: dict[str, Any] = {
                    "functionCall": {"id": call.id, "name": call.name, "args": arguments}
                }
                if self._thinking and not signed:
                    signed = True
                    text = f"signature-{call.id}".encode()
                    part["thoughtSignature"] = base64.b64encode(text).decode()
                    self._signatures[base64.urlsafe_b64encode(text).decode()] = call.id
                yield Chunk(_event([part]), calls=(call,))
        yield Chunk(_event([{"text": ""}], finish="STOP"), last=True)


def _event(parts: list[Any], finish: str | None = None) -> bytes:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    body = {
        "candidates": [candidate],
        "usageMetadata": {"promptTokenCount": 10, "totalTokenCount": 20},
        "modelVersion": "gemini-3-scripted",
    }
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n".encode()


def _uneven(i: int) -> Finding:
    return fault(
        "Please ensure that the number of function response parts is equal to the number of "
        "function call parts of the function call turn.",
        rule=Rule.ORPHAN_CALL,
        index=i,
    )


def _read_content(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    role = "assistant" if content.get("role") == "model" else "user"
    for part in content.get("parts", []):
        if call := part.get("functionCall"):
            function = {"name": call["name"], "arguments": json.dumps(call.get("args", {}))}
            calls.append({"id": call["id"], "type": "function", "function": function})
        elif answer := part.get("functionResponse"):
            response = answer["response"]
            value = response["value"] if list(response) == ["value"] else response
            read.append(
                {"role": "tool", "tool_call_id": answer["id"], "content": json.dumps(value)}
            )
        elif "text" in part:
            read.append({"role": role, "content": part["text"]})
    if calls:
        read.append({"role": "assistant", "tool_calls": calls})
    return read
