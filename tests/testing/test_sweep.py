# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The sweep finds what one barge-in in hundreds damages, and says how to see it again."""

import asyncio
import io
import json
from typing import Any

import pytest

from pipecat_turn_acid import TransactionalLLMContext
from pipecat_turn_acid.testing.conversation import STOCK, TRANSACTIONAL, After, At, Tick, play
from pipecat_turn_acid.testing.conversations import chain, order, talk
from pipecat_turn_acid.testing.judge import FaultKind, judge
from pipecat_turn_acid.testing.sweep import sweep

written = order.but(name="written", voice="text")
"""The cheapest conversation with a tool."""


def test_every_tick_is_tried_once():
    reference = play(written, TRANSACTIONAL)
    report = sweep(written, TRANSACTIONAL, between=(3.9, 4.2))
    ticks = [
        tick
        for tick in range(reference.first.tick + 1, reference.last.tick + 1)
        if 3.9 <= reference.tick_times[tick] <= 4.2
    ]
    assert [verdict.trial.instant for verdict in report.verdicts] == [Tick(t) for t in ticks]
    assert [verdict.tick for verdict in report.verdicts] == ticks
    assert report.planned == len(ticks) >= 20


def test_every_few_milliseconds_are_tried_once():
    report = sweep(written, TRANSACTIONAL, ms=50, between=(3.0, 4.0))
    reference = report.reference
    assert [verdict.at for verdict in report.verdicts] == pytest.approx(
        [at for n in range(200) if 3.0 <= (at := reference.first.at + n * 0.05) <= 4.0]
    )
    assert report.clean


def test_a_sample_is_spread_evenly_and_always_the_same():
    sampled = [sweep(talk.but(voice="text"), STOCK, sample=12) for _ in range(2)]
    ticks = [[verdict.tick for verdict in report.verdicts] for report in sampled]
    assert ticks[0] == ticks[1] and len(set(ticks[0])) == 12
    reference = sampled[0].reference
    part = (reference.last.tick - reference.first.tick) / 12
    parts = [int((tick - reference.first.tick - 1) / part) for tick in ticks[0]]
    assert all(abs(part - n) <= 1 for n, part in enumerate(parts))
    assert sampled[0].planned == 12


def test_jobs_change_nothing():
    alone = sweep(written, STOCK, every=5)
    together = sweep(written, STOCK, every=5, jobs=2)
    assert alone.verdicts == together.verdicts and alone.damaged


def test_the_report_names_the_share_and_the_earliest_instant_of_each_kind():
    report = sweep(written, STOCK, between=(3.2, 4.1))
    assert not report.clean
    for kind, found in report.kinds().items():
        assert found == [v for v in report.verdicts if kind in v.kinds]
        text = report.describe("some.module:written")
        clean = len(report.verdicts) - len(found)
        assert f"{kind.value:<13} {clean:>5} of {len(report.verdicts)} clean" in text
        assert f"earliest at {found[0].trial}" in text
        assert f"some.module:written --only-stock --replay {found[0].tick}" in text
    told = json.loads(json.dumps(report.to_dict("some.module:written")))
    assert told["damaged"] == len(report.damaged) == len(told["instants"])
    assert told["kinds"]["placeholder"]["earliest"] == str(
        report.of_kind(FaultKind.PLACEHOLDER)[0].trial
    )


def test_an_instant_that_was_damaged_is_damaged_when_it_is_played_again():
    stretch = (3.2, 4.1)
    for report in (
        sweep(written, STOCK, between=stretch, stop_after=3),
        sweep(written, STOCK, between=stretch, stop_after=3, second=True),
        sweep(written, STOCK, between=stretch, stop_after=3, false_start=True),
        sweep(written, STOCK, between=stretch, stop_after=3, ms=40.0),
    ):
        assert len(report.damaged) == 3
        for verdict in report.damaged:
            trial, noise = verdict.trial, report.false_start
            outcome = play(written, STOCK, trial.instant, second=trial.second, false_start=noise)
            assert tuple(judge(outcome)) == verdict.faults


def test_two_barge_ins_come_soon_and_late():
    report = sweep(written, TRANSACTIONAL, every=9, second=True)
    assert report.clean
    gaps = [v.trial.second.ticks for v in report.verdicts if v.trial.second]
    span = report.reference.last.tick - report.reference.first.tick
    assert len(gaps) == len(report.verdicts)
    assert any(gap < span / 10 for gap in gaps) and any(gap > span / 2 for gap in gaps)


def test_a_sweep_stops_when_it_is_told_to():
    asked = []

    def stop():
        asked.append(None)
        return len(asked) == 5

    report = sweep(written, STOCK, stop=stop)
    assert len(report.verdicts) == 5 < report.planned
    assert "stopped early" in str(report)


def test_the_bar_shows_progress_and_goes_away():
    out = io.StringIO()
    sweep(written, STOCK, sample=4, progress=out)
    assert "4/4, " in out.getvalue() and "damaged" in out.getvalue()
    assert out.getvalue().endswith("\r\x1b[K")


def test_a_conversation_that_is_damaged_without_a_barge_in_is_not_clean():
    broken = talk.but(voice="text", limit=4.0)
    report = sweep(broken, STOCK, sample=1)
    assert report.reference_faults and not report.clean
    assert "without any barge-in: never rests" in str(report)


# --- deliberately broken builds ----------------------------------------------------------------


class KeepsItsWrites(TransactionalLLMContext):
    """A rollback that leaves the calls in the history."""

    def end_turn(self):
        unfinished = [round for round in self.staged if round.unanswered]
        epoch = super().end_turn()
        for round in unfinished:
            call = round.calls[0]
            function = {"name": call.name, "arguments": call.arguments}
            calls: Any = [{"id": call.tool_call_id, "type": "function", "function": function}]
            self.add_message({"role": "assistant", "tool_calls": calls})
        return epoch


class StampsTheCurrentEpoch(TransactionalLLMContext):
    """What arrives is taken for the current turn's, whoever asked for it."""

    def turn_of(self, frame):
        return self.epoch

    def is_live(self, epoch):
        return True

    def was_interrupted(self, epoch):
        return False


class AwaitsInsideACommit(TransactionalLLMContext):
    """The calls are written first, and the results after an await that may be cancelled."""

    _writing: asyncio.Task[None] | None = None

    def commit(self, round=None):
        before = len(self.messages)
        added = super().commit(round)
        results = [m for m in self.messages[before:] if isinstance(m, dict) and m["role"] == "tool"]
        for message in results:
            self.messages.remove(message)
        if results:
            self._writing = asyncio.get_running_loop().create_task(self._write(results))
        return added

    async def _write(self, results):
        await asyncio.sleep(0)
        self.add_messages(results)

    def end_turn(self):
        if self._writing:
            self._writing.cancel()
        return super().end_turn()


@pytest.mark.parametrize(
    ("context", "conversation", "stretch", "expected"),
    [
        (KeepsItsWrites, written, (3.2, 3.3), {FaultKind.HALF_ROUND, FaultKind.LEFTOVER}),
        (StampsTheCurrentEpoch, written, (4.05, 4.07), {FaultKind.DEAD_TURN}),
        (AwaitsInsideACommit, written, (4.05, 4.07), {FaultKind.HALF_ROUND}),
        (AwaitsInsideACommit, chain, (4.41, 4.43), {FaultKind.HALF_ROUND}),
    ],
)
def test_a_broken_build_is_caught(context, conversation, stretch, expected):
    """The sweep must be able to fail, or its hundred per cent says nothing."""
    broken = TRANSACTIONAL.but(context.__name__, context=context)
    assert sweep(conversation, TRANSACTIONAL, between=stretch).clean
    report = sweep(conversation, broken, between=stretch)
    assert report.reference_faults == ()
    assert expected <= set(report.kinds())


def test_a_split_commit_is_caught_in_a_tick_or_two_and_nowhere_else():
    """Examples would never have found it."""
    broken = TRANSACTIONAL.but("broken", context=AwaitsInsideACommit)
    report = sweep(written, broken, between=(3.3, 4.2), jobs=2)
    assert 1 <= len(report.damaged) <= 3 < 20 < len(report.verdicts)


def test_instants_are_named_in_words():
    assert str(Tick(7)) == "tick 7" and str(At(1.5)) == "1.500 s"
    assert str(After(ticks=3)) == "3 ticks later" and str(After(seconds=2)) == "2.000 s later"
