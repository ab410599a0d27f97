# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A pytest plugin that binds drop-ins wherever Pipecat and its tests bind the stock classes.

``-p rebind`` in a run of Pipecat's own tests, which stay as they are. What is bound comes from
the environment variable ``DROP_INS``, a JSON object of stock to drop-in, each ``module:name``;
``{}`` leaves everything stock. Every outcome is written to the file that ``OUTCOMES`` names, a line
of JSON each, as soon as it is known.

A class of LLM services is replaced by ``transactional(it)``, whether Pipecat or a test defines
it, so that a test's own fake service is judged too.
"""

import builtins
import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TRANSACTIONAL = "pipecat.services.llm_service:LLMService"
"""Stands for every class of LLM services; its drop-in is a function of a class."""

_SERVICES = (
    "pipecat.services.anthropic.llm",
    "pipecat.services.google.llm",
    "pipecat.services.openai.llm",
    "pipecat.services.openai.responses.llm",
)


class Rebinding:
    """Stock classes and what stands in for them."""

    def __init__(self, drop_ins: dict[str, str]):
        """Load both sides; nothing is replaced yet.

        Args:
            drop_ins: Stock to drop-in, each ``module:name``.
        """
        drop_ins = dict(drop_ins)
        transactional = drop_ins.pop(TRANSACTIONAL, None)
        self._transactional: Callable[[type], type] | None = (
            _load(transactional) if transactional else None
        )
        if self._transactional:
            self._llm_service = _load(TRANSACTIONAL)
            for name in _SERVICES:
                _import_if_installed(name)
        self._stand_ins = {_load(stock): _load(ours) for stock, ours in drop_ins.items()}

    def bind(self, modules: Iterator[ModuleType]) -> int:
        """Bind the drop-ins in modules that bind stock classes.

        Args:
            modules: The modules.

        Returns:
            How many names were bound anew.
        """
        bound = 0
        for module in modules:
            for name, value in list(vars(module).items()):
                if not inspect.isclass(value):
                    continue
                stand_in = self.stand_in(value)
                if stand_in is not value:
                    setattr(module, name, stand_in)
                    bound += 1
        return bound

    def stand_in(self, value: type) -> type:
        """What stands in for a class; the class itself when nothing does."""
        if value in self._stand_ins:
            return self._stand_ins[value]
        if self._transactional and self._is_service(value):
            return self._transactional(value)
        return value

    def build_class(self, tests: Path, build: Callable[..., Any]) -> Callable[..., Any]:
        """Make services that a test defines transactional as they are defined.

        Args:
            tests: Where the tests are.
            build: What makes a class.

        Returns:
            What makes a class from now on.
        """

        def build_class(body: Any, name: str, *args: Any, **kwargs: Any) -> Any:
            made = build(body, name, *args, **kwargs)
            is_of_a_test = tests in Path(body.__code__.co_filename).parents
            return self.stand_in(made) if is_of_a_test and inspect.isclass(made) else made

        return build_class

    def _is_service(self, value: type) -> bool:
        # What Pipecat's services build upon stays: the drop-in goes before the finished class.
        return (
            issubclass(value, self._llm_service)
            and value is not self._llm_service
            and not value.__name__.startswith(("_Base", "Base", "Websocket"))
        )


def _load(reference: str) -> Any:
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def _import_if_installed(name: str) -> None:
    try:
        importlib.import_module(name)
    except ImportError:
        return


def _stock_modules() -> Iterator[ModuleType]:
    for name, module in list(sys.modules.items()):
        if name == "pipecat" or name.startswith("pipecat."):
            yield module


def _test_modules(tests: Path) -> Iterator[ModuleType]:
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and tests in Path(file).resolve().parents:
            yield module


class Plugin:
    """Binds before the tests are collected and after, and notes each outcome."""

    def __init__(self, rebinding: Rebinding, tests: Path, outcomes: Path):
        """Take over what one run needs."""
        self._rebinding = rebinding
        self._tests = tests
        self._outcomes_file = outcomes
        self._failed: set[str] = set()

    def pytest_collection_modifyitems(self, session: pytest.Session) -> None:
        """Bind in the tests, and in what of Pipecat they have loaded since."""
        self._rebinding.bind(_stock_modules())
        self._rebinding.bind(_test_modules(self._tests))

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Bind in what a test before has loaded."""
        self._rebinding.bind(_stock_modules())

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note what is running, for whoever finds that it hangs."""
        self._write(nodeid, "started", "")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note what could not be collected."""
        if report.failed:
            self._note(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note an outcome; a failure in any phase outweighs what passed."""
        if report.nodeid in self._failed:
            return
        if report.failed or report.skipped or report.when == "call":
            self._note(report)

    def pytest_sessionfinish(self) -> None:
        """Say that the run has come to its end."""
        self._write("", "finished", "")

    def _note(self, report: Any) -> None:
        reason = ""
        if report.outcome == "failed":
            self._failed.add(report.nodeid)
            crash = getattr(report.longrepr, "reprcrash", None)
            lines = (crash.message if crash else str(report.longrepr)).strip().splitlines()
            reason = lines[0 if crash else -1][:300] if lines else ""
        self._write(report.nodeid, report.outcome, reason)

    def _write(self, test: str, outcome: str, reason: str) -> None:
        with self._outcomes_file.open("a") as file:
            file.write(json.dumps([test, outcome, reason]) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Bind in Pipecat before any test is loaded."""
    tests = Path(config.rootpath, "tests").resolve()
    rebinding = Rebinding(json.loads(os.environ["DROP_INS"]))
    rebinding.bind(_stock_modules())
    builtins.__build_class__ = rebinding.build_class(tests, builtins.__build_class__)
    config.pluginmanager.register(Plugin(rebinding, tests, Path(os.environ["OUTCOMES"])))
