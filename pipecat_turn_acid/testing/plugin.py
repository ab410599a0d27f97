# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A pytest plugin: tests that ask for ``virtual_time`` run in virtual time, all others do not.

Opt in with ``pytest_plugins = ["pipecat_turn_acid.testing.plugin"]`` in the root ``conftest.py``
or ``-p pipecat_turn_acid.testing.plugin`` on the command line. ::

    async def test_a_minute_costs_nothing(virtual_time):
        await asyncio.sleep(60)
        assert virtual_time.elapsed == 60

    def test_two_runs_are_alike(virtual_time):
        assert virtual_time.run(conversation) == virtual_time.run(conversation)
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from pipecat_turn_acid.testing import virtual_time as vt

T = TypeVar("T")


class VirtualTime:
    """What the ``virtual_time`` fixture gives to a test."""

    def run(self, main: Callable[[], Coroutine[Any, Any, T]], **kwargs: Any) -> T:
        """Run a coroutine function in virtual time, from a test that is not async itself.

        Args:
            main: Called without arguments inside the run.
            **kwargs: As for :func:`pipecat_turn_acid.testing.virtual_time.run`.

        Returns:
            What ``main`` returned.
        """
        return vt.run(main, **kwargs)

    @property
    def loop(self) -> vt.VirtualTimeLoop:
        """The loop that an async test runs on."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, vt.VirtualTimeLoop)
        return loop

    @property
    def elapsed(self) -> float:
        """Virtual seconds since the async test began."""
        return self.loop.elapsed

    @property
    def ticks(self) -> int:
        """Passes of the loop since the async test began."""
        return self.loop.ticks


@pytest.fixture(name="virtual_time")
def virtual_time_fixture() -> VirtualTime:
    """Run this test in virtual time if it is async, or let it start runs of its own."""
    return VirtualTime()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test that asks for ``virtual_time`` on a virtual loop of its own."""
    if "virtual_time" not in pyfuncitem.fixturenames:
        return None
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in wanted}
    vt.run(lambda: pyfuncitem.obj(**arguments))
    return True
