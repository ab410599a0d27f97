# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""HTTP as the scripted server sees it: what a front hands over, and what it gets back."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from pipecat_turn_acid.testing.wire import error_body

__all__ = [
    "Body",
    "ConnectionDroppedError",
    "Handler",
    "HttpRequest",
    "HttpResponse",
    "failure",
    "headers_for",
    "json_response",
]


class ConnectionDroppedError(Exception):
    """The server drops the connection; a front raises what its client would see."""


class Body(Protocol):
    """The bytes of a response, which arrive over time."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Iterate over the pieces as they are sent."""
        ...

    def aclose(self) -> Coroutine[Any, Any, None]:
        """Take notice that the client has gone. Harmless at the end."""
        ...


@dataclass(frozen=True)
class HttpRequest:
    """A request as either front hands it over.

    Parameters:
        method: The method, in capitals.
        path: The path, without a query.
        headers: The headers, with lower-case names.
        body: The body.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class HttpResponse:
    """A response as a handler hands it back.

    Parameters:
        status: The status.
        headers: The headers.
        body: The body; bytes, or something to iterate over while it is sent.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes | Body


Handler: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]


def headers_for(content_type: str, number: int | None = None) -> dict[str, str]:
    """Build the headers of a response.

    Args:
        content_type: The type of its body.
        number: The number of the chat completion request that it answers.
    """
    headers = {"content-type": content_type}
    if number is not None:
        headers["x-request-id"] = f"req_{number:04d}"
    return headers


def json_response(status: int, body: Mapping[str, Any], **headers: str) -> HttpResponse:
    """Build a response with a JSON body.

    Args:
        status: The status.
        body: The body.
        **headers: Further headers, with underscores for hyphens.
    """
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpResponse(status, headers_for("application/json") | named, json.dumps(body).encode())


def failure(
    status: int,
    message: str | None,
    *,
    type: str | None = None,
    code: str | None = None,
    param: str | None = None,
    retry_after: float | None = 1.0,
) -> HttpResponse:
    """Build an error as OpenAI sends it.

    Args:
        status: The status.
        message: The message; None for the usual one.
        type: The error type; None for the usual one.
        code: The error code.
        param: The part of the request that is at fault.
        retry_after: Seconds after which the client may try again, None if it must not.
    """
    body = error_body(status, message, type=type, code=code, param=param)
    if retry_after is None:
        return json_response(status, body, x_should_retry="false")
    return json_response(status, body, retry_after_ms=str(round(retry_after * 1000)))
