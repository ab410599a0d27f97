# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The bot of ``docs/sweep-your-own-bot.md``: what the page says of it is so."""

import contextlib
import io
import pathlib
import re
import sys

import pytest

from examples import dentist_sweep
from pipecat_turn_acid.testing.cli import main
from pipecat_turn_acid.testing.conversation import STOCK, TRANSACTIONAL, At, Tick, play
from pipecat_turn_acid.testing.judge import FaultKind, judge
from pipecat_turn_acid.testing.sweep import sweep

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "sweep-your-own-bot.md"
conversation = dentist_sweep.conversation


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="its tasks wake in another order there")
def test_stock_answers_twice_even_without_a_barge_in():
    outcome = play(conversation, STOCK)
    details = [fault.detail for fault in judge(outcome)]
    assert 'turn 1 called choose_slot({"slot": "Monday at nine"}) 2 times' in details
    assert "the last turn was never answered to its end" in details


@pytest.mark.since(1, 13)
def test_stock_is_damaged_at_the_tick_that_the_page_names():
    (tick,) = set(re.findall(r"--only-stock --replay (\d+)", PAGE.read_text()))
    outcome = play(conversation, STOCK, Tick(int(tick)))
    assert FaultKind.PLACEHOLDER in {fault.kind for fault in judge(outcome)}


def test_the_drop_ins_leave_no_trace():
    report = sweep(conversation, TRANSACTIONAL, sample=8)
    assert report.clean, str(report)


def test_the_own_verdict_counts():
    outcome = play(conversation, TRANSACTIONAL, At(3.5))
    assert outcome.found == ("confirm", "Tuesday at nine") and judge(outcome) == []
    outcome.found = ("find", None)
    assert [fault.kind for fault in judge(outcome)] == [FaultKind.FLOW]


def test_tools_that_were_not_declared_are_overheard():
    """A bot's own tools are judged without being written down twice."""
    outcome = play(conversation, TRANSACTIONAL, At(3.5))
    assert [run.ending for run in outcome.runs[:2]] == ["cancelled", "reported"]
    assert [run.name for run in outcome.runs[-3:]] == [
        "find_slots",
        "check_insurance",
        "choose_slot",
    ]
    first = outcome.runs[-3]
    assert first.ended is not None and round(first.ended - first.started, 6) == 0.9


def test_the_page_names_every_kind_of_fault_and_only_options_that_exist():
    page = PAGE.read_text()
    for kind in FaultKind:
        assert f"`{kind.value}`" in page
    known = _options()
    for option in set(re.findall(r"--[a-z][a-z-]+", page)):
        assert option in known, option


def _options() -> set[str]:
    with pytest.raises(SystemExit), contextlib.redirect_stdout(io.StringIO()) as shown:
        main(["sweep", "--help"])
    return set(re.findall(r"--[a-z-]+", shown.getvalue()))
