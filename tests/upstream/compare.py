# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Run Pipecat's own tests on the stock classes and on the drop-ins, and compare.

    python tests/upstream/compare.py CHECKOUT            # fails on any difference that is not listed
    python tests/upstream/compare.py CHECKOUT --broken   # fails unless a broken drop-in is caught

The tests come from CHECKOUT, unmodified; Pipecat itself is the one that is installed. A test that
fails on the stock classes too says nothing about the drop-ins: it is counted as not applicable.
``differences.toml`` lists the differences that are meant, each with its rule.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

DROP_INS = {
    "pipecat.flows.manager:FlowManager": "pipecat_turn_acid:TransactionalFlowManager",
    "pipecat.processors.aggregators.llm_context:LLMContext": (
        "pipecat_turn_acid:TransactionalLLMContext"
    ),
    "pipecat.processors.aggregators.llm_response_universal:LLMUserAggregator": (
        "pipecat_turn_acid:TransactionalLLMUserAggregator"
    ),
    "pipecat.processors.aggregators.llm_response_universal:LLMAssistantAggregator": (
        "pipecat_turn_acid:TransactionalLLMAssistantAggregator"
    ),
    "pipecat.processors.aggregators.llm_response_universal:LLMContextAggregatorPair": (
        "pipecat_turn_acid:TransactionalLLMContextAggregatorPair"
    ),
    "pipecat.services.openai.llm:OpenAILLMService": "pipecat_turn_acid:TransactionalOpenAILLMService",
    "pipecat.services.llm_service:LLMService": "pipecat_turn_acid:transactional",
}
"""Stock to drop-in, each ``module:name``; the last one stands for every class of LLM services."""

_CONTEXT = "pipecat.processors.aggregators.llm_context:LLMContext"
_ASSISTANT = "pipecat.processors.aggregators.llm_response_universal:LLMAssistantAggregator"

HEARD = {**DROP_INS, _CONTEXT: "variants:HeardContext"}
"""The drop-ins with ``TurnPolicy(interrupted_text="heard")``, which is what stock Pipecat does."""

BROKEN = {**DROP_INS, _ASSISTANT: "variants:ForgetfulAssistantAggregator"}
"""The drop-ins with an aggregator that forgets tool results."""

PATIENCE = 150.0
"""Seconds without any outcome after which a run hangs; a single test may take 60."""

CONFIG = """\
[pytest]
asyncio_default_fixture_loop_scope = function
filterwarnings = ignore
"""


@dataclass(frozen=True)
class Difference:
    """A test of Pipecat's that is meant to come out otherwise on the drop-ins.

    Parameters:
        test: Its node id.
        rule: The rule of the contract that demands it.
        reason: What the drop-ins do instead.
        passes_when_heard: Whether it passes under ``interrupted_text="heard"``.
    """

    test: str
    rule: int
    reason: str
    passes_when_heard: bool = False


@dataclass
class Run:
    """How the tests came out once.

    Parameters:
        outcomes: Outcome by node id.
        reasons: First line of the failure by node id.
    """

    outcomes: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def add(self, lines: str) -> str | None:
        """Add what a run has written.

        Args:
            lines: One outcome each.

        Returns:
            The test that was running when the run was stopped; None if it came to its end.
        """
        running: str | None = None
        for test, outcome, reason in map(json.loads, lines.splitlines()):
            if outcome in ("started", "finished"):
                running = test or None
                continue
            self.outcomes[test] = outcome
            self.reasons[test] = reason
        return running

    def having(self, outcome: str) -> set[str]:
        """Node ids of the tests with an outcome."""
        return {test for test, o in self.outcomes.items() if o == outcome}


@dataclass
class Verdict:
    """What the comparison found.

    Parameters:
        passed: Tests that pass on both.
        not_applicable: Tests that fail or are skipped on the stock classes too.
        meant: Listed differences that were met.
        unexplained: Tests that pass on stock, fail on the drop-ins, and are not listed.
        stale: Listed differences that are none, with what was found instead.
        unsteady: Tests that failed on the drop-ins once and then passed twice.
    """

    passed: set[str] = field(default_factory=set)
    not_applicable: set[str] = field(default_factory=set)
    meant: set[str] = field(default_factory=set)
    unexplained: dict[str, str] = field(default_factory=dict)
    stale: dict[str, str] = field(default_factory=dict)
    unsteady: set[str] = field(default_factory=set)

    @property
    def is_clean(self) -> bool:
        """Whether every difference is meant, and everything that is meant is one."""
        return bool(self.passed) and not self.unexplained and not self.stale


class Comparison:
    """Runs the tests of one checkout."""

    def __init__(self, checkout: Path, files: Sequence[Path]):
        """Prepare to run.

        Args:
            checkout: Holds ``tests``.
            files: The test files to run.
        """
        self._checkout = checkout
        self._files = files
        self._flags: list[str] = []

    def compare(
        self, drop_ins: dict[str, str], meant: Iterable[Difference], heard: dict[str, str]
    ) -> Verdict:
        """Run on stock and on the drop-ins.

        Args:
            drop_ins: What to bind.
            meant: The differences that are meant.
            heard: What to bind for those that are due to ``interrupted_text``.
        """
        meant = list(meant)
        stock = self.run({})
        ours = self.run(drop_ins)
        again: list[Run] = []
        if doubtful := sorted(weigh(stock, ours, meant).unexplained):
            again = [self.run(drop_ins, doubtful) for _ in range(2)]
        verdict = weigh(stock, ours, meant, again)
        by_policy = sorted(d.test for d in meant if d.passes_when_heard and d.test in verdict.meant)
        if by_policy:
            under_heard = self.run(heard, by_policy)
            for test in set(by_policy) - under_heard.having("passed"):
                verdict.unexplained[test] = "fails with interrupted_text='heard' too: " + (
                    under_heard.reasons.get(test, "did not run")
                )
        return verdict

    def run(self, drop_ins: dict[str, str], tests: Sequence[str] = ()) -> Run:
        """Run tests in a process of their own, and go on without one that hangs.

        Args:
            drop_ins: What to bind; empty for stock.
            tests: Node ids; all the files when empty.
        """
        chosen = list(tests) or [str(file) for file in self._files]
        run, hung = Run(), list[str]()
        while True:
            stopped_at = self._run_once(drop_ins, chosen, hung, run)
            if stopped_at is None:
                return run
            run.outcomes[stopped_at], run.reasons[stopped_at] = "failed", "hangs"
            hung.append(stopped_at)
            if not tests:
                file = str(self._checkout / stopped_at.partition("::")[0])
                chosen = chosen[chosen.index(file) :]

    def _run_once(
        self, drop_ins: dict[str, str], chosen: list[str], hung: list[str], run: Run
    ) -> str | None:
        """Run what is chosen, and add the outcomes. Returns the test that hangs, if one does."""
        with tempfile.TemporaryDirectory() as scratch:
            outcomes = Path(scratch, "outcomes")
            config = Path(scratch, "pytest.ini")
            config.write_text(CONFIG)
            command = [sys.executable, "-m", "pytest", "-p", "rebind", "-p", "no:cacheprovider"]
            command += ["-c", str(config), "--rootdir", str(self._checkout), "-q", "--tb=no"]
            command += ["--continue-on-collection-errors", "--timeout=60", *self._flags, *chosen]
            command += [f"--deselect={test}" for test in hung]
            environment = {
                **os.environ,
                "DROP_INS": json.dumps(drop_ins),
                "OUTCOMES": str(outcomes),
                "PYTHONPATH": str(HERE),
            }
            log = Path(scratch, "log")
            with log.open("w") as output:
                process = subprocess.Popen(
                    command, cwd=self._checkout, env=environment, stdout=output, stderr=output
                )
                while _is_busy(process, outcomes):
                    time.sleep(0.2)
                process.kill()
                process.wait()
            if not outcomes.exists():
                text = log.read_text()
                if "while loading conftest" in text and not self._flags:
                    print("The checkout's conftest.py does not fit this release; run without it.")
                    self._flags = ["--noconftest"]
                    return self._run_once(drop_ins, chosen, hung, run)
                sys.exit(f"pytest did not run:\n{text}")
            return run.add(outcomes.read_text())


def _is_busy(process: "subprocess.Popen[bytes]", outcomes: Path) -> bool:
    """Whether a run goes on, and has come to something in the last minutes."""
    if process.poll() is not None:
        return False
    heard = outcomes.stat().st_mtime if outcomes.exists() else time.time()
    return time.time() - heard < PATIENCE


def weigh(stock: Run, ours: Run, meant: Iterable[Difference], again: Sequence[Run] = ()) -> Verdict:
    """Compare two runs.

    Args:
        stock: A run on the stock classes.
        ours: A run on the drop-ins.
        meant: The differences that are meant.
        again: More runs on the drop-ins, of what differs in the first; what passes in all of them
            is unsteady, which a slow machine can be to blame for.
    """
    listed = {difference.test for difference in meant}
    applicable = stock.having("passed")
    verdict = Verdict(not_applicable=set(stock.outcomes) - applicable)
    for test in sorted(applicable):
        if ours.outcomes.get(test) == "passed":
            verdict.passed.add(test)
            if test in listed:
                verdict.stale[test] = "passes on the drop-ins"
        elif test in listed:
            verdict.meant.add(test)
        elif again and all(run.outcomes.get(test) == "passed" for run in again):
            verdict.unsteady.add(test)
        else:
            verdict.unexplained[test] = ours.reasons.get(test, "did not run")
    for test in listed & verdict.not_applicable:
        verdict.stale[test] = f"is {stock.outcomes[test]} on stock"
    return verdict


def load_list(file: Path) -> tuple[list[str], list[Difference]]:
    """Read which files to run and what is meant to differ.

    Args:
        file: Such as ``differences.toml``.
    """
    content: dict[str, Any] = tomllib.loads(file.read_text())
    return content["files"], [Difference(**entry) for entry in content.get("difference", [])]


def report(verdict: Verdict, meant: Sequence[Difference]) -> None:
    """Print what was found."""
    print(
        f"Pipecat {version('pipecat-ai')}: {len(verdict.passed)} tests pass on both, "
        f"{len(verdict.meant)} differ as listed, {len(verdict.unexplained)} differ unexplained, "
        f"{len(verdict.not_applicable)} not applicable (they fail or are skipped on stock too)"
    )
    for difference in meant:
        if difference.test in verdict.meant:
            print(f"  rule {difference.rule}: {difference.test}\n    {difference.reason}")
    for title, found in (
        ("UNEXPLAINED", verdict.unexplained),
        ("LISTED BUT NO DIFFERENCE", verdict.stale),
    ):
        for test, reason in found.items():
            print(f"  {title}: {test}\n    {reason}")
    for test in sorted(verdict.unsteady):
        print(f"  unsteady, failed once and passed twice: {test}")


def main(argv: Sequence[str] | None = None) -> int:
    """Compare, and say how it went.

    Args:
        argv: The arguments; those of the process by default.

    Returns:
        0 when all is as it should be, 1 when it is not.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("checkout", type=Path, help="a checkout of Pipecat")
    parser.add_argument("--files", nargs="+", help="glob patterns of test files, instead of all")
    parser.add_argument("--list", type=Path, default=HERE / "differences.toml")
    parser.add_argument(
        "--broken", action="store_true", help="bind a broken drop-in and demand that it is caught"
    )
    options = parser.parse_args(argv)
    tests = options.checkout.resolve() / "tests"
    if not tests.is_dir():
        parser.error(f"{options.checkout} has no tests; it must be a checkout of Pipecat")
    patterns, meant = load_list(options.list)
    files = sorted({file for pattern in options.files or patterns for file in tests.glob(pattern)})
    if not files:
        parser.error(f"no file in {tests} matches {options.files or patterns}")
    verdict = Comparison(tests.parent, files).compare(
        BROKEN if options.broken else DROP_INS, meant, HEARD
    )
    report(verdict, meant)
    if options.broken:
        print("The broken drop-in was " + ("caught." if verdict.unexplained else "NOT CAUGHT."))
        return 0 if verdict.unexplained else 1
    return 0 if verdict.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
