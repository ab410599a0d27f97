# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The language in which a scripted model is told what to answer.

A :class:`Script` is a list of rules. Each request is answered by the first rule that fits it::

    script = Script()
    script.on(user="4471").say("Let me check 4471 for you.").call(
        "get_order_status", {"order_id": "4471"}
    )
    script.on(after_tool="get_order_status").say(
        lambda request: f"Your order is {request.result('get_order_status')['status']}."
    )

Rules look at the history that the request shows, as a model does, and at nothing else. So a
damaged history gets the answer that a model would give it, not the one the test hoped for.
"""

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, Final, Self, TypeAlias, cast

__all__ = [
    "ANY_TOOL",
    "Answerer",
    "Call",
    "ChatRequest",
    "Delay",
    "Disconnect",
    "Finish",
    "HttpError",
    "Malformed",
    "Part",
    "Reply",
    "ReplyRule",
    "Say",
    "Script",
    "Stall",
    "ToolAnswer",
    "ToolState",
    "Truncate",
    "UnscriptedRequestError",
]


class UnscriptedRequestError(Exception):
    """No rule of the script fits a request."""


# --- the request -------------------------------------------------------------------------------


class ToolState(Enum):
    """What the history says about a call.

    Parameters:
        ANSWERED: There is a result.
        IN_PROGRESS: There is Pipecat's placeholder for a call that is running.
        CANCELLED: There is a note that the call was cancelled.
        RUNNING: The call outlives the turn, and its result is announced for later.
        MISSING: There is nothing.
    """

    ANSWERED = "answered"
    IN_PROGRESS = "in progress"
    CANCELLED = "cancelled"
    RUNNING = "running"
    MISSING = "missing"


@dataclass(frozen=True)
class ToolAnswer:
    """One call in the history, with what became of it.

    Parameters:
        tool_call_id: The id of the call.
        name: The function.
        arguments: The arguments as JSON text.
        content: The content of the result, or None if there is none.
        state: What the history says about the call.
        called_at: Position of the message that made the call.
        answered_at: Position of the message that answers it, -1 if there is none.
    """

    tool_call_id: str
    name: str
    arguments: str
    content: str | None
    state: ToolState
    called_at: int
    answered_at: int = -1

    @property
    def value(self) -> Any:
        """The result, decoded if it is JSON; None if there is none."""
        if self.content is None:
            return None
        try:
            return json.loads(self.content)
        except ValueError:
            return self.content


@dataclass(frozen=True)
class ChatRequest:
    """A chat completion request, read as a model would read it.

    Parameters:
        body: The request body as it was sent.
        number: The position of the request on its server, from 1.
    """

    body: Mapping[str, Any]
    number: int = 1

    @cached_property
    def messages(self) -> list[dict[str, Any]]:
        """The history."""
        return _dicts(self.body.get("messages"))

    @property
    def model(self) -> str:
        """The model that is asked for."""
        return str(self.body.get("model") or "")

    @property
    def stream(self) -> bool:
        """Whether the answer is to be streamed."""
        return bool(self.body.get("stream"))

    @property
    def tools(self) -> list[str]:
        """The names of the functions that may be called."""
        functions = (tool.get("function") for tool in _dicts(self.body.get("tools")))
        return [str(f["name"]) for f in functions if isinstance(f, dict) and "name" in f]

    @cached_property
    def user(self) -> str:
        """What the user said last; empty if nothing."""
        position = self._last_user
        return _text(self.messages[position]) if position >= 0 else ""

    @cached_property
    def system(self) -> str:
        """All system and developer messages, joined by newlines."""
        return "\n".join(_text(m) for m in self.messages if m.get("role") in _INSTRUCTIONS)

    @cached_property
    def calls(self) -> tuple[ToolAnswer, ...]:
        """All calls in the history, in order."""
        return tuple(_read_calls(self.messages))

    @cached_property
    def recent(self) -> tuple[ToolAnswer, ...]:
        """The calls that were made, or answered late, since the user spoke last."""
        return tuple(
            c for c in self.calls if max(c.called_at, _news(self.messages, c)) > self._last_user
        )

    @cached_property
    def latest(self) -> frozenset[str]:
        """The ids of the calls that the model would react to: the last ones, or the last news."""
        if not self.recent:
            return frozenset()
        at = {c.tool_call_id: max(c.called_at, _news(self.messages, c)) for c in self.recent}
        last = max(at.values())
        return frozenset(tool_call_id for tool_call_id, position in at.items() if position == last)

    def answer(self, name: str) -> ToolAnswer:
        """Return the last call of a function.

        Args:
            name: The function.

        Raises:
            LookupError: The history holds no call of it.
        """
        for call in reversed(self.calls):
            if call.name == name:
                return call
        raise LookupError(f"the history holds no call of {name}")

    def result(self, name: str) -> Any:
        """Return the result of the last call of a function, decoded if it is JSON.

        Args:
            name: The function.

        Raises:
            LookupError: The history holds no call of it.
        """
        return self.answer(name).value

    @cached_property
    def _last_user(self) -> int:
        positions = [i for i, m in enumerate(self.messages) if m.get("role") == "user"]
        return positions[-1] if positions else -1


_PLACEHOLDERS: Final = {"IN_PROGRESS": ToolState.IN_PROGRESS, "CANCELLED": ToolState.CANCELLED}
_INSTRUCTIONS: Final = ("system", "developer")


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return " ".join(str(part["text"]) for part in _dicts(content) if "text" in part)
    return ""


def _dicts(value: object) -> list[dict[str, Any]]:
    # The server can be told to let a malformed history through.
    listed = cast(list[Any], value) if isinstance(value, list) else []
    return [entry for entry in listed if isinstance(entry, dict)]


def _async_payload(message: Mapping[str, Any]) -> dict[str, Any] | None:
    """Pipecat's notice about a tool that outlives the turn, if this message is one."""
    if message.get("role") not in ("tool", "developer"):
        return None
    if '"async_tool"' not in (text := _text(message)):
        return None
    try:
        payload = json.loads(text)
    except ValueError:
        return None
    if isinstance(payload, dict) and payload.get("type") == "async_tool":
        return cast(dict[str, Any], payload)
    return None


def _news(messages: Sequence[Mapping[str, Any]], call: ToolAnswer) -> int:
    """Position of a result that came as news, after the model had gone on; -1 if it did not."""
    if call.answered_at >= 0 and messages[call.answered_at].get("role") == "developer":
        return call.answered_at
    return -1


def _read_calls(messages: Sequence[Mapping[str, Any]]) -> list[ToolAnswer]:
    calls: list[ToolAnswer] = []
    latest: dict[str, int] = {}  # id -> the last call that was made with it
    for at, message in enumerate(messages):
        for call in _dicts(message.get("tool_calls")):
            function = call.get("function")
            function = cast(dict[str, Any], function) if isinstance(function, dict) else {}
            made = (str(call.get("id")), str(function.get("name")), str(function.get("arguments")))
            latest[made[0]] = len(calls)
            calls.append(ToolAnswer(*made, None, ToolState.MISSING, at))
        if (answer := _read_answer(message)) is not None:
            tool_call_id, state, content = answer
            if (index := latest.get(tool_call_id)) is not None:
                calls[index] = replace(calls[index], state=state, content=content, answered_at=at)
    return calls


def _read_answer(message: Mapping[str, Any]) -> tuple[str, ToolState, str | None] | None:
    """Which call a message answers, what it says of it, and the result."""
    payload = _async_payload(message)
    if payload is not None:
        tool_call_id, result = str(payload.get("tool_call_id")), payload.get("result")
        content = None if result is None else str(result)
        if payload.get("status") != "finished":
            return tool_call_id, ToolState.RUNNING, content
        cancelled = content is not None and content.startswith("CANCELLED")
        return tool_call_id, ToolState.CANCELLED if cancelled else ToolState.ANSWERED, content
    if message.get("role") != "tool":
        return None
    content = _text(message)
    state = _PLACEHOLDERS.get(content, ToolState.ANSWERED)
    return str(message.get("tool_call_id")), state, content


# --- the reply ---------------------------------------------------------------------------------

Text: TypeAlias = str | Callable[[ChatRequest], str]
Arguments: TypeAlias = str | Mapping[str, Any] | Callable[[ChatRequest], str | Mapping[str, Any]]


@dataclass(frozen=True)
class Say:
    """Words, streamed a few at a time.

    Parameters:
        text: The words, or a function of the request that returns them.
        pace: Seconds between chunks; None for the server's pace.
        words_per_chunk: How many words a chunk carries.
    """

    text: Text
    pace: float | None = None
    words_per_chunk: int = 1


@dataclass(frozen=True)
class Call:
    """A tool call, its arguments streamed in pieces.

    Parameters:
        name: The function.
        arguments: A mapping, or text that is sent as it is (it need not be JSON), or a function
            of the request that returns either.
        id: The id of the call; None for one that is unique on its server.
        pace: Seconds between chunks; None for the server's pace.
        characters_per_chunk: How much of the arguments a chunk carries.
    """

    name: str
    arguments: Arguments = field(default_factory=dict[str, Any])
    id: str | None = None
    pace: float | None = None
    characters_per_chunk: int = 12


@dataclass(frozen=True)
class Delay:
    """A pause. In front of everything else it delays the response itself.

    Parameters:
        seconds: How long.
    """

    seconds: float


@dataclass(frozen=True)
class Truncate:
    """Cut the part before it, and end the reply with finish reason ``length``.

    Parameters:
        keep: The share of its characters that is sent.
    """

    keep: float = 0.5


@dataclass(frozen=True)
class Malformed:
    """An event that is not what the protocol allows.

    Parameters:
        data: What is sent as the event's data.
    """

    data: str = '{"id": "chatcmpl-'


@dataclass(frozen=True)
class Stall:
    """Nothing more comes, and the connection stays open."""


@dataclass(frozen=True)
class Disconnect:
    """The server drops the connection."""


@dataclass(frozen=True)
class HttpError:
    """An error: as the response's status if nothing was sent yet, as an event otherwise.

    Parameters:
        status: The HTTP status.
        message: What OpenAI would say; None for its usual words for this status.
        type: OpenAI's error type; None for the usual one.
        code: OpenAI's error code; None for the usual one.
        retry_after: Seconds after which the client may try again. It is sent because without it
            the client waits for a random time. None tells the client not to try again.
    """

    status: int
    message: str | None = None
    type: str | None = None
    code: str | None = None
    retry_after: float | None = 1.0


@dataclass(frozen=True)
class Finish:
    """The finish reason, where it is not the usual one.

    Parameters:
        reason: For instance ``content_filter``.
    """

    reason: str


Part: TypeAlias = (
    Say | Call | Delay | Truncate | Malformed | Stall | Disconnect | HttpError | Finish
)


class _Speaker:
    """The verbs that replies and rules share."""

    def _add(self, part: Part) -> Self:
        raise NotImplementedError

    def say(self, text: Text, *, pace: float | None = None, words_per_chunk: int = 1) -> Self:
        """Say something. See :class:`Say`."""
        return self._add(Say(text, pace, words_per_chunk))

    def call(
        self,
        name: str,
        arguments: Arguments | None = None,
        *,
        id: str | None = None,
        pace: float | None = None,
    ) -> Self:
        """Call a function. See :class:`Call`."""
        return self._add(Call(name, {} if arguments is None else arguments, id, pace))

    def delay(self, seconds: float) -> Self:
        """Wait before going on. See :class:`Delay`."""
        return self._add(Delay(seconds))

    def truncate(self, keep: float = 0.5) -> Self:
        """Cut the part before. See :class:`Truncate`."""
        return self._add(Truncate(keep))

    def malformed(self, data: str = Malformed.data) -> Self:
        """Send an event that breaks the protocol. See :class:`Malformed`."""
        return self._add(Malformed(data))

    def stall(self) -> Self:
        """Send nothing more. See :class:`Stall`."""
        return self._add(Stall())

    def disconnect(self) -> Self:
        """Drop the connection. See :class:`Disconnect`."""
        return self._add(Disconnect())

    def error(
        self,
        status: int,
        message: str | None = None,
        *,
        type: str | None = None,
        code: str | None = None,
        retry_after: float | None = 1.0,
    ) -> Self:
        """Fail. See :class:`HttpError`."""
        return self._add(HttpError(status, message, type, code, retry_after))

    def finish(self, reason: str) -> Self:
        """Give another finish reason. See :class:`Finish`."""
        return self._add(Finish(reason))


@dataclass(frozen=True)
class Reply(_Speaker):
    """What the model answers: a sequence of parts. The verbs return a longer reply.

    Parameters:
        parts: The parts, in order.
    """

    parts: tuple[Part, ...] = ()

    def _add(self, part: Part) -> Self:
        return replace(self, parts=(*self.parts, part))

    def resolved(self, request: ChatRequest) -> "Reply":
        """Return the reply with everything filled in that depends on the request.

        Args:
            request: The request it answers.

        Returns:
            A reply whose words are text and whose arguments are text.
        """
        parts: list[Part] = []
        for part in self.parts:
            if isinstance(part, Say) and callable(part.text):
                part = replace(part, text=part.text(request))
            elif isinstance(part, Call):
                arguments = part.arguments
                if callable(arguments):
                    arguments = arguments(request)
                if not isinstance(arguments, str):
                    arguments = json.dumps(arguments, ensure_ascii=False)
                part = replace(part, arguments=arguments)
            parts.append(part)
        return Reply(tuple(parts))


Answerer: TypeAlias = Callable[[ChatRequest], Reply | Awaitable[Reply]]


# --- rules -------------------------------------------------------------------------------------

ANY_TOOL: Final = "*"
"""For ``after_tool``: whatever was called."""

UserPattern: TypeAlias = str | re.Pattern[str] | Callable[[str], bool]


@dataclass
class ReplyRule(_Speaker):
    """When to say what. Made by :meth:`Script.on`; the verbs add to what is said.

    Parameters:
        user: What the user said last; None for anything.
        after_tool: The functions that were called and answered since; empty for none.
        state: What the history must say about those calls; None for any state.
        when: A further condition.
        times: How often the rule may be used; None for always.
        reply: What is said.
    """

    user: UserPattern | None
    after_tool: tuple[str, ...]
    state: ToolState | None
    when: Callable[[ChatRequest], bool] | None
    times: int | None
    reply: Reply = field(default_factory=Reply)

    def _add(self, part: Part) -> Self:
        self.reply = Reply((*self.reply.parts, part))
        return self

    def fits(self, request: ChatRequest) -> bool:
        """Whether the rule answers this request.

        Args:
            request: The request.
        """
        return (
            self.times != 0
            and self._fits_user(request.user)
            and self._fits_tools(request)
            and (self.when is None or self.when(request))
        )

    def _fits_user(self, said: str) -> bool:
        if self.user is None:
            return True
        if isinstance(self.user, str):
            return self.user.casefold() in said.casefold()
        if isinstance(self.user, re.Pattern):
            return self.user.search(said) is not None
        return self.user(said)

    def _fits_tools(self, request: ChatRequest) -> bool:
        if not self.after_tool:
            return not request.recent
        if ANY_TOOL in self.after_tool:
            named = list(request.recent)
        else:
            named = [c for c in request.recent if c.name in self.after_tool]
            if {c.name for c in named} != set(self.after_tool):
                return False
        latest = [c for c in named if c.tool_call_id in request.latest]
        if not latest:
            return False
        return self.state is None or all(c.state is self.state for c in named)


class Script:
    """An answerer made of rules; the first that fits a request answers it.

    A request that no rule fits is answered as a model would if its last calls have no result:
    it says that it waits, or that they were cut. Any other request is an error, which names
    the request.
    """

    def __init__(self, *, otherwise: Reply | None = None):
        """Create a script without rules.

        Args:
            otherwise: The answer to what no rule fits, in place of an error.
        """
        self.rules: list[ReplyRule] = []
        self._otherwise = otherwise

    def on(
        self,
        *,
        user: UserPattern | None = None,
        after_tool: str | Sequence[str] | None = None,
        state: ToolState | None = ToolState.ANSWERED,
        when: Callable[[ChatRequest], bool] | None = None,
        times: int | None = None,
    ) -> ReplyRule:
        """Add a rule, and return it to be told what to say.

        Args:
            user: What the user said last: a part of it, in any case, or a compiled pattern that
                is found in it, or a function of it. None for anything.
            after_tool: The function, or all of the functions, that were called since the user
                spoke last; the latest calls must be among them. None for no calls.
            state: What the history must say about those calls. None for any state.
            when: A further condition on the request.
            times: How often the rule may be used. None for always.

        Returns:
            The rule. ``rule.say(...).call(...)`` builds the reply in place.
        """
        names = (after_tool,) if isinstance(after_tool, str) else tuple(after_tool or ())
        rule = ReplyRule(user, names, state, when, times)
        self.rules.append(rule)
        return rule

    def __call__(self, request: ChatRequest) -> Reply:
        """Answer a request.

        Args:
            request: The request.

        Returns:
            The reply of the first rule that fits.

        Raises:
            UnscriptedRequestError: No rule fits.
        """
        for rule in self.rules:
            if rule.fits(request):
                if rule.times is not None:
                    rule.times -= 1
                return rule.reply
        unfinished = [
            c
            for c in request.recent
            if c.tool_call_id in request.latest and c.state is not ToolState.ANSWERED
        ]
        if self._otherwise is not None:
            return self._otherwise
        if unfinished:
            names = ", ".join(f"{c.name} is {c.state.value}" for c in unfinished)
            return Reply().say(f"I have no result yet: {names}.")
        raise UnscriptedRequestError(
            f"no rule fits request {request.number}: the user said {request.user!r}, and since "
            f"then the calls were {[(c.name, c.state.value) for c in request.recent]}"
        )
