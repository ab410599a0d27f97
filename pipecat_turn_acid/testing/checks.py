# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Judge a conversation history, or a request, message by message.

Two questions, two functions. :func:`check_history` asks whether a history is whole: every call
answered once and at once, no placeholder left behind. :func:`check_request` asks whether OpenAI
would accept the request, and answers in OpenAI's own words. A history can be accepted and still
be damaged: ``IN_PROGRESS`` is a valid tool message.

Both take plain data and return typed findings. They need neither Pipecat nor an event loop, and
raise for nothing that a transcript may contain.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, cast

__all__ = ["Finding", "Rule", "Severity", "check_history", "check_request", "errors"]

Message = Mapping[str, Any]

PLACEHOLDERS: Final = ("IN_PROGRESS", "CANCELLED")
"""What stock Pipecat writes as the content of a tool message that has no result."""

ROLES: Final = ("system", "assistant", "user", "function", "tool", "developer")
MAX_ID_LENGTH: Final = 40

_COMMON_KEYS: Final = frozenset({"role", "content", "name"})
_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "assistant": _COMMON_KEYS | {"tool_calls", "function_call", "refusal", "audio", "annotations"},
    "tool": _COMMON_KEYS | {"tool_call_id"},
}
_CALL_KEYS: Final = frozenset({"id", "type", "function", "custom"})
# What can stand in for the content of an assistant message.
_CONTENT_SUBSTITUTES: Final = ("tool_calls", "function_call", "refusal", "audio")


class Severity(Enum):
    """How bad a finding is.

    Parameters:
        ERROR: The history is damaged, or the request would be refused.
        STYLE: Accepted by OpenAI, but another provider's adapter loses or reorders something.
    """

    ERROR = "error"
    STYLE = "style"


class Rule(Enum):
    """What a finding is about.

    Parameters:
        ORPHAN_CALL: A tool call has no result.
        NOT_CONTIGUOUS: A call's result does not follow the call at once.
        DANGLING_RESULT: A result answers no call that was made before it.
        DUPLICATE_RESULT: A call is answered more than once.
        DUPLICATE_ID: Two calls share one id.
        PLACEHOLDER: A tool message holds a placeholder instead of a result.
        EMPTY_ASSISTANT: An assistant message says nothing and calls nothing.
        MALFORMED: A message, or the request, does not have the required form.
        UNKNOWN_PARAMETER: A message has a key that OpenAI does not know.
        CONTENT_WITH_CALLS: Words and calls share one message; some adapters drop the words.
        RESULT_ORDER: The results of one round are not in the order of its calls.
    """

    ORPHAN_CALL = "orphan-call"
    NOT_CONTIGUOUS = "not-contiguous"
    DANGLING_RESULT = "dangling-result"
    DUPLICATE_RESULT = "duplicate-result"
    DUPLICATE_ID = "duplicate-id"
    PLACEHOLDER = "placeholder"
    EMPTY_ASSISTANT = "empty-assistant"
    MALFORMED = "malformed"
    UNKNOWN_PARAMETER = "unknown-parameter"
    CONTENT_WITH_CALLS = "content-with-calls"
    RESULT_ORDER = "result-order"

    @property
    def severity(self) -> Severity:
        """How bad a violation of this rule is."""
        return Severity.STYLE if self in _STYLE_RULES else Severity.ERROR


_STYLE_RULES: Final = frozenset({Rule.CONTENT_WITH_CALLS, Rule.RESULT_ORDER})


@dataclass(frozen=True)
class Finding:
    """One violation.

    Parameters:
        rule: The rule that is violated.
        index: Position of the offending message, or None when it is the request as a whole.
        tool_call_id: The call it is about, if it is about one.
        message: What is wrong; in OpenAI's words if OpenAI would refuse it.
        remedy: What to do about it.
        param: OpenAI's name for the offending part, as in its error body.
        code: OpenAI's error code, as in its error body.
    """

    rule: Rule
    index: int | None
    tool_call_id: str | None
    message: str
    remedy: str
    param: str | None = None
    code: str | None = None

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return self.rule.severity

    def __str__(self) -> str:
        """Name the place, the rule, the fault and the remedy on one line."""
        place = "request" if self.index is None else f"messages[{self.index}]"
        return f"{place}: {self.rule.value}: {self.message} Remedy: {self.remedy}"


def errors(findings: Iterable[Finding]) -> list[Finding]:
    """Keep the findings that are not a matter of style.

    Args:
        findings: What a check returned.

    Returns:
        The damage, in the same order.
    """
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def check_history(messages: object) -> list[Finding]:
    """Find everything that makes a conversation history less than whole.

    Service-specific messages (``LLMSpecificMessage``) pass, and do not come between a call and
    its result. Pipecat's messages for tools that outlive a barge-in are results like any other.

    Args:
        messages: The history, oldest message first.

    Returns:
        The findings, ordered by message; empty for a history that is whole.
    """
    listed = _as_list(messages)
    if listed is None:
        return [_not_a_list(messages)]
    entries = [(i, m) for i, m in enumerate(listed) if not _is_service_specific(m)]
    findings = [f for i, m in entries for f in _history_shape(i, m)]
    findings += _history_sequence([(i, m) for i, m in entries if isinstance(m, Mapping)])
    return sorted(findings, key=lambda finding: -1 if finding.index is None else finding.index)


def check_request(request: object) -> list[Finding]:
    """Find everything for which OpenAI would refuse a chat completion request.

    OpenAI reports the first fault it meets. The findings come in that order, so the first one
    is the answer to expect.

    Args:
        request: The request body, or only its messages. Service-specific messages are taken as
            Pipecat's OpenAI adapter takes them: its own as they are, those of others not at all,
            and positions count what is left.

    Returns:
        The findings, in OpenAI's words; empty for a request that would be accepted.
    """
    findings: list[Finding] = []
    messages = request
    if isinstance(request, Mapping):
        body = cast(Message, request)
        findings += _request_body(body)
        if "messages" not in body:
            return [*findings, _missing("messages", None)]
        messages = body["messages"]
    listed = _as_list(messages)
    if listed is None:
        return [*findings, _wrong_type("messages", "an array of objects", messages, None)]
    listed = [
        m.message if _is_service_specific(m) else m
        for m in listed
        if not _is_service_specific(m) or m.llm == "openai"
    ]
    if not listed:
        return [*findings, _empty_array("messages", None)]
    for i, message in enumerate(listed):
        findings += _request_shape(i, message)
    findings += _request_sequence([m if isinstance(m, Mapping) else {} for m in listed])
    return findings


# --- reading -----------------------------------------------------------------------------------


def _as_list(messages: object) -> list[Any] | None:
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Iterable):
        return None
    return list(cast(Iterable[Any], messages))


def _is_service_specific(message: object) -> bool:
    # Told by its form, so that a transcript can be judged without importing Pipecat.
    return (
        not isinstance(message, Mapping) and hasattr(message, "llm") and hasattr(message, "message")
    )


def _calls(message: Message) -> list[Any]:
    calls = message.get("tool_calls")
    if message.get("role") != "assistant" or not isinstance(calls, Sequence):
        return []
    return [] if isinstance(calls, str) else list(cast(Sequence[Any], calls))


def _call_ids(message: Message) -> list[str]:
    ids = (call.get("id") for call in _calls(message) if isinstance(call, Mapping))
    return [i for i in ids if isinstance(i, str) and i]


def _result_id(message: Message) -> str | None:
    """The id that a tool message answers; None for any other message."""
    tool_call_id = message.get("tool_call_id")
    if message.get("role") != "tool" or not isinstance(tool_call_id, str) or not tool_call_id:
        return None
    return tool_call_id


def _text(content: object) -> str | None:
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence) and not isinstance(content, bytes):
        parts = [p for p in cast(Sequence[Any], content) if isinstance(p, Mapping)]
        return "".join(str(p["text"]) for p in parts if isinstance(p.get("text"), str))
    return None


def _has_content(message: Message) -> bool:
    content = message.get("content")
    if isinstance(content, str):
        return bool(content.strip())
    return bool(content)


def _late_result_id(message: Message) -> str | None:
    """The id in Pipecat's message for a tool that finishes after the conversation moved on."""
    content = message.get("content")
    if message.get("role") != "developer" or not isinstance(content, str):
        return None
    if '"async_tool"' not in content:
        return None
    try:
        payload = json.loads(content)
    except ValueError:
        return None
    if not isinstance(payload, dict) or payload.get("type") != "async_tool":
        return None
    tool_call_id = payload.get("tool_call_id")
    return tool_call_id if isinstance(tool_call_id, str) else None


def _following_results(entries: Sequence[tuple[int, Message]], at: int) -> Iterator[int]:
    """Positions of the tool messages that follow an entry at once."""
    for position in range(at + 1, len(entries)):
        if entries[position][1].get("role") != "tool":
            return
        yield position


# --- the history contract ----------------------------------------------------------------------


def _not_a_list(messages: object) -> Finding:
    return Finding(
        Rule.MALFORMED,
        None,
        None,
        f"A history is a list of messages, not {_article(messages)}.",
        "Pass the list, for instance `context.get_messages()`.",
    )


def _history_shape(index: int, message: object) -> Iterator[Finding]:
    def malformed(what: str, remedy: str, tool_call_id: str | None = None) -> Finding:
        return Finding(Rule.MALFORMED, index, tool_call_id, what, remedy)

    if not isinstance(message, Mapping):
        yield malformed(
            f"The message is {_article(message)}, not a dict.", "Store messages as plain dicts."
        )
        return
    message = cast(Message, message)
    role = message.get("role")
    if role not in ROLES:
        yield malformed(f"The role {role!r} is not known.", f"Use one of {', '.join(ROLES)}.")
        return
    content = message.get("content")
    if content is not None and _text(content) is None:
        yield malformed(
            f"The content is {_article(content)}, neither text nor parts.",
            "Store text, or a list of content parts; results as JSON text.",
        )
    if role == "assistant":
        yield from _assistant_shape(index, message)
    elif role == "tool":
        if _result_id(message) is None:
            yield malformed(
                "The tool message names no call.", "Set tool_call_id to the id of its call."
            )
        if content is None:
            yield malformed(
                "The tool message has no content.",
                "Store the result, or a text that says why there is none.",
                _result_id(message),
            )
        elif (text := _text(content)) in PLACEHOLDERS:
            yield Finding(
                Rule.PLACEHOLDER,
                index,
                _result_id(message),
                f"The result is the placeholder {text}.",
                "Write a call to the history together with its result, or not at all.",
            )
    elif content is None:
        yield malformed(f"The {role} message has no content.", "Drop it, or give it its text.")


def _assistant_shape(index: int, message: Message) -> Iterator[Finding]:
    def malformed(what: str, remedy: str, tool_call_id: str | None = None) -> Finding:
        return Finding(Rule.MALFORMED, index, tool_call_id, what, remedy)

    raw = message.get("tool_calls")
    if raw is not None and (isinstance(raw, (str, Mapping)) or not isinstance(raw, Sequence)):
        yield malformed(f"tool_calls is {_article(raw)}, not a list.", "Store a list of calls.")
        return
    calls = _calls(message)
    if not _has_content(message) and not any(message.get(k) for k in _CONTENT_SUBSTITUTES):
        yield Finding(
            Rule.EMPTY_ASSISTANT,
            index,
            None,
            "The assistant message has neither content nor tool calls.",
            "Drop it.",
        )
    elif raw is not None and not calls:
        yield malformed("tool_calls is empty.", "Leave the key out.")
    if calls and _has_content(message):
        yield Finding(
            Rule.CONTENT_WITH_CALLS,
            index,
            next(iter(_call_ids(message)), None),
            "Words and calls share one message; Pipecat's Anthropic and Gemini adapters drop the "
            "words.",
            "Put the words into a message of their own, before the calls.",
        )
    for number, call in enumerate(calls):
        yield from (malformed(*what) for what in _call_faults(number, call))


def _call_faults(number: int, call: object) -> Iterator[tuple[str, str, str | None]]:
    """What is wrong with one call: the fault, the remedy, and the id if there is one."""
    if not isinstance(call, Mapping):
        yield (f"Call {number} is {_article(call)}, not a dict.", "Store calls as dicts.", None)
        return
    call = cast(Message, call)
    raw_id = call.get("id")
    tool_call_id = raw_id if isinstance(raw_id, str) and raw_id else None
    if tool_call_id is None:
        yield (f"Call {number} has no id.", "Give each call an id of its own.", None)
    if call.get("type", "function") != "function":
        return
    function = call.get("function")
    if not isinstance(function, Mapping):
        yield (f"Call {number} has no function.", "Name the function it calls.", tool_call_id)
        return
    function = cast(Message, function)
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str) or not name:
        yield (f"Call {number} names no function.", "Name the function it calls.", tool_call_id)
    if not isinstance(arguments, str):
        yield (
            f"The arguments of call {number} are {_article(arguments)}, not JSON text.",
            "Store the arguments as the JSON text of an object.",
            tool_call_id,
        )
        return
    try:
        parsed = json.loads(arguments)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        yield (
            f"The arguments of call {number} are not the JSON text of an object.",
            "Answer such a call with an error, and store the arguments as '{}'.",
            tool_call_id,
        )


def _history_sequence(entries: Sequence[tuple[int, Message]]) -> Iterator[Finding]:
    called_at: dict[str, int] = {}  # id -> index of the latest message that called it
    answered: set[tuple[int, str]] = set()
    owner: dict[int, int] = {}  # position of a result -> position of the calls it follows
    late: set[tuple[int, str]] = set()  # calls whose answer stands too far down

    for at, (index, message) in enumerate(entries):
        ids = _call_ids(message)
        for tool_call_id in ids:
            if tool_call_id in called_at:
                yield Finding(
                    Rule.DUPLICATE_ID,
                    index,
                    tool_call_id,
                    f"The id was used for a call in messages[{called_at[tool_call_id]}] before.",
                    "Give each call an id of its own.",
                )
            called_at[tool_call_id] = index
        if ids:
            block = list(_following_results(entries, at))
            owner.update(dict.fromkeys(block, at))
            order = [i for p in block if (i := _result_id(entries[p][1])) in ids]
            if order != sorted(order, key=ids.index):
                yield Finding(
                    Rule.RESULT_ORDER,
                    index,
                    order[0],
                    f"The calls are {', '.join(ids)}, the results {', '.join(order)}.",
                    "Write the results in the order of the calls.",
                )

        if late_id := _late_result_id(message):
            if late_id not in called_at:
                yield _dangling(index, late_id)
        if (result_id := _result_id(message)) is None:
            continue
        own = owner.get(at)
        if own is not None and result_id in _call_ids(entries[own][1]):
            call = (entries[own][0], result_id)
        elif result_id in called_at:
            call = (called_at[result_id], result_id)
            if call not in answered:
                late.add(call)
        else:
            yield _dangling(index, result_id)
            continue
        if call in answered:
            yield Finding(
                Rule.DUPLICATE_RESULT,
                index,
                result_id,
                f"The call in messages[{call[0]}] is answered already.",
                "Keep one result for each call.",
            )
        answered.add(call)

    for index, message in entries:
        for tool_call_id in dict.fromkeys(_call_ids(message)):
            if (index, tool_call_id) in late:
                yield Finding(
                    Rule.NOT_CONTIGUOUS,
                    index,
                    tool_call_id,
                    "Other messages stand between the call and its result.",
                    "Write the result directly after the call.",
                )
            elif (index, tool_call_id) not in answered:
                yield Finding(
                    Rule.ORPHAN_CALL,
                    index,
                    tool_call_id,
                    "The call has no result.",
                    "Drop the call, or answer it with a text that says what became of it.",
                )


def _dangling(index: int, tool_call_id: str) -> Finding:
    return Finding(
        Rule.DANGLING_RESULT,
        index,
        tool_call_id,
        "The result answers no call that was made before it.",
        "Drop it, or put the call back in front of it.",
    )


# --- what OpenAI accepts -----------------------------------------------------------------------


def _request_body(body: Message) -> Iterator[Finding]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield _refusal(Rule.MALFORMED, None, "you must provide a model parameter", "Name a model.")
    tools = body.get("tools")
    if isinstance(tools, Sequence) and not tools:
        yield _empty_array("tools", None)
    if not tools:
        for key in ("tool_choice", "parallel_tool_calls"):
            if body.get(key) is not None:
                yield _refusal(
                    Rule.MALFORMED,
                    None,
                    f"Invalid value for '{key}': '{key}' is only allowed when 'tools' are "
                    "specified.",
                    f"Leave {key} out when there are no tools.",
                    param=key,
                )
    if body.get("stream_options") is not None and not body.get("stream"):
        yield _refusal(
            Rule.MALFORMED,
            None,
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            "Leave stream_options out, or stream.",
            param="stream_options",
        )


def _request_shape(index: int, message: object) -> Iterator[Finding]:
    path = f"messages[{index}]"
    if not isinstance(message, Mapping):
        yield _wrong_type(path, "an object", message, index)
        return
    message = cast(Message, message)
    if "role" not in message:
        yield _missing(f"{path}.role", index)
        return
    role = message["role"]
    if role not in ROLES:
        *others, last = (f"'{name}'" for name in ROLES)
        yield _refusal(
            Rule.MALFORMED,
            index,
            f"Invalid value: '{role}'. Supported values are: {', '.join(others)}, and {last}.",
            "Use a role that OpenAI knows.",
            param=f"{path}.role",
            code="invalid_value",
        )
        return
    for key in message:
        if key not in _KEYS.get(role, _COMMON_KEYS):
            yield _unknown(f"{path}.{key}", index)
    yield from _content_shape(index, role, message)
    if role == "tool" and _result_id(message) is None:
        yield _refusal(
            Rule.MALFORMED,
            index,
            "Missing parameter 'tool_call_id': messages with role 'tool' must have a "
            "'tool_call_id'.",
            "Set tool_call_id to the id of its call.",
            param=f"messages.[{index}].tool_call_id",
        )
    if role == "assistant" and message.get("tool_calls") is not None:
        yield from _calls_shape(index, message["tool_calls"])


def _content_shape(index: int, role: str, message: Message) -> Iterator[Finding]:
    path = f"messages[{index}].content"
    content = message.get("content")
    if content is None:
        if role == "assistant" and any(message.get(k) is not None for k in _CONTENT_SUBSTITUTES):
            return
        if "content" not in message and role != "assistant":
            yield _missing(path, index)
            return
        yield _refusal(
            Rule.EMPTY_ASSISTANT if role == "assistant" else Rule.MALFORMED,
            index,
            "Invalid value for 'content': expected a string, got null.",
            "Drop the message, or give it content.",
            param=f"messages.[{index}].content",
        )
    elif isinstance(content, str):
        return
    elif not isinstance(content, Sequence):
        yield _wrong_type(path, "one of a string or array of objects", content, index)
    else:
        for number, part in enumerate(cast(Sequence[Any], content)):
            if not isinstance(part, Mapping):
                yield _wrong_type(f"{path}[{number}]", "an object", part, index)
            elif "type" not in part:
                yield _missing(f"{path}[{number}].type", index)


def _calls_shape(index: int, calls: object) -> Iterator[Finding]:
    path = f"messages[{index}].tool_calls"
    if isinstance(calls, (str, Mapping)) or not isinstance(calls, Sequence):
        yield _wrong_type(path, "an array of objects", calls, index)
        return
    if not calls:
        yield _empty_array(path, index)
    for number, call in enumerate(cast(Sequence[Any], calls)):
        here = f"{path}[{number}]"
        if not isinstance(call, Mapping):
            yield _wrong_type(here, "an object", call, index)
            continue
        call = cast(Message, call)
        for key in call:
            if key not in _CALL_KEYS:
                yield _unknown(f"{here}.{key}", index)
        yield from _string_field(call, "id", here, index)
        if isinstance(call.get("id"), str) and len(call["id"]) > MAX_ID_LENGTH:
            yield _refusal(
                Rule.MALFORMED,
                index,
                f"Invalid '{here}.id': string too long. Expected a string with maximum length "
                f"{MAX_ID_LENGTH}, but got a string with length {len(call['id'])} instead.",
                "Use a shorter id.",
                tool_call_id=call["id"],
                param=f"{here}.id",
                code="string_above_max_length",
            )
        if "type" not in call:
            yield _missing(f"{here}.type", index)
        if call.get("type", "function") != "function":
            continue
        function = call.get("function")
        if function is None:
            yield _missing(f"{here}.function", index)
        elif not isinstance(function, Mapping):
            yield _wrong_type(f"{here}.function", "an object", function, index)
        else:
            for key in ("name", "arguments"):
                yield from _string_field(cast(Message, function), key, f"{here}.function", index)


def _string_field(holder: Message, key: str, path: str, index: int) -> Iterator[Finding]:
    if key not in holder:
        yield _missing(f"{path}.{key}", index)
    elif not isinstance(holder[key], str):
        yield _wrong_type(f"{path}.{key}", "a string", holder[key], index)


def _request_sequence(messages: Sequence[Message]) -> Iterator[Finding]:
    entries = list(enumerate(messages))
    claimed: set[int] = set()
    for at, message in entries:
        if ids := _call_ids(message):
            block = list(_following_results(entries, at))
            claimed.update(block)
            yield from _request_round(messages, at, ids, block)
        elif message.get("role") == "tool" and at not in claimed:
            yield _refusal(
                Rule.DANGLING_RESULT,
                at,
                "Invalid parameter: messages with role 'tool' must be a response to a preceeding "
                "message with 'tool_calls'.",
                "Drop the result, or put the call back directly in front of it.",
                tool_call_id=_result_id(message),
                param=f"messages.[{at}].role",
            )


def _request_round(
    messages: Sequence[Message], at: int, ids: list[str], block: list[int]
) -> Iterator[Finding]:
    first_answer: dict[str, int] = {}
    for position in block:
        if (result_id := _result_id(messages[position])) is None:
            continue
        param = f"messages.[{position}].tool_call_id"
        if result_id not in ids:
            yield _refusal(
                Rule.DANGLING_RESULT,
                position,
                f"Invalid parameter: 'tool_call_id' of '{result_id}' not found in 'tool_calls' of "
                "previous message.",
                "Drop the result, or put it directly after its call.",
                tool_call_id=result_id,
                param=param,
            )
        elif result_id in first_answer:
            yield _refusal(
                Rule.DUPLICATE_RESULT,
                position,
                f"Invalid parameter: Duplicate value for 'tool_call_id' of '{result_id}', in "
                f"messages[{first_answer[result_id]}] and messages[{position}].",
                "Keep one result for each call.",
                tool_call_id=result_id,
                param=param,
            )
        else:
            first_answer[result_id] = position
    if missing := [i for i in dict.fromkeys(ids) if i not in first_answer]:
        after = block[-1] + 1 if block else at + 1
        elsewhere = {_result_id(message) for message in messages[after:]}
        yield _refusal(
            Rule.NOT_CONTIGUOUS if missing[0] in elsewhere else Rule.ORPHAN_CALL,
            at,
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(missing),
            "Drop the call, or put its result directly after it.",
            tool_call_id=missing[0],
            param=f"messages.[{after if after < len(messages) else at}].role",
        )


# --- OpenAI's words ----------------------------------------------------------------------------


def _refusal(
    rule: Rule,
    index: int | None,
    message: str,
    remedy: str,
    *,
    tool_call_id: str | None = None,
    param: str | None = None,
    code: str | None = None,
) -> Finding:
    return Finding(rule, index, tool_call_id, message, remedy, param, code)


def _missing(path: str, index: int | None) -> Finding:
    return _refusal(
        Rule.MALFORMED,
        index,
        f"Missing required parameter: '{path}'.",
        "Add it.",
        param=path,
        code="missing_required_parameter",
    )


def _unknown(path: str, index: int) -> Finding:
    return _refusal(
        Rule.UNKNOWN_PARAMETER,
        index,
        f"Unknown parameter: '{path}'.",
        "Keep bookkeeping out of the messages.",
        param=path,
        code="unknown_parameter",
    )


def _empty_array(path: str, index: int | None) -> Finding:
    return _refusal(
        Rule.MALFORMED,
        index,
        f"Invalid '{path}': empty array. Expected an array with minimum length 1, but got an "
        "empty array instead.",
        "Leave the key out." if path != "messages" else "Send at least one message.",
        param=path,
        code="empty_array",
    )


def _wrong_type(path: str, expected: str, value: object, index: int | None) -> Finding:
    return _refusal(
        Rule.MALFORMED,
        index,
        f"Invalid type for '{path}': expected {expected}, but got {_article(value)} instead.",
        f"Send {expected}.",
        param=path,
        code="invalid_type",
    )


def _article(value: object) -> str:
    """Name a value's type as JSON does, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int):
        return "an integer"
    if isinstance(value, float):
        return "a decimal number"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, Sequence):
        return "an array"
    return f"a {type(value).__name__}"
