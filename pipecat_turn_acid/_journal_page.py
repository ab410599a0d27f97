# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Draw a turn journal as one self-contained HTML page.

Turns are lanes that share one scale of seconds since the turn began; rounds are
bars. What a bar shows is also said in words beside it, and all of it once more
in a table. The page runs no script.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Final

from pipecat_turn_acid.journal import (
    BY_NEXT_TURN,
    BY_USER,
    CallNote,
    JournalEntry,
    JournalEvent,
    TurnJournal,
    describe,
    printable,
)

_ROUND_EVENTS: Final = {
    JournalEvent.ROUND_STAGED: "staged",
    JournalEvent.ROUND_SPLICED: "outliving",
    JournalEvent.ROUND_COMMITTED: "committed",
    JournalEvent.ROUND_ROLLED_BACK: "rolled back",
}
_SIGNS: Final = {
    "committed": "✓",
    "rolled back": "✕",
    "outliving": "→",
    "staged": "…",
    "fenced": "⊘",
    "repaired": "⚒",
    "hook failed": "!",
}
_LEGEND: Final = (
    ("response", "what the model said"),
    ("committed", "the round is in the history, whole"),
    ("rolled back", "the round left the history as it was"),
    ("outliving", "calls of the round run on, whatever the user says"),
    ("staged", "the round was still open at the last entry"),
    ("fenced", "late work of a turn that was over, turned away"),
    ("over", "the turn was over"),
)


@dataclass
class _Round:
    number: int
    begins: float
    ends: float | None
    state: str
    entry: JournalEntry


@dataclass
class _Response:
    begins: float
    ends: float | None = None
    cut: bool = False


@dataclass
class _Lane:
    """One turn.

    Parameters:
        conversation: Which conversation it is of.
        epoch: Its number.
        begins: When it began, or the first time that is known of it.
        is_whole: Whether its beginning is known.
        ends: When it was over; None while it is not.
        by_user: Whether the user took the floor; else the next turn took over.
        last: The last time at which anything of it happened.
    """

    conversation: int
    epoch: int
    begins: float
    is_whole: bool
    last: float
    ends: float | None = None
    by_user: bool = False
    responses: list[_Response] = field(default_factory=list[_Response])
    rounds: dict[int, _Round] = field(default_factory=dict[int, _Round])
    marks: list[JournalEntry] = field(default_factory=list[JournalEntry])

    @property
    def has_content(self) -> bool:
        """Whether anything was said, called, dropped or turned away in it."""
        return bool(self.responses or self.rounds or self.marks)

    @property
    def is_remarkable(self) -> bool:
        """Whether anything was dropped, turned away or mended."""
        return bool(self.marks) or any(r.state == "rolled back" for r in self.rounds.values())


def render(journal: TurnJournal, *, title: str) -> str:
    """Return the page.

    Args:
        journal: What to draw.
        title: The page's title.
    """
    entries = journal.entries
    lanes = _lanes(entries)
    end = entries[-1].at if entries else 0.0
    several = len({lane.conversation for lane in lanes}) > 1
    scale = _Scale(max((_extent(lane, end) for lane in lanes), default=1.0))
    name = escape(printable(title))
    body = "\n".join(_lane(lane, scale, end, several) for lane in lanes)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<h1>{name}</h1>
{_summary(journal, lanes, end)}
</header>
<main>
<section aria-labelledby="key">
<h2 id="key">Key</h2>
<ul class="key">
{_legend()}
</ul>
</section>
<section aria-labelledby="turns">
<h2 id="turns">Turns</h2>
<p>Each lane is a turn; its scale counts seconds since the turn began, and is the same in all. Open
a round to see its calls.</p>
<div class="controls">
<fieldset><legend>Width</legend>{_zoom()}</fieldset>
<label><input type="checkbox" id="remarkable"> Only turns with something dropped, turned away or
mended</label>
</div>
<div class="scroller" tabindex="0" role="region" aria-label="Timeline of the turns">
<ol class="lanes">
{body}
</ol>
</div>
</section>
<section aria-labelledby="entries">
<h2 id="entries">Entries</h2>
<details><summary>All {len(entries)} entries as a table</summary>
{_table(entries, several)}
</details>
</section>
</main>
</body>
</html>
"""


# --- what is drawn -----------------------------------------------------------------------------


def _lanes(entries: Iterable[JournalEntry]) -> list[_Lane]:
    lanes: dict[tuple[int, int], _Lane] = {}
    for entry in entries:
        key = entry.conversation, entry.epoch
        starts = entry.event is JournalEvent.TURN_STARTED
        lane = lanes.get(key)
        if lane is None:
            lane = lanes[key] = _Lane(*key, entry.at, starts or entry.epoch == 0, entry.at)
        if not starts:
            _place(entry, lane)
    # Of a turn whose end alone is known there is nothing to show, nor of the time before the first.
    return [lane for lane in lanes.values() if lane.has_content or (lane.epoch and lane.is_whole)]


def _place(entry: JournalEntry, lane: _Lane) -> None:
    if entry.event is JournalEvent.TURN_ENDED:
        lane.ends, lane.by_user = entry.at, entry.what == BY_USER
        return
    lane.last = entry.at
    if entry.event is JournalEvent.RESPONSE_STARTED:
        lane.responses.append(_Response(entry.at))
    elif entry.event in (JournalEvent.RESPONSE_ENDED, JournalEvent.RESPONSE_CUT):
        if not lane.responses or lane.responses[-1].ends is not None:
            lane.responses.append(_Response(lane.begins))
        lane.responses[-1].ends = entry.at
        lane.responses[-1].cut = entry.event is JournalEvent.RESPONSE_CUT
    elif entry.event in _ROUND_EVENTS and entry.round is not None:
        state = _ROUND_EVENTS[entry.event]
        known = lane.rounds.get(entry.round)
        begins = known.begins if known else entry.at if state == "staged" else lane.begins
        ends = entry.at if state in ("committed", "rolled back") else None
        if state == "staged" and all(call.outlives_turn for call in entry.calls):
            state = "outliving"
        lane.rounds[entry.round] = _Round(entry.round, begins, ends, state, entry)
    else:
        lane.marks.append(entry)


def _extent(lane: _Lane, end: float) -> float:
    """How many seconds of a lane have something in them."""
    is_open = any(r.ends is None for r in (*lane.responses, *lane.rounds.values()))
    return (end if is_open else lane.last) - lane.begins


class _Scale:
    def __init__(self, seconds: float):
        rough = max(seconds, 0.001) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        self.step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough * 0.999)
        self.steps = max(1, math.ceil(seconds / self.step - 1e-9))
        self.seconds = self.step * self.steps

    def percent(self, seconds: float) -> float:
        return 100 * min(max(seconds / self.seconds, 0.0), 1.0)

    def names(self) -> Iterator[tuple[float, str]]:
        for number in range(self.steps + 1):
            yield 100 * number / self.steps, f"{number * self.step:g}"


# --- the page ----------------------------------------------------------------------------------


def _summary(journal: TurnJournal, lanes: list[_Lane], end: float) -> str:
    rounds = [r for lane in lanes for r in lane.rounds.values()]
    marks = [m for lane in lanes for m in lane.marks]
    counts = (
        (len(lanes), "turns"),
        (sum(r.state == "committed" for r in rounds), "rounds committed"),
        (sum(r.state == "rolled back" for r in rounds), "rolled back"),
        (sum(m.event is JournalEvent.FENCED for m in marks), "fenced"),
        (sum(m.event is JournalEvent.REPAIRED for m in marks), "repaired"),
    )
    items = "".join(f"<div><dt>{what}</dt><dd>{count}</dd></div>" for count, what in counts)
    began = journal.began_at
    when = f"{began:%Y-%m-%d %H:%M:%S} UTC, " if began else ""
    lost = ""
    if journal.dropped:
        lost = (
            f'<p class="lost">{journal.dropped} older entries are not shown: the journal keeps '
            f"{journal.limit}.</p>"
        )
    return f'<p>{when}{end:.3f} s</p>{lost}<dl class="counts">{items}</dl>'


def _legend() -> str:
    return "\n".join(
        f'<li><span class="sample"><span class="{"" if name == "over" else "bar "}{_css(name)}">'
        f"</span></span><span>{'' if name == 'over' else f'{_named(name)}: '}{what}</span></li>"
        for name, what in _LEGEND
    )


def _named(state: str) -> str:
    sign = f'<span aria-hidden="true">{_SIGNS[state]} </span>' if state in _SIGNS else ""
    return f'<strong class="state {_css(state)}">{sign}{state}</strong>'


def _css(state: str) -> str:
    return state.replace(" ", "-")


def _zoom() -> str:
    return "".join(
        f'<label><input type="radio" name="zoom" id="zoom{factor}"{checked}> {name}</label>'
        for factor, name, checked in (
            (1, "fit", " checked"),
            (2, "2 ×", ""),
            (4, "4 ×", ""),
            (8, "8 ×", ""),
        )
    )


def _lane(lane: _Lane, scale: _Scale, end: float, several: bool) -> str:
    rows: list[tuple[float, str]] = []
    if lane.responses:
        rows.append((lane.responses[0].begins, _response_row(lane, scale, end)))
    rows += [(r.begins, _round_row(r, lane, scale, end)) for r in lane.rounds.values()]
    rows += [(mark.at, _mark_row(mark, lane, scale)) for mark in lane.marks]
    rows.sort(key=lambda row: row[0])
    kind = "lane remarkable" if lane.is_remarkable else "lane"
    inside = _axis(scale) + f"<ol>{''.join(row for _, row in rows)}</ol>" if rows else ""
    return (
        f'<li class="{kind}"><div class="about"><h3>{_title(lane, several)}</h3>'
        f"<p>{_life(lane)}</p></div>"
        f'<div class="track" style="--step:{100 / scale.steps:.4f}%">{inside}'
        f"{'' if rows else '<p class=nothing>Nothing was called or said.</p>'}</div></li>"
    )


def _title(lane: _Lane, several: bool) -> str:
    name = f"Turn {lane.epoch}" if lane.epoch else "Before the first turn"
    return f"Conversation {lane.conversation}, {name[0].lower()}{name[1:]}" if several else name


def _life(lane: _Lane) -> str:
    since = f"from {lane.begins:.3f} s" if lane.is_whole else "began before the oldest entry"
    if lane.ends is None:
        return since
    who = BY_USER if lane.by_user else BY_NEXT_TURN
    took = f", after {lane.ends - lane.begins:.3f} s" if lane.is_whole else ""
    return f"{since}, until {who} at {lane.ends:.3f} s{took}"


def _axis(scale: _Scale) -> str:
    names = "".join(
        f'<span style="left:{at:.2f}%">{name}{" s" if name != "0" else ""}</span>'
        for at, name in scale.names()
    )
    return f'<div class="axis" aria-hidden="true">{names}</div>'


def _row(words: str, drawing: str, more: str = "") -> str:
    said = f'<p class="words">{words}</p>'
    if more:
        said = f'<details class="words"><summary>{words}</summary>{more}</details>'
    return f'<li class="row">{said}<div class="rail" aria-hidden="true">{drawing}</div></li>'


def _bar(kind: str, lane: _Lane, scale: _Scale, begins: float, ends: float) -> str:
    left = scale.percent(begins - lane.begins)
    width = scale.percent(ends - lane.begins) - left
    return f'<span class="bar {kind}" style="left:{left:.3f}%;width:{width:.3f}%"></span>'


def _end_mark(lane: _Lane, scale: _Scale) -> str:
    if lane.ends is None or lane.ends - lane.begins > scale.seconds:
        return ""
    return f'<span class="over" style="left:{scale.percent(lane.ends - lane.begins):.3f}%"></span>'


def _response_row(lane: _Lane, scale: _Scale, end: float) -> str:
    bars = "".join(
        _bar(
            "response cut" if response.cut else "response",
            lane,
            scale,
            response.begins,
            end if response.ends is None else response.ends,
        )
        for response in lane.responses
    )
    many = len(lane.responses)
    words = "<strong>Response</strong>" if many == 1 else f"<strong>{many} responses</strong>"
    last = lane.responses[-1]
    first = lane.responses[0].begins
    if last.ends is None:
        words += f", from {first:.3f} s, still open at the last entry"
    else:
        words += f", {first:.3f} to {last.ends:.3f} s"
    if last.cut:
        what = "cut" if many == 1 else "the last one cut"
        words += f', <strong class="cut">{what} by the end of the turn</strong>'
    return _row(words, bars + _end_mark(lane, scale))


def _round_row(round: _Round, lane: _Lane, scale: _Scale, end: float) -> str:
    entry = round.entry
    ends = end if round.ends is None else round.ends
    count = entry.call_count
    words = (
        f"<strong>Round {round.number}</strong> {_named(round.state)}, "
        f"{round.begins:.3f} to {ends:.3f} s, {_names(entry)}"
    )
    if entry.is_late:
        words += ", not all had reported when the turn was over"
    drawing = _bar(_css(round.state), lane, scale, round.begins, ends) + _end_mark(lane, scale)
    rows = "".join(_call(call) for call in entry.calls)
    if count > len(entry.calls):
        rows += f'<tr><td colspan="4">{count - len(entry.calls)} more</td></tr>'
    more = (
        '<table><thead><tr><th scope="col">call</th><th scope="col">characters of arguments</th>'
        f'<th scope="col">of result</th><th scope="col">kind</th></tr></thead><tbody>{rows}'
        "</tbody></table>"
    )
    return _row(words, drawing, more)


def _names(entry: JournalEntry) -> str:
    names = [escape(printable(call.tool or call.id)) for call in entry.calls[:3]]
    if entry.call_count > len(names):
        names.append(f"{entry.call_count - len(names)} more")
    return f"{entry.call_count} call{'' if entry.call_count == 1 else 's'}: {', '.join(names)}"


def _call(call: CallNote) -> str:
    tool = f"{escape(printable(call.tool))} " if call.tool else ""
    result = "none" if call.result is None else call.result
    kinds = [
        name
        for name, applies in (
            ("outlives the turn", call.outlives_turn),
            ("side effects", call.has_side_effects),
        )
        if applies
    ]
    return (
        f"<tr><td>{tool}<code>{escape(printable(call.id))}</code></td>"
        f"<td>{call.arguments}</td><td>{result}</td>"
        f"<td>{', '.join(kinds) or 'awaited'}</td></tr>"
    )


def _mark_row(mark: JournalEntry, lane: _Lane, scale: _Scale) -> str:
    state = mark.event.value
    left = scale.percent(mark.at - lane.begins)
    words = f"{_named(state)} at {mark.at:.3f} s: {escape(describe(mark))}"
    drawing = f'<span class="mark {_css(state)}" style="left:{left:.3f}%"></span>'
    return _row(words, drawing + _end_mark(lane, scale))


def _table(entries: Iterable[JournalEntry], several: bool) -> str:
    rows = "".join(
        "<tr>"
        + (f"<td>{entry.conversation}</td>" if several else "")
        + f'<td class="number">{entry.at:.3f}</td><td class="number">{entry.epoch}</td>'
        f'<td class="number">{"" if entry.round is None else entry.round}</td>'
        f"<td>{entry.event}</td><td>{escape(describe(entry))}</td></tr>"
        for entry in entries
    )
    first = '<th scope="col">conversation</th>' if several else ""
    return (
        '<div class="scroller" tabindex="0" role="region" aria-label="Table of the entries">'
        f'<table class="entries"><thead><tr>{first}<th scope="col">seconds</th>'
        '<th scope="col">turn</th><th scope="col">round</th><th scope="col">event</th>'
        f'<th scope="col">details</th></tr></thead><tbody>{rows}</tbody></table></div>'
    )


_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1f2328; --soft: #57606a; --paper: #ffffff;
  --panel: #f6f8fa; --line: #d0d7de; --committed: #1a7f37; --rolled-back: #cf222e;
  --outliving: #0969da; --staged: #57606a; --fenced: #8250df; --response: #6e7781; --zoom: 1; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #a3adb8; --paper: #0d1117;
  --panel: #161b22; --line: #3d444d; --committed: #3fb950; --rolled-back: #ff7b72;
  --outliving: #58a6ff; --staged: #a3adb8; --fenced: #bc8cff; --response: #7d8590; } }
:root:has(#zoom2:checked) { --zoom: 2; }
:root:has(#zoom4:checked) { --zoom: 4; }
:root:has(#zoom8:checked) { --zoom: 8; }
:root:has(#remarkable:checked) .lane:not(.remarkable) { display: none; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 1400px; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 1.5rem 0 .25rem; }
h3 { font-size: 1rem; margin: 0; }
p { margin: .25rem 0; color: var(--soft); }
ol, ul { list-style: none; margin: 0; padding: 0; }
.lost { color: var(--ink); font-weight: 600; }
.counts { display: flex; flex-wrap: wrap; gap: .5rem; margin: .75rem 0 0; }
.counts div { display: flex; flex-direction: column-reverse; padding: .35rem .75rem;
  background: var(--panel); border: 1px solid var(--line); border-radius: 6px; }
.counts dt { font-size: .85rem; color: var(--soft); }
.counts dd { margin: 0; font-size: 1.25rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.key { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(24rem, 100%), 1fr));
  gap: .25rem 1.5rem; font-size: .9rem; }
.key li { display: flex; gap: .6rem; align-items: center; }
.key .sample { position: relative; flex: none; width: 2rem; height: 1rem; }
.key .bar { width: 100%; }
.key .fenced, .key .over { left: 50%; }
.controls { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; align-items: center;
  margin: .5rem 0; font-size: .95rem; }
fieldset { border: 1px solid var(--line); border-radius: 6px; padding: .1rem .6rem .3rem;
  margin: 0; }
fieldset label { display: inline-block; margin-right: .75rem; padding: .15rem 0; }
.scroller { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
:focus-visible { outline: 3px solid var(--outliving); outline-offset: 2px; }
.lanes { width: calc(100% * var(--zoom)); }
.lane { display: grid; grid-template-columns: 15rem 1fr; border-top: 1px solid var(--line);
  content-visibility: auto; contain-intrinsic-size: auto 8rem; }
.lane:first-child { border-top: 0; }
.about { position: sticky; left: 0; z-index: 1; background: var(--panel); padding: .6rem .9rem;
  font-size: .9rem; border-right: 1px solid var(--line); }
.about p { font-variant-numeric: tabular-nums; }
.track { padding: .4rem 1.5rem .7rem 1rem; min-width: 0; }
.nothing { font-size: .9rem; position: sticky; left: 16rem; width: max-content; }
.axis { position: relative; height: 1.2rem; font-size: .75rem; color: var(--soft); }
.axis span { position: absolute; transform: translateX(-50%); white-space: nowrap; }
.axis span:first-child { transform: none; }
.axis span:last-child { transform: translateX(-100%); }
.row { margin-bottom: .5rem; font-size: .9rem; }
.words { position: sticky; left: 16rem; width: max-content; margin: 0; color: var(--ink); font-variant-numeric: tabular-nums;
  max-width: min(100%, calc(100vw - 22rem)); overflow-wrap: anywhere; }
.rail { position: relative; height: 1.1rem; background: repeating-linear-gradient(90deg,
  var(--line) 0 1px, transparent 1px var(--step)) var(--panel); border: 1px solid var(--line); }
.bar { position: absolute; top: .15rem; height: .7rem; min-width: 4px; border-radius: 2px;
  border: 1px solid var(--kind); background: var(--kind); }
.response { --kind: var(--response); }
.bar.response { top: .3rem; height: .4rem; }
.bar.response.cut { border-right: 3px solid var(--rolled-back); }
.committed { --kind: var(--committed); }
.rolled-back { --kind: var(--rolled-back); }
.bar.rolled-back { background: repeating-linear-gradient(45deg, var(--kind) 0 3px,
  var(--paper) 3px 7px); }
.outliving { --kind: var(--outliving); }
.bar.outliving { border-right-style: dashed; border-right-width: 4px; background:
  repeating-linear-gradient(90deg, var(--kind) 0 8px, var(--paper) 8px 10px); }
.staged { --kind: var(--staged); }
.bar.staged { background: var(--paper); border-style: dashed; }
.fenced { --kind: var(--fenced); }
.repaired, .hook-failed { --kind: var(--rolled-back); }
.state { color: var(--kind); }
.state.response { color: var(--ink); }
.cut { color: var(--rolled-back); }
.mark, .key .bar.fenced { position: absolute; top: .15rem; width: .7rem; height: .7rem;
  border: 2px solid var(--kind); background: var(--paper); transform: rotate(45deg);
  margin-left: -.35rem; border-radius: 0; }
.over { position: absolute; top: -.2rem; bottom: -.2rem; border-left: 2px dashed var(--ink); }
summary { cursor: pointer; width: max-content; max-width: 100%; padding: .1rem 0; }
.row table { margin: .1rem 0 .4rem 1rem; }
table { border-collapse: collapse; font-size: .85rem; }
th, td { text-align: left; padding: .2rem .9rem .2rem .3rem; vertical-align: top;
  border-top: 1px solid var(--line); overflow-wrap: break-word; }
th { color: var(--soft); font-weight: 500; border-top: 0; }
.entries { width: 100%; }
.number { font-variant-numeric: tabular-nums; white-space: nowrap; text-align: right; }
.entries thead th:nth-child(-n+3) { text-align: right; }
code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; }
@media (max-width: 760px) {
  body { padding: 1rem .75rem; }
  .lane { grid-template-columns: 1fr; }
  .about { position: static; border-right: 0; border-bottom: 1px solid var(--line); }
  .about > * { position: sticky; left: .9rem; width: max-content;
    max-width: calc(100vw - 4rem); }
  .track { padding: .4rem .9rem .6rem; }
  .words, .nothing { left: .9rem; max-width: calc(100vw - 4rem); }
  th, td { padding-right: .5rem; }
}
@media print { .controls { display: none; } .lane { content-visibility: visible; } }
@media (forced-colors: active) { .bar, .mark { border-width: 2px; background: Canvas; }
  .bar.committed { background: CanvasText; } }
"""
