# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The command: reads its arguments, runs the calls, reports."""

import argparse
import asyncio
import errno
import os
import sys
from pathlib import Path
from time import perf_counter  # the real one, also while time is virtual
from typing import TYPE_CHECKING, Final

from examples.demo import needs

if TYPE_CHECKING:
    from examples.demo.call import Outcome
    from examples.demo.report import Paper
    from examples.demo.stage import Setting

OK: Final = 0
DAMAGED: Final = 1
CANNOT_RUN: Final = 2
NOT_FINISHED: Final = 3


def main(arguments: list[str] | None = None) -> int:
    """Run the demo.

    Args:
        arguments: Those of the command line, or None for the real ones.

    Returns:
        0 if the transactional call left a whole history and the right answer, 1 if it did not,
        2 if something is missing, 3 if a call could not be held to its end.
    """
    options = _parser().parse_args(arguments)
    _quiet(options.verbose)
    print("Loading Pipecat ...", flush=True)
    if problems := needs.missing_packages():
        return _give_up(problems)

    from examples.demo import call, stage
    from examples.demo.report import Paper

    paper = Paper()
    if not options.text:
        names = [call.ASKS.recording, call.CORRECTS.recording]
        if problems := needs.missing_audio(stage.RECORDINGS, names):
            return _give_up(problems)
    setting = _setting(options, live=paper.live)
    if setting.save:
        setting.save.mkdir(parents=True, exist_ok=True)
    try:
        return _run(paper, setting)
    except stage.LoadingError as error:
        remedy = "" if options.text else f", {needs.TEXT}"
        return _give_up([needs.Problem(str(error), f"{needs.SET_UP}{remedy}")])
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL):
            raise
        return _give_up(
            [
                needs.Problem(
                    f"the scripted model cannot listen on port {setting.port or '(any)'} of "
                    f"127.0.0.1: {error.strerror}",
                    "Choose another one with --port, or run with --fast, which needs none",
                )
            ]
        )
    except KeyboardInterrupt:
        paper.line()
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.demo",
        description="Talk over the same bot twice: stock Pipecat beside the transactional drop-ins.",
        epilog="With OPENAI_API_KEY set (and OPENAI_BASE_URL and OPENAI_MODEL, if you like) the "
        "bots ask the real service; without it a scripted model answers. Exit status: 0 if the "
        "transactional bot kept its history whole, 1 if not, 2 if something is missing, 3 if a "
        "call could not be held to its end.",
    )
    parser.add_argument(
        "--text", action="store_true", help="without audio, and without the speech model"
    )
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument(
        "--fast",
        action="store_true",
        help="in virtual time: the same call, as fast as the machine can (the default when the "
        "output is not a terminal)",
    )
    pace.add_argument("--real-time", action="store_true", help="at the pace of speech")
    parser.add_argument(
        "--scripted", action="store_true", help="use the scripted model even if there is a key"
    )
    parser.add_argument(
        "--port", type=int, default=0, help="where the scripted model listens (any free port)"
    )
    parser.add_argument(
        "--save", type=Path, metavar="DIR", help="write both calls as WAV files, to listen to"
    )
    parser.add_argument("--verbose", action="store_true", help="show Pipecat's log")
    return parser


def _setting(options: argparse.Namespace, *, live: bool) -> "Setting":
    from examples.demo.stage import Setting

    key = None if options.scripted else os.environ.get("OPENAI_API_KEY") or None
    virtual = not key and not options.real_time and (options.fast or not live)
    return Setting(
        audio=not options.text,
        virtual=virtual and not options.port,
        port=options.port,
        api_key=key,
        base_url=os.environ.get("OPENAI_BASE_URL") or None,
        model=os.environ.get("OPENAI_MODEL") or None,
        save=None if options.text else options.save,
    )


def _run(paper: "Paper", setting: "Setting") -> int:
    from examples.demo import bot, report, stage
    from examples.demo.diary import Diary
    from pipecat_turn_acid.testing import virtual_time

    kits = [bot.stock(), bot.transactional()]
    paper.line(
        paper.style("One call, two bots: the order number is corrected in mid-answer", "bold")
    )
    paper.paragraph(_how(setting))
    diaries = [Diary(), Diary()]
    table = report.SideBySide(paper, *diaries)
    for diary in diaries:
        diary.on_change = table.update
    loading = _Loading(paper)

    def ready() -> None:
        loading.done()
        paper.heading("What was said")
        report.titles(paper, *(kit.name for kit in kits))

    async def perform() -> list["Outcome"]:
        return await stage.perform(setting, kits, diaries, progress=loading, ready=ready)

    outcomes = virtual_time.run(perform) if setting.virtual else asyncio.run(perform())
    table.finish()
    report.histories(paper, outcomes)
    paper.line()
    return _judge(paper, outcomes, setting)


def _judge(paper: "Paper", outcomes: list["Outcome"], setting: "Setting") -> int:
    from examples.demo import report

    for outcome in outcomes:
        report.verdict(paper, outcome, outcome.reasons())
    if setting.save:
        paper.paragraph(
            f"Both calls can be listened to in {setting.save}: the caller left, the bot right."
        )
    left, right = outcomes
    if faults := [f"{o.name}: {fault}" for o in outcomes for fault in o.diary.faults]:
        print("\nThe demo did not get to its end:", *faults, sep="\n  ", file=sys.stderr)
    if right.damaged:
        return DAMAGED
    if faults:
        return NOT_FINISHED
    if not right.answered_right:
        return DAMAGED
    if not left.damaged:
        hint = "" if setting.virtual or setting.api_key else " On a busy machine, try --fast."
        paper.paragraph(f"The stock bot came through unharmed this time.{hint}")
    return OK


def _how(setting: "Setting") -> str:
    caller = "recorded speech" if setting.audio else "text"
    ears = ", heard through Silero, Smart Turn and Whisper" if setting.audio else ""
    model = (setting.model or "the default model") if setting.api_key else "a scripted model"
    pace = "virtual time" if setting.virtual else "real time"
    return f"The caller is {caller}{ears}; {model} answers; {pace}."


class _Loading:
    """Shows what is being loaded, and how long it took."""

    def __init__(self, paper: "Paper"):
        self._paper = paper
        self._what = ""
        self._since = 0.0

    def __call__(self, what: str, /) -> None:
        self.done()
        self._what, self._since = what, perf_counter()
        self._paper.status(f"  loading {what} ...")

    def done(self) -> None:
        if self._what:
            took = perf_counter() - self._since
            self._paper.line(
                f"  loaded {self._what}  {took:.1f} s" if took else f"  loaded {self._what}"
            )
        self._what = ""


def _quiet(verbose: bool) -> None:
    """Keep Pipecat's log off the screen, from its first line on."""
    try:
        from loguru import logger
    except ImportError:
        return
    logger.remove()
    if verbose:
        logger.add(sys.stderr, level="DEBUG")


def _give_up(problems: list[needs.Problem]) -> int:
    print("The demo cannot run:", file=sys.stderr)
    for problem in problems:
        print(f"  - {problem.what}.\n    {problem.remedy}.", file=sys.stderr)
    return CANNOT_RUN
