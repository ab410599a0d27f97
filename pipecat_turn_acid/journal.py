# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A record of what became of each turn and each round.

The journal names ids and sizes and never holds a text. It keeps a fixed number
of entries, whatever the length of the call.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

from pipecat.frames.frames import Frame, LLMFullResponseEndFrame, LLMFullResponseStartFrame
from pipecat.processors.aggregators.llm_response_universal import (
    LLMAssistantAggregator,
    LLMContextAggregator,
    LLMContextAggregatorPair,
)

from pipecat_turn_acid.context import TransactionalLLMContext
from pipecat_turn_acid.core import ToolCall, ToolRound
from pipecat_turn_acid.events import (
    HistoryRepaired,
    HookFailed,
    RoundCommitted,
    RoundRolledBack,
    RoundSpliced,
    RoundStaged,
    StaleFenced,
    TurnEnded,
    TurnEnding,
    TurnEvent,
    TurnStarted,
)

BY_USER: Final = "the user took the floor"
BY_NEXT_TURN: Final = "the next turn took over"

_MAX_ID: Final = 64
_MAX_CALLS: Final = 16


class JournalEvent(StrEnum):
    """What happened.

    Parameters:
        TURN_STARTED: A turn has begun.
        TURN_ENDED: The turn is over and its rounds are settled: the user took the
            floor, or the next turn took over.
        RESPONSE_STARTED: The model answers on behalf of the turn.
        RESPONSE_ENDED: The response has passed, its words included.
        RESPONSE_CUT: The user took the floor before the response had passed.
        ROUND_STAGED: A round was opened.
        ROUND_SPLICED: What the model waits for is in the history; other calls of
            the round still run.
        ROUND_COMMITTED: Every call of the round has its result in the history.
        ROUND_ROLLED_BACK: The round was dropped.
        FENCED: Work of a turn that was over was turned away.
        REPAIRED: A request was sent without, or with in another place, a call or a
            result that had come apart.
        HOOK_FAILED: A callback of ``on_round_committed`` raised.
    """

    TURN_STARTED = "turn started"
    TURN_ENDED = "turn ended"
    RESPONSE_STARTED = "response started"
    RESPONSE_ENDED = "response ended"
    RESPONSE_CUT = "response cut"
    ROUND_STAGED = "round staged"
    ROUND_SPLICED = "round spliced"
    ROUND_COMMITTED = "round committed"
    ROUND_ROLLED_BACK = "round rolled back"
    FENCED = "fenced"
    REPAIRED = "repaired"
    HOOK_FAILED = "hook failed"


@dataclass(frozen=True, slots=True)
class CallNote:
    """A call of a round, without its texts.

    Parameters:
        id: The tool call's id, at most 64 characters of it.
        arguments: How many characters of arguments it has.
        result: How many characters of result it has; None while there is none.
        outlives_turn: Whether a barge-in does not cancel it.
        has_side_effects: Whether it stays on record when it is cut.
        tool: The tool's name, if the journal was asked to keep names.
    """

    id: str
    arguments: int
    result: int | None
    outlives_turn: bool
    has_side_effects: bool
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One thing that happened.

    Parameters:
        at: Seconds since the journal's first entry, by the clock of the event loop.
        event: What happened.
        conversation: Which of the watched contexts, counted from 1.
        epoch: The turn that it belongs to.
        round: The number of the round, where it is about one.
        calls: The round's calls in model order; the first 16 of them.
        call_count: How many calls the round has.
        is_late: Whether the turn was over before every call of the round had reported.
        what: What was fenced or repaired, what ended the turn, or the type of a
            hook's error.
        tool_call_id: Which call was fenced or repaired.
        reason: Why it was fenced.
    """

    at: float
    event: JournalEvent
    conversation: int
    epoch: int
    round: int | None = None
    calls: tuple[CallNote, ...] = ()
    call_count: int = 0
    is_late: bool = False
    what: str | None = None
    tool_call_id: str | None = None
    reason: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The entry as JSON holds it, without what does not apply."""
        entry = {field.name: getattr(self, field.name) for field in fields(self)}
        entry["event"] = self.event.value
        if self.round is None:
            for name in ("round", "calls", "call_count", "is_late"):
                del entry[name]
        else:
            entry["calls"] = [
                {
                    field.name: value
                    for field in fields(call)
                    if (value := getattr(call, field.name)) is not None or field.name == "result"
                }
                for call in self.calls
            ]
        return {name: value for name, value in entry.items() if value is not None}


class TurnJournal:
    """Collects what happens to the turns and rounds of one or more conversations.

    ::

        journal = TurnJournal()
        journal.watch(pair)
        ...
        print(journal)
        journal.write_html("call.html")

    Entries are made at the moment things happen, by the clock of the running event
    loop. Once there are ``limit`` of them, the oldest one makes room for each new
    one. A journal keeps no conversation in memory.
    """

    def __init__(self, limit: int = 10_000, *, tool_names: bool = False):
        """Start an empty journal.

        Args:
            limit: How many entries are kept.
            tool_names: Whether the names of the called tools are kept.

        Raises:
            ValueError: The limit is below 1.
        """
        if limit < 1:
            raise ValueError(f"TurnJournal(limit={limit!r}): keep at least one entry")
        self._entries: deque[JournalEntry] = deque(maxlen=limit)
        self._dropped = 0
        self._tool_names = tool_names
        self._origin: float | None = None
        self._began_at: datetime | None = None
        # A watch lives as long as its context, which listens through it.
        self._watched: WeakValueDictionary[int, _Watch] = WeakValueDictionary()
        self._conversations = 0

    # --- collecting --------------------------------------------------------------------------

    def watch(
        self,
        target: TransactionalLLMContext | LLMContextAggregatorPair | LLMContextAggregator,
    ) -> Callable[[], None]:
        """Record what happens to a conversation from now on.

        Watching the same conversation again changes nothing, except that an
        aggregator adds the responses to what is recorded of a bare context.

        Args:
            target: The conversation's context, its aggregator pair, or one of its
                aggregators. Responses are recorded where the assistant aggregator
                is known.

        Returns:
            A function that stops it. The entries stay.

        Raises:
            TypeError: The target has no `TransactionalLLMContext`.
        """
        context, assistant = _parts(target)
        watch = self._watched.get(id(context))
        if watch is None:
            self._conversations += 1
            number = self._conversations
            watch = _Watch(
                context,
                add=lambda event, epoch, **details: self._add(event, number, epoch, **details),
                note=self._note,
                forget=lambda: self._forget(context),
            )
            self._watched[id(context)] = watch
        if assistant is not None:
            watch.listen_to(assistant)
        return watch.stop

    def clear(self) -> None:
        """Forget every entry. What is watched stays watched; time starts anew."""
        self._entries.clear()
        self._dropped = 0
        self._origin = None
        self._began_at = None

    def _forget(self, context: TransactionalLLMContext) -> None:
        self._watched.pop(id(context), None)

    def _add(self, event: JournalEvent, conversation: int, epoch: int, **details: Any) -> None:
        now = _now()
        if self._origin is None:
            self._origin = now
            self._began_at = datetime.fromtimestamp(time.time(), UTC)
        if len(self._entries) == self._entries.maxlen:
            self._dropped += 1
        at = round(now - self._origin, 6)
        self._entries.append(JournalEntry(at, event, conversation, epoch, **details))

    def _note(self, call: ToolCall) -> CallNote:
        return CallNote(
            id=call.tool_call_id[:_MAX_ID],
            arguments=len(call.arguments),
            result=None if call.content is None else len(call.content),
            outlives_turn=call.outlives_turn,
            has_side_effects=call.has_side_effects,
            tool=call.name[:_MAX_ID] if self._tool_names else None,
        )

    # --- reading -----------------------------------------------------------------------------

    @property
    def limit(self) -> int:
        """How many entries are kept."""
        return self._entries.maxlen or 0

    @property
    def entries(self) -> tuple[JournalEntry, ...]:
        """The entries that are kept, oldest first."""
        return tuple(self._entries)

    @property
    def dropped(self) -> int:
        """How many entries have made room for newer ones."""
        return self._dropped

    @property
    def began_at(self) -> datetime | None:
        """The wall clock at the first entry; None while there is none."""
        return self._began_at

    def __repr__(self) -> str:
        return (
            f"<TurnJournal: {len(self._entries)} of {self.limit} entries, {self.dropped} dropped>"
        )

    def __str__(self) -> str:
        return self.table()

    # --- showing -----------------------------------------------------------------------------

    def table(self) -> str:
        """Show the entries as a table of plain text, one line each."""
        several = any(entry.conversation > 1 for entry in self._entries)
        head = f"{'time':>10}  {'turn':>5}  {'round':>5}  {'event':<17}  details"
        lines = [f"{'conv':>4}  {head}" if several else head]
        if self._dropped:
            lines.append(f"({self._dropped} older entries were dropped)")
        for entry in self._entries:
            number = "" if entry.round is None else entry.round
            line = (
                f"{entry.at:>10.3f}  {entry.epoch:>5}  {number:>5}  {entry.event:<17}  "
                f"{describe(entry)}"
            )
            lines.append((f"{entry.conversation:>4}  {line}" if several else line).rstrip())
        return "\n".join(lines)

    def json_lines(self) -> str:
        """The entries as JSON, one object a line, oldest first."""
        return "".join(json.dumps(entry.as_dict()) + "\n" for entry in self._entries)

    def html(self, *, title: str = "Turn journal") -> str:
        """Show the entries as a timeline: one self-contained HTML page.

        Args:
            title: The page's title.

        Returns:
            The page. It loads nothing and runs no script.
        """
        from pipecat_turn_acid._journal_page import render

        return render(self, title=title)

    def write_json_lines(self, path: str | Path) -> None:
        """Write the entries to a file, as `json_lines` has them.

        Args:
            path: The file; what it held is replaced.
        """
        Path(path).write_text(self.json_lines(), encoding="utf-8")

    def write_html(self, path: str | Path, *, title: str = "Turn journal") -> None:
        """Write the timeline to a file, as `html` has it.

        Args:
            path: The file; what it held is replaced.
            title: The page's title.
        """
        Path(path).write_text(self.html(title=title), encoding="utf-8")


class _Watch:
    """One conversation that a journal listens to."""

    def __init__(
        self,
        context: TransactionalLLMContext,
        *,
        add: Callable[..., None],
        note: Callable[[ToolCall], CallNote],
        forget: Callable[[], None],
    ):
        self._context = context
        self._add = add
        self._note = note
        self._forget = forget
        self._assistant: LLMAssistantAggregator | None = None
        self._response_of: int | None = None
        self._is_taken = False
        self._remove = context.add_listener(self._on_event)

    def listen_to(self, assistant: LLMAssistantAggregator) -> None:
        if self._assistant is None:
            self._assistant = assistant
            assistant.add_event_handler("on_before_process_frame", self._on_frame)

    def stop(self) -> None:
        self._remove()
        if self._assistant is not None:
            self._assistant.remove_event_handler("on_before_process_frame", self._on_frame)
            self._assistant = None
        self._forget()

    def _add_round(self, event: JournalEvent, round: ToolRound, what: str | None = None) -> None:
        calls = round.calls
        self._add(
            event,
            round.epoch,
            round=round.number,
            calls=tuple(self._note(call) for call in calls[:_MAX_CALLS]),
            call_count=len(calls),
            is_late=round.is_late,
            what=what,
        )

    def _on_frame(self, _: Any, frame: Frame) -> None:
        if isinstance(frame, LLMFullResponseStartFrame):
            epoch = self._context.turn_of(frame)
            if self._context.is_live(epoch):
                self._response_of = epoch
                self._add(JournalEvent.RESPONSE_STARTED, epoch)
        elif isinstance(frame, LLMFullResponseEndFrame) and self._response_of is not None:
            if self._context.turn_of(frame) == self._response_of:
                self._add(JournalEvent.RESPONSE_ENDED, self._response_of)
                self._response_of = None

    def _on_event(self, event: TurnEvent) -> None:
        match event:
            case TurnStarted(epoch):
                self._add(JournalEvent.TURN_STARTED, epoch)
            case TurnEnding():
                self._is_taken = True
                if self._response_of is not None:
                    self._add(JournalEvent.RESPONSE_CUT, self._response_of)
                    self._response_of = None
            case TurnEnded(epoch):
                what = BY_USER if self._is_taken else BY_NEXT_TURN
                self._is_taken = False
                self._add(JournalEvent.TURN_ENDED, epoch, what=what)
            case RoundStaged(round):
                self._add_round(JournalEvent.ROUND_STAGED, round)
            case RoundSpliced(round):
                self._add_round(JournalEvent.ROUND_SPLICED, round)
            case RoundCommitted(round):
                self._add_round(JournalEvent.ROUND_COMMITTED, round)
            case RoundRolledBack(round):
                self._add_round(JournalEvent.ROUND_ROLLED_BACK, round)
            case HookFailed(round, error):
                self._add_round(JournalEvent.HOOK_FAILED, round, what=type(error).__name__)
            case StaleFenced(work):
                self._add(
                    JournalEvent.FENCED,
                    work.epoch,
                    what=work.kind,
                    tool_call_id=work.tool_call_id and work.tool_call_id[:_MAX_ID],
                    reason=work.reason,
                )
            case HistoryRepaired(orphans):
                for orphan in orphans:
                    self._add(
                        JournalEvent.REPAIRED,
                        self._context.epoch,
                        what=orphan.kind.value,
                        tool_call_id=orphan.tool_call_id[:_MAX_ID],
                    )


def _parts(target: Any) -> tuple[TransactionalLLMContext, LLMAssistantAggregator | None]:
    """The context of what is to be watched, and its assistant aggregator where it is known."""
    assistant = None
    context: Any = target
    if isinstance(target, LLMContextAggregatorPair):
        assistant = target.assistant()
        context = assistant.context
    elif isinstance(target, LLMContextAggregator):
        assistant = target if isinstance(target, LLMAssistantAggregator) else None
        context = target.context
    if not isinstance(context, TransactionalLLMContext):
        raise TypeError(
            f"can't watch a {type(target).__name__}: it has no turns; pass a "
            "TransactionalLLMContext, or an aggregator or a pair that is built on one"
        )
    return context, assistant


def _now() -> float:
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        # By hand, without a loop. A real loop reads the same clock.
        return time.monotonic()


# --- words -----------------------------------------------------------------------------------


def describe(entry: JournalEntry) -> str:
    """Say on one line what an entry tells beside its event; empty if nothing.

    Args:
        entry: The entry.
    """
    if entry.round is not None:
        parts = [describe_calls(entry)]
        if entry.what:
            parts.append(entry.what)
        if entry.is_late:
            parts.append("late")
        return "; ".join(parts)
    what = entry.what or ""
    if entry.tool_call_id is not None:
        what = f"{what} [{printable(entry.tool_call_id)}]"
    return f"{what}: {entry.reason}" if entry.reason else what


def describe_calls(entry: JournalEntry) -> str:
    """Name the calls of an entry's round, each with what became of it.

    Args:
        entry: An entry about a round.
    """
    shown = [describe_call(call) for call in entry.calls]
    if entry.call_count > len(shown):
        shown.append(f"{entry.call_count - len(shown)} more")
    return ", ".join(shown)


def describe_call(call: CallNote) -> str:
    """Name a call, and say what became of it.

    Args:
        call: The call.
    """
    name = f"[{printable(call.id)}]"
    if call.tool:
        name = f"{printable(call.tool)} {name}"
    if call.result is not None:
        name += " answered"
    if call.outlives_turn:
        name += " outlives"
    if call.has_side_effects:
        name += " side effects"
    return name


def printable(text: str) -> str:
    """A name as one line of plain text: what would break the line is escaped.

    Args:
        text: An id or a name, which a provider or a model may have chosen.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
