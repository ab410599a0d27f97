# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Write the diagrams and tables of life-of-a-turn.md from the tables in the core.

Usage: python docs/diagrams.py [--check]

What stands between ``<!-- generated: NAME -->`` and ``<!-- end -->`` in the page is
replaced. With --check nothing is written, and the exit status is 1 if the page is
not what would be written.
"""

import inspect
import re
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from pipecat_turn_acid.core import (
    ROUND_TRANSITIONS,
    TURN_TRANSITIONS,
    RoundMove,
    RoundState,
    TurnMove,
    TurnState,
)

PAGE = Path(__file__).with_name("life-of-a-turn.md")

# The tables hold moves. Where a turn and a round begin is decided by `Turns`.
TURN_STARTS = {TurnState.LIVE: "epoch 0"}
ROUND_STARTS = {
    RoundState.STAGED: "the model waits for a call",
    RoundState.OUTLIVING: "it waits for none",
    RoundState.FENCED: "the turn is over",
}

Transitions = Mapping[Any, Mapping[Any, StrEnum]]


def diagram(table: Transitions, starts: Mapping[Any, str]) -> str:
    """A table of moves as a Mermaid state diagram."""
    lines = ["```mermaid", "stateDiagram-v2"]
    for state, moves in table.items():
        # A loop's name would cover the names of the arrows beside it.
        staying = [move.value for move, to in moves.items() if to is state]
        note = f"<br>({', '.join(staying)}: stays)" if staying else ""
        lines.append(f'    state "{state}{note}" as {_id(state)}')
    lines += [f"    [*] --> {_id(state)}: {why}" for state, why in starts.items()]
    for state, moves in table.items():
        leaving = {move: to for move, to in moves.items() if to is not state}
        lines += [f"    {_id(state)} --> {_id(to)}: {move}" for move, to in leaving.items()]
        if not leaving:
            lines.append(f"    {_id(state)} --> [*]")
    return "\n".join([*lines, "```"])


def matrix(table: Transitions, moves: type[StrEnum]) -> str:
    """A table of moves as a table: a row for each state, a column for each move."""
    lines = [
        f"| | {' | '.join(move.value for move in moves)} |",
        f"|---|{'---|' * len(moves)}",
    ]
    for state, legal in table.items():
        cells = [str(legal.get(move, "–")) for move in moves]
        lines.append(f"| **{state}** | {' | '.join(cells)} |")
    return "\n".join(lines)


def meanings(values: type[StrEnum]) -> str:
    """What each value of an enumeration means, from its docstring."""
    text = inspect.cleandoc(values.__doc__ or "").split("Parameters:\n", 1)[1]
    found = re.findall(r"^ {4}([A-Z_]+): (.+?)(?=^ {4}[A-Z_]+: |\Z)", text, re.M | re.S)
    meaning = {name: re.sub(r"\s+", " ", words).strip() for name, words in found}
    return "\n".join(f"- **{value}**: {meaning[value.name]}" for value in values)


def blocks() -> dict[str, str]:
    """Everything that is generated, by its name in the page."""
    return {
        "turn diagram": diagram(TURN_TRANSITIONS, TURN_STARTS),
        "turn table": matrix(TURN_TRANSITIONS, TurnMove),
        "turn states": meanings(TurnState),
        "round diagram": diagram(ROUND_TRANSITIONS, ROUND_STARTS),
        "round table": matrix(ROUND_TRANSITIONS, RoundMove),
        "round states": meanings(RoundState),
        "round moves": meanings(RoundMove),
    }


def filled(page: str) -> str:
    """The page with its generated parts written anew.

    Raises:
        ValueError: A generated part has no place in the page, or a place no part.
    """
    parts = blocks()
    places = re.findall(r"<!-- generated: (.+?) -->", page)
    if sorted(places) != sorted(parts):
        raise ValueError(f"the page has places for {sorted(places)}, not for {sorted(parts)}")
    return re.sub(
        r"<!-- generated: (.+?) -->\n.*?<!-- end -->",
        lambda m: f"<!-- generated: {m[1]} -->\n\n{parts[m[1]]}\n\n<!-- end -->",
        page,
        flags=re.S,
    )


def main(arguments: list[str]) -> int:
    """Write the page, or check it."""
    page = PAGE.read_text(encoding="utf-8")
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    if filled(page) == page:
        return 0
    if arguments:
        print(f"{PAGE.name} is not what docs/diagrams.py writes: run it", file=sys.stderr)
        return 1
    PAGE.write_text(filled(page), encoding="utf-8")
    return 0


def _id(state: StrEnum) -> str:
    return state.value.replace(" ", "_")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
