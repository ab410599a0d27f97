# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What a tool round looks like in a history, and what a history must look like.

Messages are the plain dicts of OpenAI's chat format, which is Pipecat's
universal format too. Entries that are not dicts belong to one provider
(Pipecat's ``LLMSpecificMessage``); they are left where they are.
"""

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeGuard, cast

from pipecat_turn_acid.core.errors import InvalidMessageError

Message = dict[str, Any]

MAY_HAVE_COMPLETED: Final = "It may have completed. Check before repeating it."
"""What the model is told of a call with side effects of which nobody knows how it ended."""

INTERRUPTED_CONTENT: Final = json.dumps(
    f"INTERRUPTED: the user spoke before this call reported. {MAY_HAVE_COMPLETED}"
)
"""The result on record for a call with side effects that was started and then cut."""


@dataclass(slots=True)
class ToolCall:
    """One call of a round, and what is known of it.

    Parameters:
        tool_call_id: The id that the result names.
        name: The tool's name.
        arguments: The arguments as a JSON text.
        has_side_effects: Whether the call must stay on record when it is cut.
        started: Whether the tool may have begun to act.
        outlives_turn: Whether the model does not wait for the call, which a barge-in
            does not cancel. Pipecat writes its messages, under its own protocol.
        content: The result as it will stand in the history; None while unanswered.
        wants_run: Whether the model should see the result as soon as it is committed.
        has_reported: For a call that outlives the turn: the tool has made its final report.
        is_delivered: For a call that outlives the turn: its result is in the history.
    """

    tool_call_id: str
    name: str
    arguments: str
    has_side_effects: bool = False
    started: bool = True
    outlives_turn: bool = False
    content: str | None = None
    wants_run: bool = True
    has_reported: bool = False
    is_delivered: bool = False

    @property
    def is_answered(self) -> bool:
        """Whether the call has its result, or has reported it to Pipecat."""
        return self.content is not None or self.has_reported

    @classmethod
    def from_message(cls, tool_call: object) -> "ToolCall":
        """Read one entry of an assistant message's ``tool_calls``.

        Args:
            tool_call: ``{"id": ..., "type": "function", "function": {"name": ...,
                "arguments": <JSON text or mapping>}}``.

        Returns:
            A call that shares nothing with the entry.

        Raises:
            InvalidMessageError: The entry has no id, no name, or another shape.
        """
        if not is_mapping(tool_call):
            raise InvalidMessageError(
                f"can't stage a tool call of type {type(tool_call).__name__}: pass a dict such as "
                "{'id': ..., 'type': 'function', 'function': {'name': ..., 'arguments': '{}'}}"
            )
        tool_call_id = tool_call.get("id")
        if not isinstance(tool_call_id, str) or not tool_call_id:
            raise InvalidMessageError(
                "can't stage a tool call without an id: set 'id' to the text that its result names"
            )
        function = tool_call.get("function")
        name = function.get("name") if is_mapping(function) else None
        if not is_mapping(function) or not isinstance(name, str) or not name:
            raise InvalidMessageError(
                f"can't stage tool call {tool_call_id!r}: its 'function' must be a dict with a "
                "'name' and 'arguments'"
            )
        arguments = function.get("arguments", "{}")
        if not isinstance(arguments, str):
            arguments = encode_content(arguments)
        return cls(tool_call_id=tool_call_id, name=name, arguments=arguments)

    def copy(self) -> "ToolCall":
        """Make a copy that no later answer to this call changes."""
        return replace(self)


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether a value can be read like a dict of a message."""
    return isinstance(value, Mapping)


def encode_content(value: Any) -> str:
    """Turn a tool's result into the text that stands in the history.

    Args:
        value: Text is kept as it is; anything else becomes JSON.

    Returns:
        The text.

    Raises:
        InvalidMessageError: JSON cannot hold the value.
    """
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessageError(
            f"can't stage a result of type {type(value).__name__}: JSON cannot hold it "
            f"({error}); pass text, numbers, lists and dicts"
        ) from error


def require_messages(messages: Iterable[object], specific: type | None = None) -> None:
    """Check that every entry may stand in a history.

    Args:
        messages: The entries.
        specific: A type that may stand beside dicts, such as Pipecat's
            ``LLMSpecificMessage``.

    Raises:
        InvalidMessageError: An entry is neither a dict nor of that type.
    """
    for message in messages:
        if isinstance(message, dict) or (specific is not None and isinstance(message, specific)):
            continue
        raise InvalidMessageError(
            f"can't add a message of type {type(message).__name__}: pass a dict such as "
            "{'role': 'user', 'content': 'Hello'}"
        )


def round_messages(calls: Sequence[ToolCall], contents: Sequence[str]) -> list[Message]:
    """Spell out answered calls: one assistant message, then the results in call order.

    Args:
        calls: The calls in model order; at least one.
        contents: One result for each call.

    Returns:
        ``len(calls) + 1`` new messages.
    """
    assistant: Message = {
        "role": "assistant",
        "tool_calls": [
            {
                "id": call.tool_call_id,
                "function": {"name": call.name, "arguments": call.arguments},
                "type": "function",
            }
            for call in calls
        ],
    }
    results: list[Message] = [
        {"role": "tool", "content": content, "tool_call_id": call.tool_call_id}
        for call, content in zip(calls, contents, strict=True)
    ]
    return [assistant, *results]


class OrphanKind(StrEnum):
    """How a call and its result have come apart.

    Parameters:
        CALL: A call without a result.
        RESULT: A result without a call, or a second one for the same call.
        DISPLACED: A result that does not follow its call at once.
    """

    CALL = "call without a result"
    RESULT = "result without a call"
    DISPLACED = "result apart from its call"


@dataclass(frozen=True, slots=True)
class Orphan:
    """One place where a history would be refused.

    Parameters:
        kind: What is wrong.
        index: Which message, counted from 0.
        tool_call_id: Which call.
    """

    kind: OrphanKind
    index: int
    tool_call_id: str


def repair(messages: Sequence[object]) -> tuple[list[Any], tuple[Orphan, ...]]:
    """Bring calls and results together again, by their ids.

    A call without a result and a result without a call are left out; a result
    that stands apart is moved behind its call. Everything else stays, in order,
    as the same objects.

    Args:
        messages: A history from any source. It is not changed.

    Returns:
        The messages to send, and what was repaired; nothing when the history is
        sound.
    """
    if is_sound(messages):
        return list(messages), ()
    sound: list[Any] = []
    orphans: list[Orphan] = []
    used: set[int] = set()

    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            sound.append(message)
            continue
        message = cast(Message, message)
        if message.get("role") == "tool":
            if index not in used:
                tool_call_id = message.get("tool_call_id")
                orphans.append(Orphan(OrphanKind.RESULT, index, str(tool_call_id)))
            continue
        if not message.get("tool_calls"):
            sound.append(message)
            continue
        kept, results, found = _pair_calls(messages, index, used)
        orphans.extend(found)
        if len(kept) == len(message["tool_calls"]):
            sound.append(message)
        elif kept or message.get("content"):
            reduced = {key: value for key, value in message.items() if key != "tool_calls"}
            if kept:
                reduced["tool_calls"] = kept
            sound.append(reduced)
        sound.extend(results)

    return sound, tuple(orphans)


def is_sound(messages: Sequence[object]) -> bool:
    """Whether every call is answered exactly once, right behind it. One pass.

    Args:
        messages: A history from any source.
    """
    open_ids: list[object] = []
    for message in messages:
        if not isinstance(message, dict):
            continue
        entry = cast(Message, message)
        if entry.get("role") == "tool":
            if entry.get("tool_call_id") not in open_ids:
                return False
            open_ids.remove(entry.get("tool_call_id"))
            continue
        if open_ids:
            return False
        if calls := entry.get("tool_calls"):
            open_ids = [call.get("id") if is_mapping(call) else None for call in calls]
    return not open_ids


def _pair_calls(
    messages: Sequence[object], index: int, used: set[int]
) -> tuple[list[Any], list[Any], list[Orphan]]:
    """Find the results of the calls of one assistant message.

    Args:
        messages: The history.
        index: Which message holds the calls.
        used: Indices of results that are spoken for; grows.

    Returns:
        The calls that have a result, everything that belongs behind the message
        in its order, and what was wrong.
    """
    calls = cast(Message, messages[index])["tool_calls"]
    adjacent = _results_behind(messages, index)
    kept: list[Any] = []
    results: list[Any] = []
    orphans: list[Orphan] = []
    for call in calls:
        tool_call_id = call.get("id") if is_mapping(call) else None
        place = next(
            (i for i in adjacent if i not in used and _answers(messages[i], tool_call_id)), None
        )
        if place is None:
            place = _find_displaced(messages, index, tool_call_id, used)
            kind = OrphanKind.CALL if place is None else OrphanKind.DISPLACED
            orphans.append(Orphan(kind, index if place is None else place, str(tool_call_id)))
        if place is not None:
            used.add(place)
            kept.append(call)
            results.append(messages[place])
    return kept, results, orphans


def _find_displaced(
    messages: Sequence[object], index: int, tool_call_id: object, used: set[int]
) -> int | None:
    """Index of a result that stands apart from its call; None if there is none.

    What follows another call with the same id answers that one.
    """
    for place in range(index + 1, len(messages)):
        if place not in used and _answers(messages[place], tool_call_id):
            return place
        if isinstance(tool_call_id, str) and tool_call_id in call_ids([messages[place]]):
            return None
    return None


def _results_behind(messages: Sequence[object], index: int) -> list[int]:
    """Indices of the results that follow a message at once, provider entries apart."""
    found: list[int] = []
    for place in range(index + 1, len(messages)):
        message = messages[place]
        if not isinstance(message, dict):
            continue
        if cast(Message, message).get("role") != "tool":
            break
        found.append(place)
    return found


def split_rounds(messages: Sequence[object]) -> list[Any]:
    """Give each call a message of its own, with its result behind it.

    Args:
        messages: A sound history. It is not changed.

    Returns:
        The same history with as many calls as results in a row everywhere.
    """
    split: list[Any] = []
    used: set[int] = set()
    for index, message in enumerate(messages):
        if index in used:
            continue
        calls = cast(Message, message).get("tool_calls") if isinstance(message, dict) else None
        if not isinstance(calls, list) or len(cast(list[object], calls)) < 2:
            split.append(message)
            continue
        behind = _results_behind(messages, index)
        for number, call in enumerate(cast(list[object], calls)):
            # Words stand with the first call.
            own = cast(Message, message) if not number else {"role": "assistant"}
            split.append({**own, "tool_calls": [call]})
            tool_call_id = call.get("id") if is_mapping(call) else None
            place = next((i for i in behind if _answers(messages[i], tool_call_id)), None)
            if place is not None and place not in used:
                used.add(place)
                split.append(messages[place])
    return split


def _answers(message: object, tool_call_id: object) -> bool:
    if not isinstance(message, dict):
        return False
    entry = cast(Message, message)
    return entry.get("role") == "tool" and entry.get("tool_call_id") == tool_call_id


def call_ids(messages: Iterable[object]) -> set[str]:
    """Ids of all the calls in a history."""
    ids: set[str] = set()
    for message in messages:
        if not isinstance(message, dict):
            continue
        calls = cast(Message, message).get("tool_calls")
        if not isinstance(calls, list):
            continue
        for call in cast(list[object], calls):
            tool_call_id = call.get("id") if is_mapping(call) else None
            if isinstance(tool_call_id, str):
                ids.add(tool_call_id)
    return ids


def copy_messages(messages: Iterable[Message]) -> list[Message]:
    """Copies that share nothing with the given messages."""
    return copy.deepcopy(list(messages))
