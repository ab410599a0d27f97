# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A diary of one call: who said what when, as it was really heard and played."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Who(Enum):
    """Whose doing an entry is."""

    YOU = "you"
    BOT = "bot"
    TOOL = "tool"
    MODEL = "llm"


@dataclass
class Entry:
    """One thing that was said or done.

    Parameters:
        at: Seconds since the call began.
        who: Whose doing it is.
        text: What was said, or what was done.
        over: Whether the entry is complete.
        ending: How it ended, if not by itself.
    """

    at: float
    who: Who
    text: str = ""
    over: bool = False
    ending: str = ""


@dataclass(frozen=True)
class Request:
    """What one request showed the model.

    Parameters:
        number: Counted from 1 in each call.
        at: Seconds since the call began.
        messages: The messages, as they were sent.
    """

    number: int
    at: float
    messages: list[dict[str, Any]]


@dataclass
class Diary:
    """Collects what happens in one call, and lets others wait for it.

    Parameters:
        on_change: Called after each note.
        entries: What was said and done, in the order in which it began.
        requests: What the model was shown.
        faults: What kept the call from going on.
    """

    on_change: Callable[[], None] = lambda: None
    entries: list[Entry] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    words_played: int = 0
    tools_running: int = 0
    last_change: float = 0.0
    _began: float | None = None
    _asking: bool = False
    _waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = field(default_factory=list)

    def begin(self) -> None:
        """Start the clock."""
        self._began = asyncio.get_running_loop().time()

    @property
    def now(self) -> float:
        """Seconds since the call began; 0 before."""
        return 0.0 if self._began is None else asyncio.get_running_loop().time() - self._began

    @property
    def busy(self) -> bool:
        """Whether somebody is speaking, a tool is running, or the model is being asked."""
        return self._asking or any(not entry.over for entry in self.entries)

    @property
    def recognised(self) -> bool:
        """Whether words have been recognised in what the caller says."""
        entry = self._open(Who.YOU)
        return entry is not None and bool(entry.text)

    async def until(self, condition: Callable[[], bool], *, timeout: float) -> bool:
        """Wait for something to be noted.

        Args:
            condition: Checked after each note.
            timeout: Seconds to wait at most.

        Returns:
            Whether it came true.
        """
        if condition():
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((condition, future))
        try:
            await asyncio.wait_for(future, timeout)
        except TimeoutError:
            return condition()
        finally:
            self._waiting = [(c, f) for c, f in self._waiting if f is not future]
        return True

    async def until_quiet(self, seconds: float, *, timeout: float) -> bool:
        """Wait until nobody has done anything for a while.

        Args:
            seconds: How long it must have been quiet.
            timeout: Seconds to wait at most.

        Returns:
            Whether it became quiet.
        """
        give_up = self.now + timeout
        while self.now < give_up:
            if self.busy:
                await self.until(lambda: not self.busy, timeout=give_up - self.now)
            elif (rest := self.last_change + seconds - self.now) <= 0:
                return True
            else:
                await asyncio.sleep(rest)
        return False

    # --- notes ---------------------------------------------------------------------------------

    def you_started(self) -> None:
        """The caller begins to speak."""
        ending = "over the bot" if self._open(Who.BOT) else ""
        self._note(Entry(self.now, Who.YOU, ending=ending))

    def heard(self, text: str) -> None:
        """The bot has recognised what the caller says."""
        open_entry = self._open(Who.YOU)
        if open_entry is None:
            open_entry = Entry(self.now, Who.YOU, over=True)
            self.entries.append(open_entry)
        open_entry.text = f"{open_entry.text} {text}".strip()
        self._note()

    def you_stopped(self) -> None:
        """The caller has finished and has been understood."""
        self._close(Who.YOU)

    def request(self, messages: list[dict[str, Any]]) -> None:
        """The model is asked."""
        self._asking = True
        self.requests.append(Request(len(self.requests) + 1, self.now, messages))
        text = f"request {len(self.requests)}"
        self._note(Entry(self.now, Who.MODEL, text, over=True))

    def answered(self) -> None:
        """The model's answer is complete, or nobody waits for it any more."""
        self._asking = False
        self._note()

    def tool_started(self, call: str) -> Callable[[str], None]:
        """A tool runs.

        Args:
            call: The call, as one would write it.

        Returns:
            To be called with how it ended.
        """
        entry = Entry(self.now, Who.TOOL, call)
        self.tools_running += 1
        self._note(entry)

        def ended(how: str) -> None:
            self.tools_running -= 1
            entry.over, entry.ending = True, how
            self._note()

        return ended

    def bot_started(self) -> None:
        """The bot begins to speak."""
        if self._open(Who.BOT) is None:
            self._note(Entry(self.now, Who.BOT))

    def bot_said(self, word: str) -> None:
        """A word of the bot has been played."""
        self.bot_started()
        entry = self._open(Who.BOT)
        assert entry is not None
        entry.text = f"{entry.text} {word}".strip()
        self.words_played += 1
        self._note()

    def bot_stopped(self, *, cut: bool) -> None:
        """The bot has finished, or was cut short."""
        entry = self._open(Who.BOT)
        if entry is not None:
            if cut:
                entry.ending = "cut off"
            self._close(Who.BOT)

    def failed(self, what: str) -> None:
        """Something went wrong that is not the history's fault."""
        self.faults.append(what)
        self._note()

    def close(self) -> None:
        """Nothing more will be said."""
        for entry in self.entries:
            entry.over = True
        self._note()

    def _open(self, who: Who) -> Entry | None:
        return next((e for e in reversed(self.entries) if e.who is who and not e.over), None)

    def _close(self, who: Who) -> None:
        if entry := self._open(who):
            entry.over = True
        self._note()

    def _note(self, entry: Entry | None = None) -> None:
        if entry:
            self.entries.append(entry)
        self.last_change = self.now
        for condition, future in self._waiting:
            if not future.done() and condition():
                future.set_result(None)
        self.on_change()
