# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""One call: somebody asks for an order, hears the bot begin, and corrects the number."""

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from pipecat.clocks.base_clock import BaseClock
from pipecat.clocks.system_clock import SystemClock
from pipecat.frames.frames import ErrorFrame
from pipecat.pipeline.worker import PipelineWorker
from pipecat.workers.runner import WorkerRunner

from examples.demo.bot import Bot, digits
from examples.demo.diary import Diary, Request
from pipecat_turn_acid.testing.checks import Finding, check_history, errors


@dataclass(frozen=True)
class Line:
    """One thing the caller says.

    Parameters:
        text: The words.
        recording: The name of the recording of them.
    """

    text: str
    recording: str


ASKS: Final = Line("What is the status of order 4471?", "order-ask.wav")
CORRECTS: Final = Line("Sorry I meant order 4472.", "order-correct.wav")

START_SECS: Final = 20.0
BEFORE_SECS: Final = 1.2
ANSWER_SECS: Final = 30.0
SETTLE_SECS: Final = 1.5
"""So long must it be quiet before a call counts as over."""

# The bot has said "Let me" and the tool runs: what the caller hears now is about to be wrong.
_WORDS_BEFORE_BARGE_IN: Final = 2


@dataclass(frozen=True)
class Outcome:
    """What became of one call.

    Parameters:
        name: The kit that the bot was made of.
        diary: What was said and done.
        barged_in_at: When the caller spoke over the bot, in seconds of the call.
        history: The history after the call.
        stuck: Whether the bot still believes that a tool is running.
    """

    name: str
    diary: Diary
    barged_in_at: float | None
    history: list[dict[str, Any]]
    stuck: bool

    @property
    def next_request(self) -> Request | None:
        """The first request after the barge-in."""
        if self.barged_in_at is None:
            return None
        return next((r for r in self.diary.requests if r.at > self.barged_in_at), None)

    @property
    def meant(self) -> str:
        """The number of the order that the caller meant."""
        return digits(CORRECTS.text)

    @property
    def answered_right(self) -> bool:
        """Whether the bot gave the status of the order that was meant."""
        return any(
            self.meant in entry.text and "check" not in entry.text.casefold() and not entry.ending
            for entry in self.diary.entries
            if entry.who.value == "bot"
        )

    @property
    def damaged(self) -> bool:
        """Whether a request was shown a damaged history, or the call left one behind."""
        return bool(self.damage()) or self.stuck

    def damage(self) -> list[Finding]:
        """Everything that is wrong with what the model was shown, and with what is left."""
        shown = [request.messages for request in self.diary.requests]
        return [f for messages in (*shown, self.history) for f in errors(check_history(messages))]

    @property
    def remembers_the_cut_call(self) -> bool:
        """Whether the history after the call mentions the order that was not meant."""
        number = digits(ASKS.text)
        return any(number in json.dumps(m) for m in self.history if m.get("role") != "user")

    def reasons(self) -> list[str]:
        """What is wrong with the call, in words; nothing if it is as it should be."""
        reasons: list[str] = []
        if bad := [r for r in self.diary.requests if errors(check_history(r.messages))]:
            numbers = " and ".join(str(request.number) for request in bad)
            reasons.append(f"request {numbers} showed the model a damaged history")
        if errors(check_history(self.history)):
            reasons.append("after the call the damage is still in the history")
        if self.stuck:
            reasons.append("a tool counts as running, for ever")
        if self.barged_in_at is not None and not self.answered_right:
            reasons.append(f"nobody said what became of order {self.meant}")
        return reasons


async def hold(
    bot: Bot,
    say: Callable[[Line], Awaitable[None]],
    *,
    clock: BaseClock | None = None,
) -> Outcome:
    """Run the bot, and have the conversation with it.

    Args:
        bot: The bot.
        say: Makes the caller say something; returns when it has been said.
        clock: The pipeline's clock, or None for the system's.

    Returns:
        What became of it. A conversation that does not get to its end is told in the diary's
        faults.
    """
    diary = bot.diary
    worker = PipelineWorker(
        bot.pipeline,
        clock=clock or SystemClock(),
        enable_rtvi=False,
        enable_turn_tracking=False,
        idle_timeout_secs=None,
    )
    started = asyncio.Event()

    @worker.event_handler("on_pipeline_started")
    async def on_pipeline_started(worker: Any, frame: Any) -> None:
        started.set()

    @worker.event_handler("on_pipeline_error")
    async def on_pipeline_error(worker: Any, frame: ErrorFrame) -> None:
        diary.failed(frame.error)

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    running = asyncio.create_task(runner.run())
    try:
        barged_in_at = None
        try:
            await asyncio.wait_for(started.wait(), START_SECS)
        except TimeoutError:
            diary.failed(f"the pipeline did not start within {START_SECS:.0f} s")
        else:
            barged_in_at = await _converse(diary, say)
        history = [
            copy.deepcopy(dict(m)) for m in bot.context.get_messages() if isinstance(m, dict)
        ]
        return Outcome(bot.kit.name, diary, barged_in_at, history, bot.calls_in_progress)
    finally:
        diary.close()
        await worker.cancel()
        await running


async def _converse(diary: Diary, say: Callable[[Line], Awaitable[None]]) -> float | None:
    async def says(line: Line) -> None:
        diary.you_started()
        await say(line)
        if not await diary.until(lambda: diary.recognised, timeout=ANSWER_SECS):
            diary.failed(f"nothing was recognised in {line.text!r}")
        diary.you_stopped()

    diary.begin()
    await asyncio.sleep(BEFORE_SECS)
    await says(ASKS)
    if not await diary.until(
        lambda: bool(diary.words_played or diary.tools_running) or bool(diary.faults),
        timeout=ANSWER_SECS,
    ):
        diary.failed("the bot did not answer")
    if diary.faults:
        return None
    await diary.until(
        lambda: bool(diary.tools_running) and diary.words_played >= _WORDS_BEFORE_BARGE_IN,
        timeout=0.8,
    )
    barged_in_at = diary.now
    await says(CORRECTS)
    await diary.until(lambda: diary.requests[-1].at > barged_in_at, timeout=ANSWER_SECS)
    if not await diary.until_quiet(SETTLE_SECS, timeout=ANSWER_SECS):
        diary.failed("the bot did not come to an end")
    return barged_in_at
