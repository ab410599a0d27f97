# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Virtual time costs nothing, is repeatable, and leaves no trace of itself."""

import asyncio
import datetime
import gc
import random
import threading
import time
import uuid

import pytest
from loguru import logger
from pipecat.clocks.system_clock import SystemClock
from pipecat.frames.frames import TextFrame
from pipecat.utils.time import time_now_iso8601

from pipecat_turn_acid.testing import _compat
from pipecat_turn_acid.testing import virtual_time as vt


async def test_a_test_that_asks_for_it_sleeps_for_nothing(virtual_time):
    """A minute of conversation must not take a minute of the suite."""
    await asyncio.sleep(3600 - 1)
    assert virtual_time.elapsed == pytest.approx(3599)


def test_a_test_that_does_not_ask_has_real_time():
    """Nothing leaks into the tests next to it."""

    async def main():
        return asyncio.get_running_loop()

    assert not isinstance(asyncio.run(main()), vt.VirtualTimeLoop)
    assert time.monotonic.__name__ == "monotonic"
    assert abs(time.time() - vt.EPOCH) > 3600


def test_every_clock_follows_the_loop_and_is_given_back(virtual_time):
    clocks = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")
    before = [getattr(time, name) for name in clocks]
    uuid4, state = uuid.uuid4, random.getstate()

    async def main():
        readings = [getattr(time, name)() for name in clocks]
        stamp = time_now_iso8601()
        await asyncio.sleep(90.5)
        return [
            getattr(time, name)() - old for name, old in zip(clocks, readings, strict=True)
        ], stamp

    passed, stamp = virtual_time.run(main)

    assert passed == pytest.approx([90.5, 90.5e9] * 3)
    assert stamp == "2026-01-01T00:00:00.000+00:00"
    assert [getattr(time, name) for name in clocks] == before
    assert uuid.uuid4 is uuid4 and random.getstate() == state
    assert datetime.datetime.fromisoformat(time_now_iso8601()).timestamp() > vt.EPOCH
    assert gc.isenabled()


def test_clocks_are_given_back_when_a_run_fails(virtual_time):
    async def main():
        raise KeyError("inside")

    with pytest.raises(KeyError):
        virtual_time.run(main)
    assert time.time.__name__ == "time" and gc.isenabled()


async def test_a_pipecat_clock_counts_virtual_nanoseconds(virtual_time):
    """Word timestamps are measured against it."""
    ours, stock = vt.VirtualClock(), SystemClock()
    assert ours.get_time() == 0
    ours.start()
    stock.start()
    await asyncio.sleep(0.123456789)
    assert ours.get_time() == stock.get_time() == 123_456_789


def test_a_virtual_clock_refuses_a_loop_with_real_time():
    async def main():
        vt.VirtualClock().start()

    with pytest.raises(vt.VirtualTimeError, match="real time"):
        asyncio.run(main())


async def test_time_stands_still_while_anything_can_run(virtual_time):
    async def busy():
        for _ in range(1000):
            await asyncio.sleep(0)
        return virtual_time.elapsed

    asyncio.get_running_loop().call_later(1e-9, lambda: None)
    assert await busy() == 0


async def test_timers_fire_in_order_and_on_time(virtual_time):
    fired = []
    loop = asyncio.get_running_loop()
    for delay in (0.3, 0.1, 0.2, 1e-9, 86400 * 0.04):
        loop.call_later(delay, lambda delay=delay: fired.append((delay, virtual_time.elapsed)))
    await asyncio.sleep(3500)
    assert [delay for delay, _ in fired] == sorted(delay for delay, _ in fired)
    assert [at for _, at in fired] == pytest.approx([delay for delay, _ in fired], abs=2e-9)


def test_a_callback_comes_at_exactly_its_tick(virtual_time):
    """A barge-in at tick N must be at tick N, or a finding can't be replayed."""

    async def main():
        await asyncio.sleep(0.5)
        for _ in range(20):
            await asyncio.sleep(0)

    for tick in (1, 2, 3, 7, 20):
        seen = []

        def place(loop, tick=tick, seen=seen):
            loop.at_tick(tick, lambda: seen.append(loop.ticks))

        virtual_time.run(main, prepare=place)
        assert seen == [tick]


def test_a_tick_comes_before_time_moves_on(virtual_time):
    seen = []

    async def main():
        await asyncio.sleep(5)

    def place(loop):
        loop.at_tick(2, lambda: seen.append(loop.elapsed))
        loop.at_elapsed(2.5, lambda: seen.append(loop.elapsed))

    virtual_time.run(main, prepare=place)
    assert seen == [0, 2.5]


def test_a_run_that_waits_for_what_never_comes_fails_at_once(virtual_time):
    """A test that hangs tells nothing."""

    async def main():
        await asyncio.sleep(3)
        await asyncio.Event().wait()

    with pytest.raises(vt.Stalled, match=r"nothing is left to run at 3\.000 s"):
        virtual_time.run(main)


def test_a_run_beyond_its_limit_fails(virtual_time):
    async def main():
        await asyncio.sleep(11)

    with pytest.raises(vt.OutOfTime, match="more than 10.0 virtual seconds"):
        virtual_time.run(main, limit=10)


def test_a_run_that_spins_fails(virtual_time):
    async def main():
        for _ in range(2000):
            await asyncio.sleep(0)

    with pytest.raises(vt.OutOfTime, match="more than 1000 ticks"):
        virtual_time.run(main, tick_limit=1000)


async def test_executors_run_here_and_now(virtual_time):
    """A thread would bring the machine's timing into the run."""
    assert await asyncio.to_thread(threading.get_ident) == threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await asyncio.to_thread(lambda: 1 / 0)


def test_uuids_random_numbers_and_object_numbers_repeat(virtual_time):
    async def main():
        return uuid.uuid4(), random.random(), TextFrame("a").name, TextFrame("b").id

    assert virtual_time.run(main) == virtual_time.run(main)
    assert virtual_time.run(main, seed=1)[:2] != virtual_time.run(main)[:2]


def test_object_numbers_outside_go_on_where_they_were(virtual_time):
    """Two frames of one process must never share an id."""

    async def main():
        return [TextFrame("inside").id for _ in range(5)]

    before = TextFrame("before").id
    virtual_time.run(main)
    assert TextFrame("after").id == before + 1


async def test_sockets_work(virtual_time):
    """A bot may bring its own; what comes through them is polled."""

    async def echo(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
    writer.write(b"hello\n")
    assert await reader.readline() == b"hello\n"
    writer.close()
    server.close()


def test_pipecat_logs_nothing_in_a_quiet_block_and_as_before_afterwards():
    lines = []

    def speak(text):
        exec("logger.debug(text)", {"__name__": "pipecat.x", "logger": logger, "text": text})

    sink = logger.add(lines.append, format="{message}", level="DEBUG")
    try:
        speak("before")
        with _compat.quiet_logging():
            speak("inside")
        speak("after")
        logger.disable("pipecat.x")
        with _compat.quiet_logging():
            pass
        speak("disabled")
    finally:
        logger.enable("pipecat.x")
        logger.remove(sink)
    assert [str(line).strip() for line in lines] == ["before", "after"]
