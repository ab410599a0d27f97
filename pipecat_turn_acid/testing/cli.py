# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The command line of the testing tools."""

import argparse
import importlib
import json
import math
import os
import platform
import re
import shlex
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pipecat_turn_acid.testing.conversation import (
    STOCK,
    TRANSACTIONAL,
    After,
    At,
    Conversation,
    Instant,
    Kit,
    Outcome,
    Tick,
    play,
)
from pipecat_turn_acid.testing.judge import judge
from pipecat_turn_acid.testing.providers import PROVIDERS, speaking
from pipecat_turn_acid.testing.sweep import Report, Trial, sweep
from pipecat_turn_acid.testing.timeline import render


class UsageError(Exception):
    """The command line asks for what is not there."""


def main(arguments: Sequence[str]) -> int:
    """Run the command line.

    Args:
        arguments: What follows the name of the program.

    Returns:
        The exit status: 0 if all is well, 1 if something was found, 2 if it could not run.
    """
    options = _parser().parse_args(arguments)
    try:
        return _sweep(options)
    except UsageError as error:
        print(f"pipecat_turn_acid: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pipecat_turn_acid",
        description="Tools for bots whose turns are transactions.",
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    command = commands.add_parser(
        "sweep",
        help="barge in at every instant of a conversation, and judge what is left",
        description="Play a conversation in virtual time with a barge-in at every instant, and "
        "judge the requests and the history that each one leaves. Exits with 1 on findings.",
    )
    command.add_argument(
        "targets",
        nargs="*",
        metavar="module:conversation",
        help="a Conversation, several of them, or a function that returns either; "
        "without one, all of this project's own, on the stock classes too",
    )
    command.add_argument(
        "--stock",
        action="store_true",
        help="play it on the stock classes too, for comparison; findings there do not count",
    )
    command.add_argument(
        "--only-stock", action="store_true", help="play it on the stock classes only"
    )
    command.add_argument(
        "--kit", metavar="module:kit", help="a Kit to play it with, in place of the usual drop-ins"
    )
    command.add_argument(
        "--provider",
        choices=tuple(PROVIDERS),
        help="play it with a service of this provider, against a server that speaks its protocol",
    )
    command.add_argument(
        "--thinking", action="store_true", help="with --provider: the model thinks first"
    )
    command.add_argument(
        "--voice",
        choices=("words", "sentences", "text", "all"),
        help="play it with this voice, in place of the conversation's own; all: with each of them",
    )
    command.add_argument(
        "--every", type=_positive, default=1, metavar="N", help="try every Nth tick only"
    )
    command.add_argument(
        "--ms", type=float, metavar="MS", help="try every MS milliseconds, not every tick"
    )
    command.add_argument(
        "--sample",
        type=_positive,
        metavar="N",
        help="try N instants at most, spread evenly, the same ones every time",
    )
    command.add_argument(
        "--between",
        type=_stretch,
        metavar="FROM,TO",
        help="try only the instants in this stretch, in virtual seconds",
    )
    command.add_argument("--second", action="store_true", help="barge in twice")
    command.add_argument(
        "--false-start", action="store_true", help="make a noise without words, don't speak"
    )
    command.add_argument(
        "--jobs",
        type=_positive,
        default=_processors(),
        metavar="N",
        help="play in N processes (default: %(default)s)",
    )
    command.add_argument(
        "--stop-after", type=_positive, metavar="N", help="stop after N damaged instants"
    )
    command.add_argument("--json", type=Path, metavar="FILE", help="write the findings as JSON")
    command.add_argument(
        "--html", type=Path, metavar="FILE", help="write a timeline with the damaged instants"
    )
    command.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write the figures as a page of Markdown"
    )
    command.add_argument(
        "--replay",
        metavar="INSTANT",
        help="play one instant with a readable trace: 737 is a tick, 3.25s is a time, "
        "737+50 barges in again 50 ticks later",
    )
    command.add_argument("--quiet", action="store_true", help="show no progress bar")
    return parser


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def _stretch(text: str) -> tuple[float, float]:
    earliest, separator, latest = text.partition(",")
    try:
        return float(earliest), float(latest) if separator else math.inf
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form FROM,TO") from None


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _load(target: str) -> Any:
    module, separator, name = target.partition(":")
    if not separator or not name:
        raise UsageError(f"{target!r} is not of the form module:name")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise UsageError(
            f"there is no module {error.name!r}; run where it can be imported"
        ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(f"{module} has no {name!r}")
        found = getattr(found, part)
    return found


def _conversations(target: str) -> list[tuple[str, Conversation]]:
    """The conversations behind a target, each with a target of its own where there is one."""
    found = _load(target)
    if not isinstance(found, (Conversation, Iterable)) and callable(found):
        found = found()
    if isinstance(found, Conversation):
        return [(target, found)]
    many: list[Conversation] = []
    for one in found if isinstance(found, Iterable) else (found,):
        if not isinstance(one, Conversation):
            raise UsageError(f"{target} is no Conversation, but {type(one).__name__}")
        many.append(one)
    module = importlib.import_module(target.partition(":")[0])
    names = {id(value): name for name, value in vars(module).items()}
    return [(f"{module.__name__}:{names.get(id(one), one.name)}", one) for one in many]


def _kits(options: argparse.Namespace) -> list[tuple[Kit, bool]]:
    """The kits to play with, each with whether its findings count."""
    stock, kit = STOCK, TRANSACTIONAL
    if options.kit:
        kit = _load(options.kit)
        if not isinstance(kit, Kit):
            raise UsageError(f"{options.kit} is no Kit, but {type(kit).__name__}")
    if options.provider:
        try:
            stock, kit = (
                speaking(options.provider, one, thinking=options.thinking) for one in (stock, kit)
            )
        except ImportError as error:
            raise UsageError(f"{error}; pip install 'pipecat-turn-acid[providers]'") from error
    elif options.thinking:
        raise UsageError("--thinking needs a --provider whose model thinks")
    if options.only_stock:
        return [(stock, True)]
    return [(stock, False), (kit, True)] if options.stock else [(kit, True)]


def _sweep(options: argparse.Namespace) -> int:
    wanted = [(target, options.voice) for target in options.targets]
    if not wanted:
        wanted = [(target, options.voice or voice) for target, voice in _OWN]
        options.stock = True
    played = [
        (_options_of(target, voice, options), one.but(voice=voice) if voice else one)
        for named, voices in wanted
        for target, one in _conversations(named)
        for voice in (_VOICES if voices == "all" else [voices])
    ]
    kits = _kits(options)
    if options.replay:
        trial = _trial(options.replay)
        return int(any([_replay(one, kits[-1][0], trial, options) for _, one in played]))
    reports: list[tuple[str, Report]] = []
    damaged = False
    with _until_interrupted() as interrupted:
        for target, conversation in played:
            for kit, counts in kits:
                if interrupted():
                    break
                report = sweep(
                    conversation,
                    kit,
                    every=options.every,
                    ms=options.ms,
                    between=options.between,
                    sample=options.sample,
                    second=options.second,
                    false_start=options.false_start,
                    jobs=options.jobs,
                    stop_after=options.stop_after,
                    stop=interrupted,
                    progress=not options.quiet,
                )
                reports.append((target, report))
                print(report.describe(target), flush=True)
                damaged |= counts and not report.clean
    if len(reports) > len(kits):
        print("\n" + summary([report for _, report in reports]))
    _write(options, reports)
    return int(damaged)


_VOICES = ("words", "sentences", "text")

_OWN = (
    ("pipecat_turn_acid.testing.conversations:FIVE", "all"),
    ("pipecat_turn_acid.testing.scenarios:ALL", None),
    ("pipecat_turn_acid.testing.flow_conversations:ALL", None),
)
"""What is swept without a target, and with which voices."""


def summary(reports: Sequence[Report]) -> str:
    """Return what several sweeps found as a Markdown table, a line for each conversation.

    Args:
        reports: The reports; those of one conversation, voice and mode share a line.
    """
    kits = list(dict.fromkeys(report.kit.name for report in reports))
    rows: dict[tuple[str, str, str], dict[str, Report]] = {}
    for report in reports:
        one = report.conversation
        rows.setdefault((one.name, one.voice, report.mode), {})[report.kit.name] = report
    lines = [
        "| conversation | voice | instants | "
        + " | ".join(f"{kit}, damaged" for kit in kits)
        + " |",
        "|---|---|---|" + "---|" * len(kits),
    ]
    for (name, voice, mode), found in rows.items():
        tried = max(len(report.verdicts) for report in found.values())
        cells = [_cell(found.get(kit)) for kit in kits]
        lines.append(f"| {name} | {voice} | {tried} ({mode}) | " + " | ".join(cells) + " |")
    tried = sum(len(report.verdicts) for report in reports)
    totals = [
        sum(len(report.damaged) for report in reports if report.kit.name == kit) for kit in kits
    ]
    lines.append(f"| all | | {tried} | " + " | ".join(str(total) for total in totals) + " |")
    return "\n".join(lines)


def figures(reports: Sequence[Report]) -> str:
    """Return a page that states what several sweeps found, and how it was measured.

    Args:
        reports: The reports.
    """
    tried = sum(len(report.verdicts) for report in reports)
    hours = sum(report.seconds for report in reports) / 3600
    versions = ", ".join(f"{name} {version(name)}" for name in ("pipecat-ai", "openai"))
    words = [word for word in sys.argv[1:] if not word.endswith(".md")]
    command = shlex.join(["python", "-m", "pipecat_turn_acid", *words])
    return (
        "# Figures of the sweep\n\n"
        f"{tried} conversations, each interrupted at another instant; {hours:.1f} h with "
        f"Python {platform.python_version()}, {versions}. Measured with\n\n"
        f"```sh\n{command}\n```\n\n"
        "An instant is damaged when anything is wrong afterwards that "
        "[the judge](sweep-your-own-bot.md#what-is-judged) knows of.\n\n"
        f"{summary(reports)}\n"
    )


def _cell(report: Report | None) -> str:
    if report is None or not report.verdicts:
        return ""
    also = ", and without a barge-in" if report.reference_faults else ""
    return f"{len(report.damaged)} ({report.share:.1%}){also}"


def _options_of(target: str, voice: str | None, options: argparse.Namespace) -> str:
    """A target with the options that a replay needs beside the instant."""
    target += f" --voice {voice}" if voice else ""
    target += f" --kit {options.kit}" if options.kit else ""
    target += f" --provider {options.provider}" if options.provider else ""
    return target + (" --thinking" if options.thinking else "")


def _write(options: argparse.Namespace, reports: list[tuple[str, Report]]) -> None:
    if options.json:
        found = [report.to_dict(target) for target, report in reports]
        options.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    if options.markdown:
        options.markdown.write_text(figures([report for _, report in reports]), "utf-8")
    if options.html:
        options.html.write_text(render(reports), "utf-8")


@contextmanager
def _until_interrupted() -> Iterator[Any]:
    """Turn the first Ctrl-C into an early end of the sweep, with a report of what was tried."""
    interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal interrupted
        interrupted = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield lambda: interrupted
    finally:
        signal.signal(signal.SIGINT, before)


# --- replay ------------------------------------------------------------------------------------


def _trial(text: str) -> Trial:
    matched = re.fullmatch(r"(\d+)(?:\+(\d+))?|([\d.]+)s(?:\+([\d.]+)s)?", text)
    if not matched:
        raise UsageError(f"{text!r} is no instant; 737, 3.25s, 737+50 and 3.25s+0.5s are")
    tick, ticks, seconds, more = matched.groups()
    instant: Instant = Tick(int(tick)) if tick else At(float(seconds))
    if ticks:
        return Trial(instant, After(ticks=int(ticks)))
    return Trial(instant, After(seconds=float(more)) if more else None)


def _replay(
    conversation: Conversation, kit: Kit, trial: Trial, options: argparse.Namespace
) -> bool:
    outcome = play(
        conversation,
        kit,
        trial.instant,
        second=trial.second,
        false_start=options.false_start,
        trace=True,
    )
    faults = judge(outcome)
    print(f"{conversation.name}, {kit.name}, barge-in at {trial}\n")
    print("  tick     time  processor                          handles")
    print("\n".join(outcome.trace))
    print("\n" + describe_outcome(outcome))
    print("\nfaults:")
    print("\n".join(f"  {fault}" for fault in faults) or "  none")
    return bool(faults)


def describe_outcome(outcome: Outcome) -> str:
    """Return what was said, done and kept, as text.

    Args:
        outcome: What a run left behind.
    """
    happened: list[tuple[float, str]] = []
    for said in outcome.said:
        happened.append((said.begun, f'user  "{said.text}"'))
    for mark in outcome.barge_ins:
        what = "a noise" if outcome.false_start else "a barge-in"
        happened.append((mark.at, f"user  ({what}, tick {mark.tick})"))
    for number, request in enumerate(outcome.requests, 1):
        reply = f'"{request.said}"' if request.said else ""
        calls = " ".join(f"{name}({arguments})" for _, name, arguments in request.calls)
        end = request.refusal or request.fate
        happened.append((request.at, f"model request {number}: {reply} {calls} [{end}]"))
    for run in outcome.runs:
        happened.append((run.started, f"tool  {run.name} {run.tool_call_id} begins"))
        if run.ended is not None:
            ended = f"tool  {run.name} {run.tool_call_id} {run.ending} {run.result or ''}"
            happened.append((run.ended, ended))
    for word in outcome.heard:
        happened.append((word.at, f"bot   {word.text}"))
    happened.sort(key=lambda one: one[0])
    lines = [f"  {at:>8.3f}  {what}" for at, what in happened]
    lines += ["", "history at rest:", *(f"  {line}" for line in outcome.transcript.splitlines())]
    return "\n".join(lines)
