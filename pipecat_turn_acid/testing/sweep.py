# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Barge in at every instant of a conversation, and judge what each one leaves.

::

    report = sweep(order, STOCK, jobs=2, progress=True)
    print(report)
    assert report.clean

The conversation is played once without a barge-in to learn its instants, and then once for each.
Every single run is repeatable: :meth:`Report.replay_command` says how.
"""

import gc
import math
import multiprocessing
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from pipecat_turn_acid.testing.conversation import (
    STOCK,
    After,
    At,
    Conversation,
    Instant,
    Kit,
    Outcome,
    Tick,
    play,
)
from pipecat_turn_acid.testing.judge import Fault, FaultKind, judge


@dataclass(frozen=True)
class Trial:
    """One run of a sweep: when the user barges in.

    Parameters:
        instant: When.
        second: When once more; None for once only.
    """

    instant: Instant
    second: After | None = None

    def __str__(self) -> str:
        """Name the instant."""
        return f"{self.instant} and {self.second}" if self.second else str(self.instant)


@dataclass(frozen=True)
class Verdict:
    """What one run of a sweep left.

    Parameters:
        trial: When the user barged in.
        at: The virtual second of the first barge-in.
        tick: Its tick.
        faults: What was wrong afterwards.
    """

    trial: Trial
    at: float
    tick: int
    faults: tuple[Fault, ...]

    @property
    def kinds(self) -> frozenset[FaultKind]:
        """The kinds of its faults."""
        return frozenset(fault.kind for fault in self.faults)


@dataclass
class Report:
    """What a sweep found.

    Parameters:
        conversation: What was played.
        kit: What the bot was built from.
        mode: ``every 3 ticks`` or ``every 10 ms``, with what else was asked for.
        false_start: Whether noises were made instead of words.
        reference: The run without a barge-in.
        reference_faults: What was wrong with it.
        planned: How many instants there were to try.
        verdicts: One for each instant that was tried, in order.
        seconds: How long the sweep took, in real time.
    """

    conversation: Conversation
    kit: Kit
    mode: str
    false_start: bool
    reference: Outcome
    reference_faults: tuple[Fault, ...]
    planned: int
    verdicts: list[Verdict] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def damaged(self) -> list[Verdict]:
        """The instants that left a fault."""
        return [verdict for verdict in self.verdicts if verdict.faults]

    @property
    def clean(self) -> bool:
        """Whether no instant, and not the run without a barge-in either, left a fault."""
        return not self.damaged and not self.reference_faults

    @property
    def share(self) -> float:
        """The share of instants that left a fault."""
        return len(self.damaged) / len(self.verdicts) if self.verdicts else 0.0

    def of_kind(self, kind: FaultKind) -> list[Verdict]:
        """Return the instants that left a fault of one kind, in order.

        Args:
            kind: The kind.
        """
        return [verdict for verdict in self.verdicts if kind in verdict.kinds]

    def kinds(self) -> dict[FaultKind, list[Verdict]]:
        """Return the instants by kind of fault, for every kind there is."""
        return {kind: found for kind in FaultKind if (found := self.of_kind(kind))}

    def replay_command(self, trial: Trial, target: str = "") -> str:
        """Return the command that plays one instant again, with a readable trace.

        Args:
            trial: The instant.
            target: ``module:name`` of the conversation.
        """
        target = target or f"MODULE:{self.conversation.name}"
        command = f"python -m pipecat_turn_acid sweep {target}"
        if not self.kit.transactional:
            command += " --only-stock"
        if self.false_start:
            command += " --false-start"
        if isinstance(trial.instant, Tick):
            command += f" --replay {trial.instant.number}"
        else:
            command += f" --replay {trial.instant.seconds:.6f}s"
        if trial.second:
            after = trial.second
            command += f"+{after.ticks}" if after.ticks else f"+{after.seconds:.6f}s"
        return command

    def describe(self, target: str = "") -> str:
        """Return the report as text.

        Args:
            target: ``module:name`` of the conversation, for the commands.
        """
        tried = len(self.verdicts)
        lines = [
            f"{self.conversation.name}, {self.kit.name}: {tried} instants ({self.mode}), "
            f"{tried - len(self.damaged)} clean, {len(self.damaged)} damaged ({self.share:.1%}), "
            f"{self.seconds:.1f} s"
        ]
        if tried < self.planned:
            lines.append(f"  stopped early: {self.planned - tried} instants were not tried")
        lines += [f"  without any barge-in: {fault}" for fault in self.reference_faults]
        for kind, found in self.kinds().items():
            earliest = found[0]
            fault = next(fault for fault in earliest.faults if fault.kind is kind)
            lines += [
                f"  {kind.value:<13} {tried - len(found):>5} of {tried} clean "
                f"({1 - len(found) / tried:.1%}), earliest at {earliest.trial} "
                f"({earliest.at:.3f} s)",
                f"                {fault.detail}",
                f"                {self.replay_command(earliest.trial, target)}",
            ]
        return "\n".join(lines)

    def __str__(self) -> str:
        """Return the report as text."""
        return self.describe()

    def to_dict(self, target: str = "") -> dict[str, Any]:
        """Return the report as JSON can hold it.

        Args:
            target: ``module:name`` of the conversation, for the commands.
        """
        return {
            "conversation": self.conversation.name,
            "kit": self.kit.name,
            "mode": self.mode,
            "false_start": self.false_start,
            "planned": self.planned,
            "tried": len(self.verdicts),
            "damaged": len(self.damaged),
            "share": round(self.share, 6),
            "seconds": round(self.seconds, 3),
            "without_barge_in": [_fault(fault) for fault in self.reference_faults],
            "kinds": {
                kind.value: {
                    "damaged": len(found),
                    "clean_share": round(1 - len(found) / len(self.verdicts), 6),
                    "earliest": str(found[0].trial),
                    "replay": self.replay_command(found[0].trial, target),
                }
                for kind, found in self.kinds().items()
            },
            "instants": [
                {
                    "tick": verdict.tick,
                    "at": round(verdict.at, 6),
                    "trial": str(verdict.trial),
                    "faults": [_fault(fault) for fault in verdict.faults],
                }
                for verdict in self.damaged
            ],
        }


def _fault(fault: Fault) -> dict[str, str]:
    return {"kind": fault.kind.value, "detail": fault.detail}


def sweep(
    conversation: Conversation,
    kit: Kit = STOCK,
    *,
    every: int = 1,
    ms: float | None = None,
    between: tuple[float, float] | None = None,
    sample: int | None = None,
    second: bool = False,
    false_start: bool = False,
    jobs: int = 1,
    stop_after: int | None = None,
    stop: Callable[[], bool] | None = None,
    progress: bool | TextIO = False,
) -> Report:
    """Barge in at every instant of a conversation, and judge what each one leaves.

    Args:
        conversation: What is played. It is played in this process and its forks, so it need not
            be picklable.
        kit: What the bot is built from.
        every: Try every how-manieth tick.
        ms: Try every so many milliseconds of virtual time instead.
        between: Try only the instants in this stretch of virtual seconds.
        sample: Try at most this many instants, spread evenly and always the same.
        second: Barge in once more, at a moment that differs from instant to instant and is the
            same from sweep to sweep.
        false_start: Make noises instead of words.
        jobs: How many processes to play in.
        stop_after: Stop when this many instants have left a fault.
        stop: Asked after each instant whether to stop.
        progress: Whether to show a bar, and where if not on standard error.

    Returns:
        What was found; for the instants that were tried, if it was stopped early.
    """
    began = time.perf_counter()
    reference = play(conversation, kit)
    trials = list(_trials(reference, every, ms, second, between or (0.0, math.inf)))
    if sample is not None:
        trials = _sampled(trials, sample)
    mode = f"every {ms:g} ms" if ms else "every tick" if every == 1 else f"every {every} ticks"
    mode += f" from {between[0]:g} s to {between[1]:g} s" if between else ""
    mode += f", sampled to {sample}" if sample is not None else ""
    mode += ", two barge-ins" if second else ""
    mode += ", false starts" if false_start else ""
    report = Report(
        conversation, kit, mode, false_start, reference, tuple(judge(reference)), len(trials)
    )
    bar = _Bar(report, progress)
    damaged = 0
    for verdict in _verdicts(conversation, kit, false_start, trials, jobs):
        report.verdicts.append(verdict)
        damaged += bool(verdict.faults)
        bar.show(damaged)
        if (stop_after is not None and damaged >= stop_after) or (stop and stop()):
            break
    report.verdicts.sort(key=lambda verdict: (verdict.tick, str(verdict.trial)))
    report.seconds = time.perf_counter() - began
    bar.done()
    return report


def _trials(
    reference: Outcome,
    every: int,
    ms: float | None,
    second: bool,
    between: tuple[float, float],
) -> Iterator[Trial]:
    first, last = reference.first, reference.last
    earliest, latest = between
    if ms is None:
        for tick in range(first.tick + 1, last.tick + 1, every):
            if earliest <= reference.tick_times[tick] <= latest:
                gap = math.ceil(_gap(tick) * (last.tick - first.tick))
                yield Trial(Tick(tick), After(ticks=gap) if second else None)
        return
    for number in range(int((last.at - first.at) * 1000 / ms) + 1):
        at = round(first.at + number * ms / 1000, 9)
        if earliest <= at <= latest:
            gap = round(_gap(number) * (last.at - first.at), 6)
            yield Trial(At(at), After(seconds=gap) if second else None)


def _gap(number: int) -> float:
    """How soon to barge in once more, as a share of the conversation; every other time at once."""
    dice = random.Random(number)
    return dice.uniform(1e-6, dice.choice((0.1, 1.0)))


def _sampled(trials: list[Trial], sample: int) -> list[Trial]:
    """Take one trial at random from each of equal parts, by the same dice every time."""
    if sample >= len(trials):
        return trials
    dice = random.Random(sample)
    bounds = [len(trials) * number // sample for number in range(sample + 1)]
    return [trials[dice.randrange(a, b)] for a, b in zip(bounds, bounds[1:], strict=False)]


# --- playing in parallel -----------------------------------------------------------------------

_PLAYED: tuple[Conversation, Kit, bool] | None = None
"""What a forked process plays; it inherits it, since a conversation can hold what no pickle can."""


def _verdicts(
    conversation: Conversation, kit: Kit, false_start: bool, trials: Sequence[Trial], jobs: int
) -> Iterator[Verdict]:
    global _PLAYED
    _PLAYED = conversation, kit, false_start
    try:
        if jobs < 2 or "fork" not in multiprocessing.get_all_start_methods():
            yield from map(_try, trials)
            return
        gc.collect()
        with multiprocessing.get_context("fork").Pool(jobs, _settle_in) as pool:
            yield from pool.imap_unordered(_try, trials, chunksize=4)
    finally:
        _PLAYED = None


def _settle_in() -> None:
    """Leave Ctrl-C to the process that asked, and what is there already out of collections."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()


def _try(trial: Trial) -> Verdict:
    assert _PLAYED is not None
    conversation, kit, false_start = _PLAYED
    outcome = play(conversation, kit, trial.instant, second=trial.second, false_start=false_start)
    mark = outcome.barge_ins[0] if outcome.barge_ins else outcome.last
    return Verdict(trial, mark.at, mark.tick, tuple(judge(outcome)))


class _Bar:
    """A line that shows how far a sweep is, on a terminal; nothing elsewhere."""

    _WIDTH = 24

    def __init__(self, report: Report, progress: bool | TextIO):
        self._report = report
        self._out: TextIO | None = sys.stderr if progress is True else progress or None
        if progress is True and not sys.stderr.isatty():
            self._out = None
        self._began = self._shown = time.perf_counter()

    def show(self, damaged: int) -> None:
        now, tried, planned = time.perf_counter(), len(self._report.verdicts), self._report.planned
        if self._out is None or (now - self._shown < 0.1 and tried < planned):
            return
        self._shown = now
        rate = tried / max(now - self._began, 1e-9)
        filled = self._WIDTH * tried // planned
        self._out.write(
            f"\r{self._report.conversation.name}, {self._report.kit.name} "
            f"[{'#' * filled:<{self._WIDTH}}] {tried}/{planned}, {damaged} damaged, "
            f"{rate:.0f}/s, {(planned - tried) / rate:.0f} s left \x1b[K"
        )
        self._out.flush()

    def done(self) -> None:
        if self._out is not None:
            self._out.write("\r\x1b[K")
            self._out.flush()
