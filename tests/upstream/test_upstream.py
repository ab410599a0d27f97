# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The comparison with Pipecat's own tests, tried on a checkout of three tests."""

from pathlib import Path

import pytest

from tests.upstream import compare
from tests.upstream.compare import (
    BROKEN,
    DROP_INS,
    Comparison,
    Difference,
    Run,
    load_list,
    weigh,
)

TESTS = """
import asyncio
import json

from pipecat.frames.frames import FunctionCallInProgressFrame, FunctionCallResultFrame
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMAssistantAggregator
from pipecat.services.llm_service import LLMService
from pipecat.tests.utils import SleepFrame, run_test


class Service(LLMService):
    pass


def test_result_is_kept():
    context = LLMContext()
    call = {"function_name": "f", "tool_call_id": "1", "arguments": {}}
    started = FunctionCallInProgressFrame(**call, cancel_on_interruption=True)
    result = FunctionCallResultFrame(**call, result={"conditions": "Sunny"})
    frames = [started, SleepFrame(), result]

    asyncio.run(run_test(LLMAssistantAggregator(context), frames_to_send=frames))

    assert json.loads(context.messages[-1]["content"]) == {"conditions": "Sunny"}


def test_which_classes_are_bound():
    names = [c.__name__ for c in (LLMContext, LLMAssistantAggregator, Service)]

    assert names == ["LLMContext", "LLMAssistantAggregator", "Service"]


def test_of_another_release():
    assert hasattr(LLMContext, "gone")
"""
RESULT = "tests/test_it.py::test_result_is_kept"
BOUND = "tests/test_it.py::test_which_classes_are_bound"
OTHER = "tests/test_it.py::test_of_another_release"
MEANT = Difference(BOUND, rule=14, reason="other classes are bound")


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """A checkout of three tests, and a conftest that does not fit."""
    checkout = tmp_path_factory.mktemp("checkout")
    tests = checkout / "tests"
    tests.mkdir()
    (tests / "conftest.py").write_text("from pipecat import a_name_that_no_release_has\n")
    file = tests / "test_it.py"
    file.write_text(TESTS)
    return Comparison(checkout, [file])


@pytest.fixture(scope="module")
def stock(comparison: Comparison) -> Run:
    return comparison.run({})


@pytest.fixture(scope="module")
def ours(comparison: Comparison) -> Run:
    return comparison.run(DROP_INS)


def test_a_listed_difference_is_meant_and_what_fails_on_stock_says_nothing(stock, ours):
    """A clean comparison means that everything applicable passes or is listed."""
    verdict = weigh(stock, ours, [MEANT])

    assert verdict.passed == {RESULT}
    assert verdict.meant == {BOUND}
    assert verdict.not_applicable == {OTHER}
    assert verdict.is_clean


def test_a_broken_drop_in_is_caught(comparison, stock):
    """A comparison that cannot fail proves nothing."""
    broken = comparison.run(BROKEN)

    verdict = weigh(stock, broken, [MEANT])

    assert set(verdict.unexplained) == {RESULT}
    assert not verdict.is_clean


HANGING = """
import asyncio


def test_before():
    assert True


def test_that_ends_and_leaves_a_task_that_does_not():
    async def stubborn():
        while True:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                pass

    async def main():
        task = asyncio.create_task(stubborn())
        await asyncio.sleep(0)
        return task

    asyncio.run(main())


def test_after():
    assert True
"""


def test_a_run_goes_on_without_a_test_that_hangs(tmp_path, monkeypatch):
    """One release's test that never ends on another release must not take the others with it."""
    monkeypatch.setattr(compare, "PATIENCE", 10.0)
    (tmp_path / "tests").mkdir()
    file = tmp_path / "tests" / "test_it.py"
    file.write_text(HANGING)

    run = Comparison(tmp_path, [file]).run({})

    hanging = "tests/test_it.py::test_that_ends_and_leaves_a_task_that_does_not"
    assert run.reasons[hanging] == "hangs"
    assert run.having("passed") == {"tests/test_it.py::test_before", "tests/test_it.py::test_after"}


def test_an_unlisted_difference_is_unexplained(stock, ours):
    """Whoever changes what a user of stock Pipecat sees has to write it down."""
    verdict = weigh(stock, ours, [])

    assert set(verdict.unexplained) == {BOUND}
    assert not verdict.is_clean


@pytest.mark.parametrize(("test", "why"), [(RESULT, "passes"), (OTHER, "failed on stock")])
def test_a_listed_difference_that_is_none_is_stale(stock, ours, test, why):
    """The list shrinks when a difference goes away."""
    none = Difference(test, rule=3, reason="made up")

    verdict = weigh(stock, ours, [MEANT, none])

    assert why in verdict.stale[test]
    assert not verdict.is_clean


def test_what_fails_once_and_passes_twice_is_unsteady(stock, ours):
    """A slow machine is no difference, and is not hidden either."""
    passing = Run({BOUND: "passed"})

    assert weigh(stock, ours, [], [passing, passing]).unsteady == {BOUND}
    assert weigh(stock, ours, [], [passing, ours]).unexplained


def test_each_difference_names_a_rule_of_the_contract():
    """Whoever reads the list can look up why."""
    _, meant = load_list(Path(__file__).parent / "differences.toml")

    assert meant
    assert all(1 <= difference.rule <= 15 and difference.reason for difference in meant)
    assert len({difference.test for difference in meant}) == len(meant)
