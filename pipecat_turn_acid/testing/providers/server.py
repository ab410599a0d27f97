# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A scripted server that speaks a provider's dialect."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from pipecat_turn_acid.testing.checks import Finding, Rule
from pipecat_turn_acid.testing.http import HttpRequest, HttpResponse, json_response
from pipecat_turn_acid.testing.script import (
    Answerer,
    Call,
    ChatRequest,
    Delay,
    Disconnect,
    HttpError,
    Malformed,
    Reply,
    Say,
    Stall,
    Truncate,
)
from pipecat_turn_acid.testing.server import RequestRecord, ScriptedChatServer
from pipecat_turn_acid.testing.wire import SentCall, Step

__all__ = ["Dialect", "Part", "Piece", "ScriptedProviderServer", "fault", "pieces"]

Part = Mapping[str, Any]


class Dialect(Protocol):
    """One provider's protocol, without any I/O."""

    def serves(self, method: str, path: str) -> bool:
        """Whether a request asks for an answer of the model."""
        ...

    def read(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Read a request as the body of a chat completion request."""
        ...

    def check(self, body: Mapping[str, Any]) -> list[Finding]:
        """Find what the provider would refuse a request for."""
        ...

    def refusal(self, message: str) -> Mapping[str, Any]:
        """Build the body of a status 400."""
        ...

    def stream(self, pieces: "Iterator[Piece | Step]", number: int) -> Iterator[Step]:
        """Encode an answer."""
        ...


class Piece:
    """A piece of an answer: some words, the beginning of a call, or some of its arguments.

    Attributes:
        text: The words.
        call: The call, with the arguments of this piece.
        begins: Whether the words or the call begin with it.
        ends: Whether they end with it.
        whole: The whole text or the whole call.
    """

    def __init__(
        self,
        *,
        text: str = "",
        call: SentCall | None = None,
        begins: bool = False,
        ends: bool = False,
        whole: "str | SentCall" = "",
    ):
        """Hold a piece."""
        self.text = text
        self.call = call
        self.begins = begins
        self.ends = ends
        self.whole = whole


def pieces(reply: Reply, *, pace: float, call_ids: Iterator[str]) -> Iterator[Piece | Step]:
    """Cut a reply into pieces, with the waits between them.

    Args:
        reply: The reply, resolved for its request.
        pace: Seconds between pieces where a part does not say.
        call_ids: Where ids for calls come from.
    """
    first = True
    for part in reply.parts:
        if isinstance(part, (Delay, Stall, Disconnect, HttpError)):
            yield part
        elif isinstance(part, Say):
            text = str(part.text)
            words = re.findall(r"\s*\S+|\s+$", text)
            step = max(1, part.words_per_chunk)
            cuts = ["".join(words[i : i + step]) for i in range(0, len(words), step)]
            for number, cut in enumerate(cuts):
                if not first:
                    yield Delay(pace if part.pace is None else part.pace)
                first = False
                yield Piece(text=cut, begins=not number, ends=number == len(cuts) - 1, whole=text)
        elif isinstance(part, Call):
            wait = Delay(pace if part.pace is None else part.pace)
            arguments = str(part.arguments)
            whole = SentCall(part.id or next(call_ids), part.name, arguments)
            if not first:
                yield wait
            first = False
            opening = SentCall(whole.id, whole.name)
            yield Piece(call=opening, begins=True, ends=not arguments, whole=whole)
            step = max(1, part.characters_per_chunk)
            for start in range(0, len(arguments), step):
                yield wait
                cut = SentCall(whole.id, whole.name, arguments[start : start + step])
                yield Piece(call=cut, ends=start + step >= len(arguments), whole=whole)
        else:
            assert not isinstance(part, (Malformed, Truncate)), "not in this protocol"


def fault(
    message: str, *, rule: Rule = Rule.MALFORMED, index: int | None = None, call: str | None = None
) -> Finding:
    """Build a finding in a provider's words.

    Args:
        message: The words.
        rule: What it is about.
        index: Which message.
        call: Which call.
    """
    return Finding(rule, index, call, message, "Send what the provider's documentation asks for.")


class ScriptedProviderServer(ScriptedChatServer):
    """A scripted server that answers in a dialect, and logs requests as chat completions."""

    def __init__(self, script: Answerer | Sequence[Reply], dialect: Dialect, **options: Any):
        """Create a server.

        Args:
            script: As in ``ScriptedChatServer``.
            dialect: What it speaks.
            **options: As in ``ScriptedChatServer``.
        """
        super().__init__(script, **options)
        self._dialect = dialect
        self.bodies: list[Mapping[str, Any]] = []
        """The requests as they came."""

    async def dispatch(self, request: HttpRequest) -> HttpResponse:
        """Answer a request in the dialect, or as a plain scripted server.

        Args:
            request: The request.
        """
        if not self._dialect.serves(request.method, request.path):
            return await super().dispatch(request)
        body = json.loads(request.body)
        self.bodies.append(body)
        read = {"stream": True, "model": "scripted", **self._dialect.read(body)}
        self._found = self._dialect.check(body)
        return await self._chat_completions(
            HttpRequest("POST", "/v1/chat/completions", request.headers, json.dumps(read).encode())
        )

    def _log(self, body: dict[str, Any]) -> RequestRecord:
        record = super()._log(body)
        record.findings = tuple(self._found)
        return record

    def refusal(self, fault: Finding) -> HttpResponse:
        """Refuse a request in the provider's words.

        Args:
            fault: What it is refused for.
        """
        return json_response(400, self._dialect.refusal(fault.message), x_should_retry="false")

    def encode(self, reply: Reply, chat: ChatRequest, record: RequestRecord) -> Iterator[Step]:
        """Encode a reply in the dialect.

        Args:
            reply: The reply, resolved for the request.
            chat: The request.
            record: Its record.
        """
        cut = pieces(reply, pace=self._pace, call_ids=self._call_ids)
        return self._dialect.stream(_until_the_end(cut), record.number)


def _until_the_end(cut: Iterator[Piece | Step]) -> Iterator[Piece | Step]:
    """Stop behind what ends an answer early."""
    for piece in cut:
        yield piece
        if isinstance(piece, (Stall, Disconnect, HttpError)):
            return
