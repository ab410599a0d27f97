# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Virtual time: a whole Pipecat pipeline on a loop whose sleeps cost nothing.

Time stands still while anything can run, and jumps to the next timer when nothing can. A minute of
conversation takes as long as its code, and the same code gives the same run, to the byte, however
busy the machine is.

The loop is a plain ``asyncio.SelectorEventLoop`` with another selector; only public hooks of
asyncio are used, since the loop asks its selector exactly once per pass. It is not built on
``looptime`` because the sweep counts passes: looptime inserts idle passes before each jump, waits
in real time when nothing is left to do or a thread is at work, and rounds time to a
microsecond where Pipecat's word timestamps count nanoseconds.
"""

import asyncio
import datetime
import gc
import heapq
import itertools
import math
import random
import selectors
import time
import types
import uuid
from array import array
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar
from unittest import mock

from pipecat.clocks.base_clock import BaseClock

from pipecat_turn_acid.testing import _compat

T = TypeVar("T")

EPOCH = 1_767_225_600
"""The wall clock at the start of a run: 2026-01-01T00:00:00Z."""

START = 1000.0
"""The loop's own time at the start of a run; not 0, which some code takes for "never"."""

_NS = 1_000_000_000
_START_NS = round(START * _NS)


class VirtualTimeError(Exception):
    """A run cannot go on."""


class Stalled(VirtualTimeError):  # noqa: N818 - it reads as the fact it states
    """Nothing can run, no timer is set, and nothing outside the loop is listened to."""


class OutOfTime(VirtualTimeError):  # noqa: N818
    """The run passed its limit of virtual time or of ticks."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer as soon as nothing else can run.

    A *tick* is one pass of the loop: everything that was ready when the pass began runs in it.
    Sockets work, but what arrives through them is polled, and when it arrives is not repeatable.
    """

    def __init__(self, *, limit: float = 3600.0, tick_limit: int = 5_000_000):
        """Create a loop at tick 0 and 0.0 s of virtual time.

        Args:
            limit: Virtual seconds after which the run fails with :class:`OutOfTime`.
            tick_limit: Ticks after which it does, for code that spins without a timer.
        """
        self._now_ns = _START_NS
        self._ticks = 0
        self._limit_ns = _START_NS + round(limit * _NS)
        self._tick_limit = tick_limit
        self._due: list[tuple[int, int, Callable[[], object]]] = []
        self._due_order = itertools.count()
        self.tick_times = array("d", [0.0])
        """The virtual seconds at which each tick began; one for tick 0, before the first."""
        super().__init__(_PassSelector(self))

    @property
    def ticks(self) -> int:
        """How many passes the loop has made."""
        return self._ticks

    @property
    def elapsed(self) -> float:
        """Virtual seconds since the loop was created."""
        return (self._now_ns - _START_NS) / _NS

    @property
    def now_ns(self) -> int:
        """The loop's time in nanoseconds; never 0."""
        return self._now_ns

    def time(self) -> float:
        """Return the loop's time in seconds; it never moves while anything can run."""
        return self._now_ns / _NS

    def at_tick(self, tick: int, callback: Callable[[], object]) -> None:
        """Call back at exactly this tick: in that pass, behind what is already ready.

        Time does not jump in a pass that has such a callback. A tick that is over counts as the
        next one.

        Args:
            tick: The tick, counted from 1.
            callback: What to call, without arguments.
        """
        heapq.heappush(self._due, (tick, next(self._due_order), callback))

    def at_elapsed(self, seconds: float, callback: Callable[[], object]) -> None:
        """Call back when this much virtual time has passed since the start of the run.

        Args:
            seconds: Virtual seconds since the loop was created.
            callback: What to call, without arguments.
        """
        self.call_at(START + seconds, callback)

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> Any:
        """Run the function here and now; a thread would bring the machine's timing in."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def begin_pass(self, timeout: float | None, listening: bool) -> bool:
        """Count a pass, make what is due at this tick ready, and let time jump if it may.

        Args:
            timeout: Seconds to the next timer, 0 when something is ready, None without a timer.
            listening: Whether anything outside the loop is listened to.

        Returns:
            Whether the pass has anything to do.

        Raises:
            Stalled: Nothing is left that could ever happen.
            OutOfTime: A limit is passed.
        """
        self._ticks += 1
        self.tick_times.append(self.elapsed)
        while self._due and self._due[0][0] <= self._ticks:
            self.call_soon(heapq.heappop(self._due)[2])
            timeout = 0
        if self._ticks > self._tick_limit:
            raise OutOfTime(f"more than {self._tick_limit} ticks, at {self.elapsed:.3f} s")
        if timeout is None:
            if not listening:
                raise Stalled(
                    f"nothing is left to run at {self.elapsed:.3f} s, tick {self._ticks}: "
                    "something waits for what never comes"
                )
            return False
        if timeout > 0:
            self._now_ns += max(1, math.ceil(timeout * _NS - 0.5))
            if self._now_ns > self._limit_ns:
                raise OutOfTime(f"more than {(self._limit_ns - _START_NS) / _NS} virtual seconds")
        return True


class _PassSelector(selectors.BaseSelector):
    """The hook into a pass of the loop, and a real selector for those who use sockets."""

    def __init__(self, loop: VirtualTimeLoop):
        self._loop = loop
        self._real = selectors.DefaultSelector()

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # One entry is the loop's own wake-up pipe.
        listening = len(self._real.get_map()) > 1
        if listening and timeout != 0 and (arrived := self._real.select(0)):
            self._loop.begin_pass(0, listening)
            return arrived
        if not self._loop.begin_pass(timeout, listening):
            return self._real.select(None)
        return self._real.select(0) if listening and timeout == 0 else []


class VirtualClock(BaseClock):
    """A Pipecat clock that reads the loop it is used on."""

    def __init__(self) -> None:
        """Create a clock that has not been started."""
        self._started_ns: int | None = None

    def start(self) -> None:
        """Count from now on."""
        self._started_ns = _loop().now_ns

    def get_time(self) -> int:
        """Return the nanoseconds since the start, 0 before it."""
        return 0 if self._started_ns is None else _loop().now_ns - self._started_ns


def _loop() -> VirtualTimeLoop:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        raise VirtualTimeError("can't read a virtual clock: this loop has real time")
    return loop


def run(
    main: Callable[[], Coroutine[Any, Any, T]],
    *,
    limit: float = 3600.0,
    tick_limit: int = 5_000_000,
    seed: int = 0,
    prepare: Callable[[VirtualTimeLoop], object] | None = None,
) -> T:
    """Run a coroutine function to its end in virtual time.

    For the duration of the run the wall clocks of ``time``, Pipecat's timestamps, ``uuid.uuid4``,
    Pipecat's object numbers and the global random numbers follow the run, executors run inline,
    and the garbage collector waits. All of them are as before when it returns or raises. Build
    the pipeline inside ``main``; what was built outside keeps its old numbers.

    Args:
        main: Called without arguments inside the run.
        limit: Virtual seconds after which the run fails.
        tick_limit: Ticks after which it does.
        seed: Seed of what is random in the run.
        prepare: Called with the loop before anything runs, to place callbacks on ticks.

    Returns:
        What ``main`` returned.

    Raises:
        Stalled: Nothing is left that could ever happen, and ``main`` has not returned.
        OutOfTime: A limit is passed.
    """
    loop = VirtualTimeLoop(limit=limit, tick_limit=tick_limit)
    if prepare:
        prepare(loop)
    with following(loop, seed=seed):
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(main())


@contextmanager
def following(loop: VirtualTimeLoop, *, seed: int = 0) -> Iterator[None]:
    """Make every clock and every source of numbers follow the loop, until the block is left.

    Args:
        loop: The loop to follow.
        seed: Seed of what is random in the block.
    """

    def wall_ns() -> int:
        return EPOCH * _NS + loop.now_ns - _START_NS

    numbers = random.Random(seed)
    collecting = gc.isenabled()
    state = random.getstate()
    with ExitStack() as stack:
        for name, clock in {
            "time": lambda: wall_ns() / _NS,
            "time_ns": wall_ns,
            "monotonic": loop.time,
            "monotonic_ns": lambda: loop.now_ns,
            "perf_counter": loop.time,
            "perf_counter_ns": lambda: loop.now_ns,
        }.items():
            stack.enter_context(mock.patch.object(time, name, clock))
        stack.enter_context(
            mock.patch.object(
                uuid, "uuid4", lambda: uuid.UUID(int=numbers.getrandbits(128), version=4)
            )
        )
        stack.enter_context(_compat.timestamps_from(_virtual_datetime(wall_ns)))
        stack.enter_context(_compat.fresh_object_numbers())
        # A collection runs finalizers at a moment that depends on all that ran before.
        gc.disable()
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(state)
            if collecting:
                gc.enable()


def _virtual_datetime(wall_ns: Callable[[], int]) -> Any:
    class VirtualDatetime(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return datetime.datetime.fromtimestamp(wall_ns() / _NS, tz)

    module = types.ModuleType("datetime")
    module.__dict__.update(datetime.__dict__)
    module.__dict__["datetime"] = VirtualDatetime
    return module
