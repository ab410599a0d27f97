# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Show the reports of sweeps as one self-contained HTML page.

Each report is a timeline of the conversation without a barge-in, and under it every instant that
was tried, marked by what a barge-in there leaves. Reports of the same conversation stand under
each other, on the same scale.
"""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from pipecat_turn_acid.testing.conversation import Outcome
from pipecat_turn_acid.testing.judge import FaultKind
from pipecat_turn_acid.testing.speech import Voice
from pipecat_turn_acid.testing.sweep import Report, Verdict

_WIDTH = 1120
_LEFT = 92
_RIGHT = 12
_LANE = 24
_BAR = 17

_COLOURS = {
    FaultKind.REFUSED: "#7f1d1d",
    FaultKind.PLACEHOLDER: "#d9480f",
    FaultKind.HALF_ROUND: "#a61e4d",
    FaultKind.LEFTOVER: "#e8890c",
    FaultKind.LOST: "#5f3dc4",
    FaultKind.WRONG_RESULT: "#862e9c",
    FaultKind.STUCK: "#c92a2a",
    FaultKind.DEAD_TURN: "#1864ab",
    FaultKind.NO_ANSWER: "#343a40",
    FaultKind.MANY_ANSWERS: "#0b7285",
    FaultKind.WRONG_ANSWER: "#9c36b5",
    FaultKind.USER_WORDS: "#5c940d",
    FaultKind.NEVER_RESTS: "#495057",
    FaultKind.ERROR: "#846358",
    FaultKind.FLOW: "#0ca678",
}

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --soft: #59636e; --paper: #ffffff;
  --panel: #f6f8fa; --line: #d1d9e0; --user: #54aeff; --bot: #4ac26b; --tool: #d4a72c;
  --model: #c297ff; --good: #aceebb; --bad: #e5534b; --label: #0d1117; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --paper: #0d1117;
  --panel: #151b23; --line: #3d444d; --good: #1f5d33; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.5rem 4rem; max-width: 1200px; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
p { margin: .25rem 0; color: var(--soft); }
.report { background: var(--panel); border: 1px solid var(--line); border-radius: 8px;
  padding: .9rem 1rem; margin: .75rem 0; }
.head { display: flex; flex-wrap: wrap; gap: .25rem 1rem; align-items: baseline; }
.kit { font-weight: 600; } .share { font-weight: 700; font-variant-numeric: tabular-nums; }
.share.ok { color: #1a7f37; } .share.not { color: #d1242f; }
.scroll { overflow-x: auto; } svg { display: block; min-width: 820px; width: 100%; height: auto; }
svg text { font: 11px system-ui, sans-serif; fill: var(--ink); }
svg .name { fill: var(--soft); } svg .in { fill: var(--label); }
table { border-collapse: collapse; width: 100%; margin-top: .6rem; font-size: 13px; }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-top: 1px solid var(--line);
  vertical-align: top; } th { color: var(--soft); font-weight: 500; border-top: 0; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
code { font: 12px ui-monospace, monospace; overflow-wrap: anywhere; }
.dot { display: inline-block; width: .7em; height: .7em; border-radius: 50%; margin-right: .4em; }
"""


def render(reports: Sequence[tuple[str, Report]]) -> str:
    """Return the page.

    Args:
        reports: Reports, each with the ``module:name`` of its conversation; those of the same
            conversation one after the other, the one to stand above first.
    """
    sections = []
    for target, group in groupby(reports, key=lambda one: one[0]):
        shown = [report for _, report in group]
        seconds = max(report.reference.last.at for report in shown)
        sections.append(f"<h2>{escape(shown[0].conversation.name)}</h2>")
        sections.append(f"<p>{escape(_story(shown[0]))}</p>")
        sections += [_report(report, target, seconds) for report in shown]
    tried = sum(len(report.verdicts) for _, report in reports)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Barge-in sweep</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        "<h1>Barge-in sweep</h1>\n"
        f"<p>{tried} conversations, each interrupted at another instant, and what was left. "
        "Hover over a mark to see which instant it is and how to play it again.</p>\n"
        + "\n".join(sections)
        + "\n</body>\n</html>\n"
    )


def _story(report: Report) -> str:
    conversation = report.conversation
    said = " Then: ".join(f"“{text}”" for text in conversation.says)
    then = "a noise without words" if report.false_start else f"“{conversation.barge_in}”"
    return f"The user says {said} and barges in with {then}"


def _report(report: Report, target: str, seconds: float) -> str:
    tried, damaged = len(report.verdicts), len(report.damaged)
    share = f"{1 - report.share:.1%} clean" if tried else "nothing tried"
    early = f", {report.planned - tried} not tried" if tried < report.planned else ""
    before = "".join(
        f"<p>Without any barge-in: {escape(str(f))}</p>" for f in report.reference_faults
    )
    return (
        '<div class="report"><div class="head">'
        f'<span class="kit">{escape(report.kit.name)}</span>'
        f'<span class="share {"ok" if report.clean else "not"}">{share}</span>'
        f"<span>{damaged} of {tried} instants damaged ({escape(report.mode)}{early})</span></div>"
        f'{before}<div class="scroll">{_drawing(report, target, seconds)}</div>'
        f"{_table(report, target)}</div>"
    )


def _table(report: Report, target: str) -> str:
    kinds = report.kinds()
    if not kinds:
        return ""
    tried = len(report.verdicts)
    rows = []
    for kind, found in kinds.items():
        fault = next(fault for fault in found[0].faults if fault.kind is kind)
        rows.append(
            f'<tr><td><span class="dot" style="background:{_COLOURS[kind]}"></span>'
            f'{kind.value}</td><td class="number">{1 - len(found) / tried:.1%}</td>'
            f'<td class="number">{escape(str(found[0].trial))}, {found[0].at:.3f} s</td>'
            f"<td>{escape(fault.detail)}<br>"
            f"<code>{escape(report.replay_command(found[0].trial, target))}</code></td></tr>"
        )
    return (
        "<table><tr><th>fault</th><th>clean</th><th>earliest</th><th>what, and how to see it"
        "</th></tr>" + "".join(rows) + "</table>"
    )


# --- the drawing -------------------------------------------------------------------------------


class _Scale:
    def __init__(self, seconds: float):
        self.seconds = max(seconds, 0.1)

    def x(self, at: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(at, self.seconds) / self.seconds


def _drawing(report: Report, target: str, seconds: float) -> str:
    scale = _Scale(seconds)
    parts: list[str] = []
    top = 6
    for name, bars in _lanes(report.reference):
        for row in _rows(bars):
            parts.append(_label(name, top))
            parts += [_bar(scale, bar, top) for bar in row]
            name = ""
            top += _LANE
    parts += [_label("by time", top), *_by_time(report, scale, top)]
    top += _LANE
    parts += _axis(scale, top)
    top += 26
    parts += [_label("by instant", top), *_by_instant(report, target, top)]
    top += _LANE
    return (
        f'<svg viewBox="0 0 {_WIDTH} {top}" role="img" '
        f'aria-label="Timeline of {escape(report.conversation.name)}">' + "".join(parts) + "</svg>"
    )


_Bar = tuple[float, float, str, str]
"""Begin, end, text and colour."""


def _lanes(run: Outcome) -> Iterator[tuple[str, list[_Bar]]]:
    yield (
        "user",
        [(said.begun, said.recognised or said.begun, said.text, "user") for said in run.said],
    )
    yield (
        "model",
        [
            (
                request.at,
                request.finished_at or request.at,
                _reply(request.said, request.calls),
                "model",
            )
            for request in run.requests
        ],
    )
    yield (
        "tools",
        [
            (one.started, one.ended if one.ended is not None else run.last.at, one.name, "tool")
            for one in run.runs
        ],
    )
    bars: list[_Bar] = []
    pace = 0.02 if run.conversation.voice == "text" else Voice.seconds_per_word
    for (text, _), words in groupby(run.heard, key=lambda word: (word.utterance, word.asked)):
        heard = list(words)
        bars.append((heard[0].at, heard[-1].at + pace, text, "bot"))
    if run.conversation.voice == "text":
        bars = _joined(bars)
    yield "bot", bars


def _reply(said: str, calls: Sequence[tuple[str, str, str]]) -> str:
    named = " ".join(f"{name}({arguments})" for _, name, arguments in calls)
    return f"{said} {named}".strip()


def _joined(bars: list[_Bar]) -> list[_Bar]:
    """Join the words of a text that is shown word by word."""
    joined: list[_Bar] = []
    for begin, end, text, colour in bars:
        if joined and begin - joined[-1][1] < 0.05:
            last = joined[-1]
            joined[-1] = (last[0], end, last[2] + text, colour)
        else:
            joined.append((begin, end, text, colour))
    return joined


def _rows(bars: list[_Bar]) -> list[list[_Bar]]:
    """Share out bars among rows so that none covers another."""
    rows: list[list[_Bar]] = []
    for bar in sorted(bars):
        for row in rows:
            if row[-1][1] <= bar[0] + 0.1:
                row.append(bar)
                break
        else:
            rows.append([bar])
    return rows or [[]]


def _label(name: str, top: float) -> str:
    return f'<text class="name" x="0" y="{top + 13}">{name}</text>' if name else ""


def _bar(scale: _Scale, bar: _Bar, top: float) -> str:
    begin, end, text, colour = bar
    x = scale.x(begin)
    width = max(scale.x(end) - x, 2)
    fits = int((width - 6) / 5.8)
    shown = text if len(text) <= fits else text[: fits - 1] + "…" if fits > 3 else ""
    return (
        f'<g><title>{begin:.3f} to {end:.3f} s: {escape(text)}</title><rect x="{x:.1f}" '
        f'y="{top}" width="{width:.1f}" height="{_BAR}" rx="3" fill="var(--{colour})"/>'
        f'<text class="in" x="{x + 4:.1f}" y="{top + 12.5}">{escape(shown)}</text></g>'
    )


def _by_time(report: Report, scale: _Scale, top: float) -> Iterator[str]:
    """Draw the share of damaged instants in each slice of time."""
    slices = 200
    found: dict[int, list[Verdict]] = {}
    for verdict in report.verdicts:
        found.setdefault(min(slices - 1, int(verdict.at / scale.seconds * slices)), []).append(
            verdict
        )
    width = (_WIDTH - _LEFT - _RIGHT) / slices
    for number, verdicts in found.items():
        x = _LEFT + number * width
        bad = [verdict for verdict in verdicts if verdict.faults]
        height = _BAR * len(bad) / len(verdicts)
        yield (
            f"<g><title>{number * scale.seconds / slices:.2f} s: {len(bad)} of {len(verdicts)} "
            f'damaged</title><rect x="{x:.1f}" y="{top}" width="{width:.2f}" height="{_BAR}" '
            f'fill="var(--good)"/><rect x="{x:.1f}" y="{top + _BAR - height:.1f}" '
            f'width="{width:.2f}" height="{height:.1f}" fill="var(--bad)"/></g>'
        )


def _by_instant(report: Report, target: str, top: float) -> Iterator[str]:
    """Draw every instant that was tried, in order and equally wide."""
    if not report.verdicts:
        return
    width = (_WIDTH - _LEFT - _RIGHT) / len(report.verdicts)
    x = float(_LEFT)
    for kinds, run in groupby(report.verdicts, key=lambda verdict: verdict.kinds):
        verdicts = list(run)
        wide = width * len(verdicts)
        first, last = verdicts[0], verdicts[-1]
        where = str(first.trial) if first is last else f"{first.trial} to {last.trial}"
        named = [kind for kind in FaultKind if kind in kinds]
        what = ", ".join(kind.value for kind in named) or "clean"
        how = f"\n{report.replay_command(first.trial, target)}" if named else ""
        yield f"<g><title>{escape(where)}, {first.at:.3f} s: {what}{escape(how)}</title>"
        part = _BAR / (len(named) or 1)
        for row, colour in enumerate([_COLOURS[kind] for kind in named] or ["var(--good)"]):
            yield (
                f'<rect x="{x:.2f}" y="{top + row * part:.2f}" width="{wide:.2f}" '
                f'height="{part:.2f}" fill="{colour}"/>'
            )
        yield "</g>"
        x += wide


def _axis(scale: _Scale, top: float) -> Iterator[str]:
    yield f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{top}" y2="{top}" stroke="var(--line)"/>'
    step = 1 if scale.seconds < 20 else 5
    for second in range(0, int(scale.seconds) + 1, step):
        x = scale.x(second)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{top + 4}" stroke="var(--line)"/>'
        yield (
            f'<text class="name" x="{x:.1f}" y="{top + 16}" text-anchor="middle">{second} s</text>'
        )
