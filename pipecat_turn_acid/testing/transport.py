# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The way into the scripted server without a socket, for the ``openai`` client.

The client runs as it is, down to its HTTP client, whose transport hands each request to the server
in the same event loop. Timeouts are the client's own, and a client that leaves is noticed.
"""

import asyncio
import importlib
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pipecat_turn_acid.testing.http import Body, ConnectionDroppedError, Handler, HttpRequest

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["http_client", "settle_platform"]


def http_client(
    dispatch: Handler,
    sending: set[asyncio.Task[None]],
    *,
    family: str | None = None,
    **options: Any,
) -> Any:
    """Create an HTTP client whose every request goes to one handler.

    Args:
        dispatch: The handler.
        sending: Where the tasks stand that are sending a response, while they do.
        family: The HTTP library; the one that the installed ``openai`` builds on if None.
        **options: Passed to the client.

    Returns:
        An ``AsyncClient``.
    """
    library: Any = importlib.import_module(family) if family else _http_family()
    return library.AsyncClient(transport=_transport_class(library)(dispatch, sending), **options)


def settle_platform(client: "AsyncOpenAI") -> "AsyncOpenAI":
    """Keep an ``openai`` client from asking for its platform on a thread.

    It does so at its first request, and a thread finishes when it likes.

    Args:
        client: The client.

    Returns:
        The same client.
    """
    client._platform = "Unknown"  # pyright: ignore[reportPrivateUsage]
    return client


@cache
def _http_family() -> ModuleType:
    """The HTTP library whose client the installed ``openai`` extends."""
    from openai import DefaultAsyncHttpxClient

    for base in DefaultAsyncHttpxClient.__mro__:
        family = base.__module__.partition(".")[0]
        if family.startswith("httpx"):
            return importlib.import_module(family)
    raise RuntimeError("can't tell which HTTP library this version of openai builds on")


@cache
def _transport_class(family: Any) -> Any:
    """Build the in-process transport for one HTTP library."""

    class Stream(family.AsyncByteStream):
        """A response body that a task fills at the server's pace, as a socket is."""

        def __init__(self, body: Body, request: Any, sending: set[asyncio.Task[None]]):
            self._body = body
            self._request = request
            self._pieces: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
            self._filling = asyncio.create_task(self._fill(), name="scripted-chat-server")
            sending.add(self._filling)
            self._filling.add_done_callback(sending.discard)
            self._filling.add_done_callback(self._filled)

        async def _fill(self) -> None:
            async for data in self._body:
                self._pieces.put_nowait(data)

        def _filled(self, task: asyncio.Task[None]) -> None:
            gone = ConnectionDroppedError() if task.cancelled() else task.exception()
            self._pieces.put_nowait(gone if isinstance(gone, Exception) else None)

        # Not a generator: one that is left in the middle is closed whenever it is collected.
        def __aiter__(self) -> AsyncIterator[bytes]:
            return self

        async def __anext__(self) -> bytes:
            try:
                async with asyncio.timeout(_read_timeout(self._request)):
                    piece = await self._pieces.get()
            except TimeoutError as error:
                raise family.ReadTimeout("", request=self._request) from error
            if isinstance(piece, bytes):
                return piece
            self._pieces.put_nowait(piece)  # an end stays an end
            if piece is None:
                raise StopAsyncIteration
            if isinstance(piece, ConnectionDroppedError):
                raise family.RemoteProtocolError(
                    "peer closed connection without sending complete message body "
                    "(incomplete chunked read)",
                    request=self._request,
                )
            raise piece

        async def aclose(self) -> None:
            self._filling.cancel()
            with suppress(RuntimeError):  # a generator that is running ends by the cancel
                await self._body.aclose()

    class Transport(family.AsyncBaseTransport):
        """Hands requests to the server in the same event loop."""

        def __init__(self, dispatch: Handler, sending: set[asyncio.Task[None]]):
            self._dispatch = dispatch
            self._sending = sending

        async def handle_async_request(self, request: Any) -> Any:
            headers = {name.lower(): value for name, value in request.headers.items()}
            sent = HttpRequest(request.method, request.url.path, headers, await request.aread())
            try:
                async with asyncio.timeout(_read_timeout(request)):
                    answer = await self._dispatch(sent)
            except TimeoutError as error:
                raise family.ReadTimeout("", request=request) from error
            except ConnectionDroppedError as error:
                raise family.RemoteProtocolError(
                    "Server disconnected without sending a response.", request=request
                ) from error
            if isinstance(answer.body, bytes):
                return family.Response(
                    answer.status, headers=answer.headers, content=answer.body, request=request
                )
            return family.Response(
                answer.status,
                headers=answer.headers,
                stream=Stream(answer.body, request, self._sending),
                request=request,
            )

    return Transport


def _read_timeout(request: Any) -> float | None:
    timeout = request.extensions.get("timeout") or {}
    return timeout.get("read")
