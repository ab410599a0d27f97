# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""OpenAI's chat completion protocol, without any I/O: replies in, timed bytes out."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pipecat_turn_acid.testing.script import (
    Call,
    ChatRequest,
    Delay,
    Disconnect,
    Finish,
    HttpError,
    Malformed,
    Reply,
    Say,
    Stall,
    Truncate,
)

__all__ = ["Chunk", "SentCall", "Step", "completion", "error_body", "sse", "stream"]

DONE: Final = b"data: [DONE]\n\n"

_USUAL_ERRORS: Final[Mapping[int, tuple[str, str, str | None]]] = {
    400: ("The request could not be processed.", "invalid_request_error", None),
    401: (
        "Incorrect API key provided. You can find your API key at "
        "https://platform.openai.com/account/api-keys.",
        "invalid_request_error",
        "invalid_api_key",
    ),
    429: (
        "Rate limit reached for this model on requests per min (RPM): Limit 3, Used 3, "
        "Requested 1. Please try again in 1s. Visit "
        "https://platform.openai.com/account/rate-limits to learn more.",
        "requests",
        "rate_limit_exceeded",
    ),
    500: (
        "The server had an error processing your request. Sorry about that! You can retry your "
        "request, or contact us through our help center at help.openai.com if you keep seeing "
        "this error.",
        "server_error",
        None,
    ),
    503: ("The engine is currently overloaded, please try again later", "server_error", None),
}


@dataclass(frozen=True)
class SentCall:
    """A tool call as far as it was sent.

    Parameters:
        id: The id of the call.
        name: The function.
        arguments: The text of the arguments.
    """

    id: str
    name: str
    arguments: str = ""


@dataclass(frozen=True)
class Chunk:
    """Bytes to send, and what they say.

    Parameters:
        data: The bytes.
        text: The words in them.
        calls: The pieces of calls in them. One without arguments begins a call, one with
            arguments goes on with the call that was begun last, or is a whole call.
        last: Whether this ends the response.
    """

    data: bytes
    text: str = ""
    calls: tuple[SentCall, ...] = ()
    last: bool = False


Step: TypeAlias = Chunk | Delay | Stall | Disconnect | HttpError


@dataclass
class _Envelope:
    """What all chunks of one response share."""

    request: ChatRequest
    created: int
    calls: list[SentCall] = field(default_factory=list[SentCall])
    words: list[str] = field(default_factory=list[str])

    @property
    def _usage_asked(self) -> bool:
        options = self.request.body.get("stream_options")
        return isinstance(options, dict) and bool(options.get("include_usage"))

    def head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self.request.number:04d}",
            "object": kind,
            "created": self.created,
            "model": self.request.model,
        }

    def event(self, delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        body = {**self.head("chat.completion.chunk"), "choices": [choice]}
        return sse({**body, "usage": None} if self._usage_asked else body)

    def ending(self, finish_reason: str) -> Iterator[Chunk]:
        yield Chunk(self.event({}, finish_reason))
        if self._usage_asked:
            body = {**self.head("chat.completion.chunk"), "choices": [], "usage": self.usage()}
            yield Chunk(sse(body))
        yield Chunk(DONE, last=True)

    def usage(self) -> dict[str, Any]:
        # Not OpenAI's tokenizer: a count that is stable and grows with the text.
        said = "".join(self.words) + "".join(call.arguments for call in self.calls)
        asked = json.dumps(self.request.body.get("messages"))
        prompt, answer = len(asked) // 4 + 1, len(said) // 4 + 1
        return {
            "prompt_tokens": prompt,
            "completion_tokens": answer,
            "total_tokens": prompt + answer,
        }


def sse(body: Mapping[str, Any]) -> bytes:
    """Encode one server-sent event.

    Args:
        body: The event's data.
    """
    return f"data: {json.dumps(body, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()


def error_body(
    status: int,
    message: str | None = None,
    *,
    type: str | None = None,
    code: str | None = None,
    param: str | None = None,
) -> dict[str, Any]:
    """Build OpenAI's error body.

    Args:
        status: The HTTP status, which decides what is not given.
        message: The error message.
        type: The error type.
        code: The error code.
        param: The part of the request that is at fault.
    """
    kind = status if status in _USUAL_ERRORS else (500 if status >= 500 else 400)
    usual_message, usual_type, usual_code = _USUAL_ERRORS[kind]
    return {
        "error": {
            "message": usual_message if message is None else message,
            "type": usual_type if type is None else type,
            "param": param,
            "code": usual_code if code is None and message is None else code,
        }
    }


def stream(
    reply: Reply, request: ChatRequest, *, created: int, pace: float, call_ids: Iterator[str]
) -> Iterator[Step]:
    """Encode a reply as a streamed response, step by step.

    Args:
        reply: The reply, resolved for the request.
        request: The request.
        created: The time of the response, in seconds since the epoch.
        pace: Seconds between chunks where a part does not say.
        call_ids: Where ids for calls come from.

    Yields:
        What to send and when to wait, in order. Nothing follows a stall or a disconnection.
    """
    envelope = _Envelope(request, created)
    finish: str | None = None
    opened = False
    for part in _shortened(reply.parts):
        if isinstance(part, (Delay, Stall, Disconnect, HttpError)):
            yield part
            if not isinstance(part, Delay):
                return
            continue
        if isinstance(part, Finish):
            finish = part.reason
            continue
        if not opened:
            opened = True
            yield Chunk(envelope.event({"role": "assistant", "content": "", "refusal": None}))
        if isinstance(part, Say):
            yield from _said(part, envelope, pace)
        elif isinstance(part, Call):
            yield from _called(part, envelope, pace, call_ids)
        else:
            yield Chunk(f"data: {part.data}\n\n".encode())
    if not opened:
        yield Chunk(envelope.event({"role": "assistant", "content": "", "refusal": None}))
    yield from envelope.ending(finish or ("tool_calls" if envelope.calls else "stop"))


def completion(
    reply: Reply, request: ChatRequest, *, created: int, pace: float, call_ids: Iterator[str]
) -> Iterator[Step]:
    """Encode a reply as one body, which takes as long as the stream would.

    Args:
        reply: The reply, resolved for the request.
        request: The request.
        created: The time of the response, in seconds since the epoch.
        pace: Seconds between chunks where a part does not say.
        call_ids: Where ids for calls come from.

    Yields:
        The waits, then the body.
    """
    envelope = _Envelope(request, created)
    finish: str | None = None
    for part in _shortened(reply.parts):
        if isinstance(part, Finish):
            finish = part.reason
        elif isinstance(part, Malformed):
            yield Chunk(part.data.encode(), last=True)
            return
        elif isinstance(part, Say):
            yield from (s for s in _said(part, envelope, pace) if isinstance(s, Delay))
        elif isinstance(part, Call):
            called = _called(part, envelope, pace, call_ids)
            yield from (s for s in called if isinstance(s, Delay))
        else:
            yield part
            if not isinstance(part, Delay):
                return
    text = "".join(envelope.words)
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    if envelope.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in envelope.calls
        ]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": finish or ("tool_calls" if envelope.calls else "stop"),
    }
    body = {
        **envelope.head("chat.completion"),
        "choices": [choice],
        "usage": envelope.usage(),
    }
    yield Chunk(
        json.dumps(body, ensure_ascii=False).encode(),
        text=text,
        calls=tuple(envelope.calls),
        last=True,
    )


_Uncut: TypeAlias = Say | Call | Delay | Malformed | Stall | Disconnect | HttpError | Finish


def _shortened(parts: Sequence[_Uncut | Truncate]) -> Iterator[_Uncut]:
    """Apply the first truncation: cut the part before it, drop what follows."""
    parts = list(parts)
    cut = next((i for i, part in enumerate(parts) if isinstance(part, Truncate)), None)
    for i, part in enumerate(parts):
        if isinstance(part, Truncate):
            yield Finish("length")
            return
        following = parts[cut] if cut is not None and i == cut - 1 else None
        if isinstance(following, Truncate):
            if isinstance(part, Say):
                text = str(part.text)
                part = Say(text[: int(len(text) * following.keep)], part.pace, part.words_per_chunk)
            elif isinstance(part, Call):
                text = str(part.arguments)
                kept = text[: int(len(text) * following.keep)]
                part = Call(part.name, kept, part.id, part.pace, part.characters_per_chunk)
        yield part


def _said(part: Say, envelope: _Envelope, pace: float) -> Iterator[Step]:
    words = re.findall(r"\s*\S+|\s+$", str(part.text))
    step = max(1, part.words_per_chunk)
    for start in range(0, len(words), step):
        if envelope.words or envelope.calls:
            yield Delay(pace if part.pace is None else part.pace)
        text = "".join(words[start : start + step])
        envelope.words.append(text)
        yield Chunk(envelope.event({"content": text}), text=text)


def _called(
    part: Call, envelope: _Envelope, pace: float, call_ids: Iterator[str]
) -> Iterator[Step]:
    index, wait = len(envelope.calls), Delay(pace if part.pace is None else part.pace)
    if envelope.words or envelope.calls:
        yield wait
    call = SentCall(next(call_ids) if part.id is None else part.id, part.name)
    arguments = str(part.arguments)
    envelope.calls.append(SentCall(call.id, call.name, arguments))
    opening = {
        "index": index,
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": ""},
    }
    yield Chunk(envelope.event({"tool_calls": [opening]}), calls=(call,))
    step = max(1, part.characters_per_chunk)
    for start in range(0, len(arguments), step):
        yield wait
        piece = arguments[start : start + step]
        delta = {"index": index, "function": {"arguments": piece}}
        yield Chunk(
            envelope.event({"tool_calls": [delta]}), calls=(SentCall(call.id, call.name, piece),)
        )
