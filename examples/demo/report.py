# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Prints two calls side by side: what was said when, and what the model was shown."""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final, TextIO

from examples.demo.call import Outcome
from examples.demo.diary import Diary, Entry, Request, Who
from pipecat_turn_acid.testing.checks import Finding, Rule, check_history, errors

_TOGETHER_SECS: Final = 1.0
"""Entries of the two calls that begin within this time, and say the same, share a row."""

_STYLES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
}
_COLOURS: Final = {Who.YOU: "cyan", Who.BOT: "green", Who.TOOL: "yellow", Who.MODEL: "dim"}
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")

Cell = Sequence[str]


class Paper:
    """Where the report is printed, with what it can show.

    On anything but a terminal, with ``NO_COLOR`` set, or on a terminal that says it is dumb, it is
    plain text; without a Unicode encoding it is ASCII.
    """

    def __init__(self, stream: TextIO | None = None, *, width: int | None = None):
        """Prepare to print.

        Args:
            stream: Where to; standard output by default.
            width: In columns; that of the terminal by default, between 80 and 120.
        """
        self._stream = stream or sys.stdout
        terminal = self._stream.isatty()
        self._colour = (
            terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        )
        self.live = terminal and os.environ.get("TERM") != "dumb"
        encoding = (getattr(self._stream, "encoding", None) or "ascii").casefold()
        self._unicode = encoding.replace("-", "").startswith("utf")
        self.width = width or min(120, max(80, shutil.get_terminal_size((100, 24)).columns))
        self._status = False

    def style(self, text: str, *styles: str) -> str:
        """Colour a text, if the paper takes colour.

        Args:
            text: The text.
            *styles: Names of styles.
        """
        if not self._colour or not styles or not text:
            return text
        return f"\x1b[{';'.join(_STYLES[s] for s in styles)}m{text}\x1b[0m"

    def glyph(self, unicode: str, ascii: str) -> str:
        """Choose between a character and its stand-in.

        Args:
            unicode: What is meant.
            ascii: What every encoding has.
        """
        return unicode if self._unicode else ascii

    def line(self, text: str = "") -> None:
        """Print a line.

        Args:
            text: The line.
        """
        self.status("")
        if not self._unicode:
            text = text.encode("ascii", "replace").decode()
        print(text.rstrip(), file=self._stream, flush=True)

    def paragraph(self, text: str) -> None:
        """Print a text over as many lines as it needs.

        Args:
            text: The text.
        """
        for line in textwrap.wrap(text, self.width):
            self.line(line)

    def status(self, text: str) -> None:
        """Show what is going on now, on a line that the next one replaces.

        Args:
            text: What is going on; empty to take the line away.
        """
        if not self.live or not (text or self._status):
            return
        self._status = bool(text)
        print(f"\r\x1b[K{text}", end="", file=self._stream, flush=True)

    def heading(self, text: str) -> None:
        """Print a heading.

        Args:
            text: The heading.
        """
        self.line()
        rule = self.glyph("─", "-") * max(0, self.width - len(text) - 4)
        self.line(self.style(f"{self.glyph('──', '--')} {text} {rule}", "bold"))

    def rows(self, left: Cell, right: Cell, *, margin: str = "") -> None:
        """Print two cells side by side.

        Args:
            left: The lines of the left cell, no longer than :attr:`column`.
            right: The lines of the right cell.
            margin: What stands before the first line, no longer than :attr:`margin`.
        """
        bar = self.style(self.glyph("│", "|"), "dim")
        for a, b in zip_longest(left, right, fillvalue=""):
            pad = " " * max(0, self.column - len(_ANSI.sub("", a)))
            self.line(f"{margin:<{self.margin}}{a}{pad} {bar} {b}")
            margin = ""

    @property
    def margin(self) -> int:
        """Columns before the left cell."""
        return 7

    @property
    def column(self) -> int:
        """Columns of a cell."""
        return (self.width - self.margin - 3) // 2

    def wrap(self, text: str, indent: int = 0) -> list[str]:
        """Break a text to fit a cell.

        Args:
            text: The text.
            indent: Columns that something else takes.
        """
        return textwrap.wrap(text, self.column - indent, break_on_hyphens=False) or [""]


class SideBySide:
    """Prints the entries of two diaries as they become complete, in the order they began."""

    def __init__(self, paper: Paper, left: Diary, right: Diary):
        """Begin the table.

        Args:
            paper: Where to print.
            left: The call on the left.
            right: The call on the right.
        """
        self._paper = paper
        self._diaries = left, right
        self._printed = 0, 0

    def update(self, *, last: bool = False) -> None:
        """Print what is complete. An entry waits for those that began before it.

        Args:
            last: Whether nothing more will be noted.
        """
        while (row := self._next_row(last)) is not None:
            self._print(*row)
        doing = [_now(diary) for diary in self._diaries]
        if any(doing):
            column = self._paper.column
            a, b = (text[-column:] for text in doing)
            text = f"{self._diaries[0].now:5.1f}s {a:<{column}} {' '} {b}"
            self._paper.status(self._paper.style(text[: self._paper.width - 1], "dim"))

    def finish(self) -> None:
        """Print what is left."""
        self.update(last=True)
        self._paper.status("")

    def _next_row(self, last: bool) -> tuple[Entry | None, Entry | None] | None:
        heads = [
            sorted(diary.entries, key=lambda entry: entry.at)[done:]
            for diary, done in zip(self._diaries, self._printed, strict=True)
        ]
        left, right = (head[0] if head else None for head in heads)
        if left is None and right is None:
            return None
        if left and right and _alike(left, right):
            if not (left.over and right.over):
                return None
            self._printed = self._printed[0] + 1, self._printed[1] + 1
            return left, right
        # The other call may yet come to say the same.
        first = min((e for e in (left, right) if e), key=lambda entry: entry.at)
        waited = 0.0 if last else self._diaries[first is right].now - first.at
        if not last and (not first.over or waited < _TOGETHER_SECS):
            return None
        if first is left:
            self._printed = self._printed[0] + 1, self._printed[1]
            return left, None
        self._printed = self._printed[0], self._printed[1] + 1
        return None, right

    def _print(self, left: Entry | None, right: Entry | None) -> None:
        at = min(entry.at for entry in (left, right) if entry)
        self._paper.rows(self._cell(left), self._cell(right), margin=f"{at:5.1f}s ")

    def _cell(self, entry: Entry | None) -> Cell:
        if entry is None:
            return []
        colour = _COLOURS[entry.who]
        text = entry.text or "(nothing understood)"
        if entry.who is Who.BOT and entry.ending:
            text += f"{self._paper.glyph('—', '--')} ({entry.ending})"
        elif entry.who is Who.YOU and entry.ending:
            text += f" ({entry.ending})"
        elif entry.ending:
            text += f" {self._paper.glyph('→', '->')} {entry.ending}"
        lines = self._paper.wrap(text, 5)
        styled = [self._paper.style(line, colour) for line in lines]
        return [f"{entry.who.value if i == 0 else '':<5}{line}" for i, line in enumerate(styled)]


def _alike(left: Entry, right: Entry) -> bool:
    return (
        left.who is right.who
        and abs(left.at - right.at) < _TOGETHER_SECS
        and (
            not (left.over and right.over) or (left.text, left.ending) == (right.text, right.ending)
        )
    )


def _now(diary: Diary) -> str:
    doing = [entry for entry in diary.entries if not entry.over]
    return "  ".join(f"{entry.who.value}: {entry.text}".strip() for entry in doing)


def titles(paper: Paper, left: str, right: str) -> None:
    """Print the heads of the columns.

    Args:
        paper: Where to print.
        left: The name of the call on the left.
        right: The name of the call on the right.
    """
    paper.rows([paper.style(left.upper(), "bold")], [paper.style(right.upper(), "bold")])


def histories(paper: Paper, outcomes: Sequence[Outcome]) -> None:
    """Print what the model was shown next, with the damage marked.

    Args:
        paper: Where to print.
        outcomes: The two calls.
    """
    requests = [outcome.next_request for outcome in outcomes]
    paper.heading("What the next request showed the model")
    titles(paper, *(outcome.name for outcome in outcomes))
    cells = [list(_shown(paper, request)) for request in requests]
    paper.rows(*cells)


def _shown(paper: Paper, request: Request | None) -> Iterator[str]:
    if request is None:
        yield paper.style("(there was no next request)", "red")
        return
    findings = errors(check_history(request.messages))
    for index, message in enumerate(request.messages):
        if message.get("role") in ("system", "developer"):
            continue
        damage = [f for f in findings if f.index == index]
        yield from _message(paper, message, damage)


def _message(paper: Paper, message: dict[str, Any], damage: Iterable[Finding]) -> Iterator[str]:
    damage = list(damage)
    styles = ("red", "bold") if damage else ()
    role = str(message.get("role"))
    mark = f"{paper.glyph('✗', '!')} " if damage else "  "
    first = True
    for text in _texts(paper, message):
        for line in paper.wrap(text, 12):
            yield paper.style(
                f"{mark if first else '  '}{role if first else '':<10}{line}", *styles
            )
            first = False
    for finding in damage:
        explanation = f"{paper.glyph('└', '^')} {_plainly(finding)}"
        for line in paper.wrap(explanation, 4):
            yield paper.style(f"    {line}", "red")


def _texts(paper: Paper, message: dict[str, Any]) -> Iterator[str]:
    if message.get("content"):
        yield str(message["content"])
    for call in message.get("tool_calls") or []:
        function = call["function"]
        yield f"{paper.glyph('→', '->')} {function['name']} {function['arguments']}"


def _plainly(finding: Finding) -> str:
    if finding.rule is Rule.PLACEHOLDER:
        return "no result will ever come; the model is told that it still runs"
    return f"{finding.rule.value}: {finding.message}"


def verdict(paper: Paper, outcome: Outcome, reasons: Sequence[str]) -> None:
    """Print what is to be thought of one call.

    Args:
        paper: Where to print.
        outcome: The call.
        reasons: What is wrong with it; empty if nothing is.
    """
    if reasons:
        head = paper.style(f"{paper.glyph('✗', '!')} {outcome.name}", "red", "bold")
        paper.line(f"{head}: {reasons[0]}")
        for reason in reasons[1:]:
            paper.line(f"{'':<{len(outcome.name) + 4}}{reason}")
    else:
        head = paper.style(f"{paper.glyph('✓', '+')} {outcome.name}", "green", "bold")
        if outcome.remembers_the_cut_call:
            kept = "the interrupted call was complete and kept whole"
        else:
            kept = "no trace of the interrupted call"
        paper.line(f"{head}: {kept}; order {outcome.meant} answered")
