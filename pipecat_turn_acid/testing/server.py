# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""An OpenAI-compatible chat completion server that follows a script and keeps a log.

It answers in one of two ways, with the same engine behind both. Over TCP, for any client::

    async with ScriptedChatServer(script).serve() as base_url:
        service = OpenAILLMService(api_key="scripted", base_url=base_url)

And in process, for virtual time: the ``openai`` client runs as it is, down to its HTTP client,
whose transport hands the request to the server in the same event loop. No socket, no thread, so
the same run takes the same ticks each time::

    client = ScriptedChatServer(script).client()

Unlike any public mock it is strict: a history that OpenAI would refuse is answered with OpenAI's
400.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from loguru import logger

from pipecat_turn_acid.testing.checks import Finding, check_request, errors
from pipecat_turn_acid.testing.http import (
    ConnectionDroppedError,
    Handler,
    HttpRequest,
    HttpResponse,
    failure,
    headers_for,
    json_response,
)
from pipecat_turn_acid.testing.script import (
    Answerer,
    ChatRequest,
    Delay,
    Disconnect,
    HttpError,
    Reply,
    Stall,
)
from pipecat_turn_acid.testing.transport import http_client, settle_platform
from pipecat_turn_acid.testing.wire import (
    Chunk,
    SentCall,
    Step,
    completion,
    error_body,
    sse,
    stream,
)

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["Outcome", "RequestRecord", "ScriptedChatServer"]

ServiceT = TypeVar("ServiceT")

IN_PROCESS_URL: Final = "http://scripted.invalid/v1"
"""Where the in-process client believes the server to be; the name can never be resolved."""

_CREATED: Final = 1_767_225_600


class Outcome(Enum):
    """What became of a request.

    Parameters:
        OPEN: It is being answered.
        FINISHED: The whole answer was sent.
        REFUSED: The check of the request failed, and it was answered 400.
        FAILED: The script asked for an error.
        BROKEN: The script itself failed, see :attr:`RequestRecord.error`.
        DISCONNECTED: The client left before the end.
        DROPPED: The server dropped the connection, as the script asked.
    """

    OPEN = "open"
    FINISHED = "finished"
    REFUSED = "refused"
    FAILED = "failed"
    BROKEN = "broken"
    DISCONNECTED = "disconnected"
    DROPPED = "dropped"


@dataclass
class RequestRecord:
    """One chat completion request, and what became of it.

    Parameters:
        number: Its position on the server, from 1.
        body: The request body as it was sent.
        received_at: When it arrived, in seconds of the server's clock.
        findings: Everything OpenAI would have refused it for.
        status: The HTTP status of the answer; 0 before it is known.
        outcome: What became of it.
        sent_at: When each piece of the answer was handed over, in seconds of the server's clock.
        text: The words that were sent.
        calls: The calls that were sent, as far as they were sent.
        finished_at: When the outcome was known; None before.
        error: What went wrong in the script.
    """

    number: int
    body: Mapping[str, Any]
    received_at: float
    findings: Sequence[Finding] = ()
    status: int = 0
    outcome: Outcome = Outcome.OPEN
    sent_at: list[float] = field(default_factory=list[float])
    text: str = ""
    calls: list[SentCall] = field(default_factory=list[SentCall])
    finished_at: float | None = None
    error: Exception | None = None
    _settled: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    @property
    def messages(self) -> list[Any]:
        """The history that the request showed."""
        messages = self.body.get("messages")
        return list(messages) if isinstance(messages, list) else []

    @property
    def chunks(self) -> int:
        """How many pieces of the answer were handed over."""
        return len(self.sent_at)

    async def settled(self) -> "RequestRecord":
        """Wait until the outcome is known.

        Returns:
            The record.
        """
        await self._settled.wait()
        return self

    def sent(self, chunk: Chunk, at: float) -> None:
        """Note a piece of the answer.

        Args:
            chunk: The piece.
            at: When, in seconds of the server's clock.
        """
        self.sent_at.append(at)
        self.text += chunk.text
        for piece in chunk.calls:
            if self.calls and self.calls[-1].id == piece.id and piece.arguments:
                so_far = self.calls[-1]
                self.calls[-1] = replace(so_far, arguments=so_far.arguments + piece.arguments)
            else:
                self.calls.append(piece)

    def close(self, outcome: Outcome, at: float) -> None:
        """Note the outcome. Only the first one counts.

        Args:
            outcome: What became of the request.
            at: When, in seconds of the server's clock.
        """
        if self.outcome is Outcome.OPEN:
            self.outcome, self.finished_at = outcome, at
            self._settled.set()


class ScriptedChatServer:
    """The server. It belongs to one event loop, needs no start, and logs every request."""

    def __init__(
        self,
        script: Answerer | Sequence[Reply],
        *,
        strict: bool = True,
        latency: float = 0.2,
        pace: float = 0.02,
        models: Sequence[str] = ("gpt-4.1",),
        clock: Callable[[], float] | None = None,
    ):
        """Create a server.

        Args:
            script: What to answer: a :class:`Script`, or any function of a :class:`ChatRequest`,
                or replies to be given one after the other.
            strict: Whether a request that OpenAI would refuse is refused. It is checked and
                logged in any case.
            latency: Seconds before a response begins.
            pace: Seconds between the pieces of a response, where the script does not say.
            models: The models that ``/v1/models`` lists.
            clock: What the log's times are read from; None for the running loop's clock.
        """
        self._answer: Answerer = script if callable(script) else _one_by_one(script)
        self._strict = strict
        self._latency = latency
        self._pace = pace
        self._models = tuple(models)
        self._clock = clock
        self._call_ids = (f"call_{number:04d}" for number in itertools.count(1))
        self._sending: set[asyncio.Task[None]] = set()
        self._arrivals: list[tuple[int, asyncio.Future[RequestRecord]]] = []
        self._routes: dict[tuple[str, str], Handler] = {
            ("POST", "/v1/chat/completions"): self._chat_completions,
            ("GET", "/v1/models"): self._list_models,
        }
        self.requests: list[RequestRecord] = []

    # --- observing ---

    async def received(self, number: int) -> RequestRecord:
        """Wait until a chat completion request has arrived.

        Args:
            number: Its position on the server, from 1.

        Returns:
            Its record, at the moment of its arrival or any time later.
        """
        if number <= len(self.requests):
            return self.requests[number - 1]
        arrival: asyncio.Future[RequestRecord] = asyncio.get_running_loop().create_future()
        self._arrivals.append((number, arrival))
        return await arrival

    def raise_for_script(self) -> None:
        """Raise what went wrong in the script, if anything did.

        Raises:
            Exception: The first error of a script, which its client saw as a status 500.
        """
        for record in self.requests:
            if record.error is not None:
                raise record.error

    async def aclose(self) -> None:
        """Break off every in-process response that is still being sent. The log stays."""
        for task in tuple(self._sending):
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)

    # --- in process ---

    def http_client(self, family: str | None = None, **options: Any) -> Any:
        """Create an HTTP client that reaches this server, and only this server, without sockets.

        Args:
            family: The HTTP library, ``httpx`` or ``httpx2``; the one that the installed
                ``openai`` builds on if None.
            **options: Passed to the client.

        Returns:
            An ``AsyncClient``.
        """
        return http_client(self.dispatch, self._sending, family=family, **options)

    def client(self, **options: Any) -> "AsyncOpenAI":
        """Create an ``openai`` client that reaches this server without sockets.

        Args:
            **options: Passed to ``openai.AsyncOpenAI``, for instance ``max_retries``.

        Returns:
            The client. It starts no thread.
        """
        from openai import AsyncOpenAI

        options.setdefault("api_key", "scripted")
        options.setdefault("base_url", IN_PROCESS_URL)
        options.setdefault("http_client", self.http_client())
        return settle_platform(AsyncOpenAI(**options))

    def service(self, service_class: type[ServiceT], **kwargs: Any) -> ServiceT:
        """Create a Pipecat LLM service that reaches this server without sockets.

        The service is as it is, except that it takes its client from here. That also spares it
        the TLS set-up, which costs more than a simulated conversation.

        Args:
            service_class: ``OpenAILLMService``, or a class that extends it.
            **kwargs: Passed to the service.

        Returns:
            The service.
        """

        def create_client(_: Any, **options: Any) -> Any:
            return self.client()

        members = {"create_client": create_client, "__module__": service_class.__module__}
        scripted: Any = type(service_class.__name__, (service_class,), members)
        return scripted(**{"api_key": "scripted", **kwargs})

    # --- over TCP ---

    @asynccontextmanager
    async def serve(self, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
        """Serve over TCP for the duration of the block.

        Args:
            host: The address to listen on.
            port: The port to listen on; 0 for any that is free.

        Yields:
            The base URL for an OpenAI client.

        Raises:
            OSError: The port is taken. The message names it.
        """
        from aiohttp import web

        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._serve_aiohttp)
        # A handler is cancelled when its client leaves, and hardly waited for at the end. aiohttp
        # takes a timeout of zero for none at all.
        runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=0.05
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
            port = runner.addresses[0][1]
            yield f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"
        finally:
            await runner.cleanup()

    async def _serve_aiohttp(self, request: Any) -> Any:
        from aiohttp import web

        def drop() -> Any:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()

        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            answer = await self.dispatch(
                HttpRequest(request.method, request.path, headers, await request.read())
            )
        except ConnectionDroppedError:
            return drop()
        if isinstance(answer.body, bytes):
            return web.Response(status=answer.status, headers=answer.headers, body=answer.body)
        try:
            response = web.StreamResponse(status=answer.status, headers=answer.headers)
            response.enable_chunked_encoding()
            await response.prepare(request)
            async for data in answer.body:
                await response.write(data)
            await response.write_eof()
            return response
        except ConnectionDroppedError:
            return drop()
        finally:
            await answer.body.aclose()

    # --- the engine ---

    def route(self, method: str, path: str, handler: Handler) -> None:
        """Serve another path, on both fronts.

        Args:
            method: The method, in capitals.
            path: The path with its ``/v1``, for instance ``/v1/audio/speech``.
            handler: Called with each request. It may raise :class:`ConnectionDroppedError`.
        """
        self._routes[method, path] = handler

    async def dispatch(self, request: HttpRequest) -> HttpResponse:
        """Answer a request. This is what a front calls.

        Args:
            request: The request.

        Returns:
            The response. If its body is not bytes, the front closes it in any case.

        Raises:
            ConnectionDroppedError: The script drops the connection before it answers.
        """
        handler = self._routes.get((request.method, request.path.rstrip("/")))
        if handler is None:
            return failure(404, f"Invalid URL ({request.method} {request.path})")
        return await handler(request)

    async def _list_models(self, request: HttpRequest) -> HttpResponse:
        models = [
            {"id": name, "object": "model", "created": _CREATED, "owned_by": "scripted"}
            for name in self._models
        ]
        return json_response(200, {"object": "list", "data": models})

    async def _chat_completions(self, request: HttpRequest) -> HttpResponse:
        try:
            body = json.loads(request.body)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            return failure(
                400,
                "We could not parse the JSON body of your request. (HINT: This likely means you "
                "aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, "
                "but what was sent was not valid JSON. If you have trouble figuring out how to "
                "fix this, please contact us through our help center at help.openai.com.)",
            )
        record = self._log(body)
        try:
            response = await self._respond(record)
        except ConnectionDroppedError:
            record.close(Outcome.DROPPED, self._now())
            raise
        except asyncio.CancelledError:
            record.close(Outcome.DISCONNECTED, self._now())
            raise
        record.status = response.status
        return response

    def _log(self, body: dict[str, Any]) -> RequestRecord:
        record = RequestRecord(
            number=len(self.requests) + 1,
            body=body,
            received_at=self._now(),
            findings=tuple(errors(check_request(body))),
        )
        self.requests.append(record)
        waiting = self._arrivals
        self._arrivals = [(number, a) for number, a in waiting if number != record.number]
        for number, arrival in waiting:
            if number == record.number and not arrival.done():
                arrival.set_result(record)
        return record

    async def _respond(self, record: RequestRecord) -> HttpResponse:
        if record.findings and self._strict:
            record.close(Outcome.REFUSED, self._now())
            return self.refusal(record.findings[0])
        chat = ChatRequest(record.body, record.number)
        try:
            reply = self._answer(chat)
            if not isinstance(reply, Reply):
                reply = await reply
            reply = reply.resolved(chat)
        except Exception as error:
            logger.error(f"The script failed on request {record.number}: {error!r}")
            record.error = error
            record.close(Outcome.BROKEN, self._now())
            return failure(500, f"The script failed: {error!r}", retry_after=None)
        return await self._begin(record, self.encode(reply, chat, record), streamed=chat.stream)

    def refusal(self, fault: Finding) -> HttpResponse:
        """Answer a request that the provider would refuse. Overridden for other providers.

        Args:
            fault: What it would refuse it for.
        """
        return failure(400, fault.message, code=fault.code, param=fault.param)

    def encode(self, reply: Reply, chat: ChatRequest, record: RequestRecord) -> Iterator[Step]:
        """Encode a reply in the provider's protocol. Overridden for other providers.

        Args:
            reply: The reply, resolved for the request.
            chat: The request.
            record: Its record.
        """
        encode = stream if chat.stream else completion
        created = _CREATED + int(record.received_at)
        return encode(reply, chat, created=created, pace=self._pace, call_ids=self._call_ids)

    async def _begin(
        self, record: RequestRecord, steps: Iterator[Step], *, streamed: bool
    ) -> HttpResponse:
        """Take the steps before the first byte; they decide what kind of response it is."""
        await _sleep(self._latency)
        for step in steps:
            if isinstance(step, Chunk):
                if streamed:
                    content_type = "text/event-stream; charset=utf-8"
                    body = _ChatBody(record, itertools.chain([step], steps), self._now)
                    return HttpResponse(200, headers_for(content_type, record.number), body)
                record.sent(step, self._now())
                record.close(Outcome.FINISHED, self._now())
                return HttpResponse(200, headers_for("application/json", record.number), step.data)
            if isinstance(step, HttpError):
                record.close(Outcome.FAILED, self._now())
                return failure(
                    step.status,
                    step.message,
                    type=step.type,
                    code=step.code,
                    retry_after=step.retry_after,
                )
            await _wait(step)
        raise AssertionError("a reply without an end")

    def _now(self) -> float:
        return asyncio.get_running_loop().time() if self._clock is None else self._clock()


class _ChatBody:
    """The body of a streamed answer, which knows how far it got."""

    def __init__(self, record: RequestRecord, steps: Iterator[Step], now: Callable[[], float]):
        self._record = record
        self._steps = steps
        self._now = now

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._record.outcome is not Outcome.OPEN:
            raise StopAsyncIteration
        try:
            for step in self._steps:
                if isinstance(step, Chunk):
                    self._record.sent(step, self._now())
                    if step.last:
                        self._record.close(Outcome.FINISHED, self._now())
                    return step.data
                if isinstance(step, HttpError):
                    self._record.close(Outcome.FAILED, self._now())
                    return sse(
                        error_body(step.status, step.message, type=step.type, code=step.code)
                    )
                await _wait(step)
        except ConnectionDroppedError:
            self._record.close(Outcome.DROPPED, self._now())
            raise
        except asyncio.CancelledError:
            await self.aclose()
            raise
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._record.close(Outcome.DISCONNECTED, self._now())


def _one_by_one(replies: Sequence[Reply]) -> Answerer:
    def answer(request: ChatRequest) -> Reply:
        if request.number > len(replies):
            raise LookupError(f"request {request.number} comes after all {len(replies)} replies")
        return replies[request.number - 1]

    return answer


async def _sleep(seconds: float) -> None:
    if seconds > 0:
        await asyncio.sleep(seconds)


async def _wait(step: Delay | Stall | Disconnect) -> None:
    if isinstance(step, Delay):
        await _sleep(step.seconds)
    elif isinstance(step, Stall):
        await asyncio.get_running_loop().create_future()
    else:
        raise ConnectionDroppedError
