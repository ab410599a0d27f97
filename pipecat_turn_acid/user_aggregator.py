# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The user aggregator: it ends a turn when a barge-in is known, and begins the next one.

A turn begins when the user's words are flushed.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pipecat.frames.frames import (
    Frame,
    InterruptionFrame,
    LLMContextFrame,
    LLMRunFrame,
    VADUserStartedSpeakingFrame,
)
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMUserAggregator,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameDirection
from pipecat.turns.types import UserTurnSpeculation

from pipecat_turn_acid import _compat
from pipecat_turn_acid.context import TransactionalLLMContext
from pipecat_turn_acid.policy import TurnPolicy
from pipecat_turn_acid.stamps import (
    CONVERSATION_KEY,
    OWED_KEY,
    stamp,
)
from pipecat_turn_acid.turn_aware import TurnAwareAggregator, adopt

_compat.require(LLMUserAggregator)


class TransactionalLLMUserAggregator(TurnAwareAggregator, LLMUserAggregator):
    """An `LLMUserAggregator` whose turns begin and end transactions.

    With a plain `LLMContext`, and with a realtime service, it is the stock
    aggregator.
    """

    def __init__(
        self,
        context: LLMContext,
        *,
        params: LLMUserAggregatorParams | None = None,
        policy: TurnPolicy | None = None,
        **kwargs,
    ):
        """Initialize the user aggregator.

        Args:
            context: The conversation.
            params: As in `LLMUserAggregator`.
            policy: How interrupted turns are remembered; see `TurnPolicy`.
            **kwargs: As in `LLMUserAggregator`.
        """
        super().__init__(context, params=params, **kwargs)
        adopt(context, policy)
        if isinstance(context, TransactionalLLMContext):
            context.has_user_aggregator = True
        self._flushing_task: asyncio.Task[Any] | None = None
        self._turn_begun = False
        self._runs_pushed = 0

    async def process_frame(self, frame: Frame, direction: FrameDirection):
        """Process a frame; an interruption from elsewhere ends the turn first.

        Args:
            frame: The frame.
            direction: Where it travels.
        """
        turns = self._turns
        # A muted user's interruption goes no further than here, so it ends nothing.
        if turns and isinstance(frame, InterruptionFrame) and not self._user_is_muted:
            if not turns.end_turn_of(frame):
                return
        if turns and isinstance(frame, VADUserStartedSpeakingFrame) and not self._user_is_muted:
            # The model was asked whether the user is done, and the user goes on.
            turns.user_turn_open |= self._turn_begun
        await super().process_frame(frame, direction)

    async def push_frame(self, frame: Frame, direction: FrameDirection = FrameDirection.DOWNSTREAM):
        """Push a frame; an interruption carries the turn it ends, a speculation its own.

        Args:
            frame: The frame.
            direction: Where it goes.
        """
        turns = self._turns
        if turns and isinstance(frame, InterruptionFrame):
            stamp(frame, turns.epoch)
        if turns and isinstance(frame, LLMContextFrame) and frame.speculation:
            stamp(frame, turns.epoch)
            frame.metadata[CONVERSATION_KEY] = turns
        await super().push_frame(frame, direction)

    async def broadcast_interruption(self):
        """End the turn, then broadcast the interruption."""
        turns = self._turns
        if turns:
            turns.end_turn()
        await super().broadcast_interruption()

    async def push_context_frame(self, direction: FrameDirection = FrameDirection.DOWNSTREAM):
        """Ask for a run on behalf of the current turn.

        While the user has the floor the run is owed instead. After an
        interruption that no user turn followed, a new turn begins with it.

        Args:
            direction: Where the frame goes.
        """
        turns = self._turns
        if turns:
            if turns.user_turn_open and asyncio.current_task() is not self._flushing_task:
                turns.owe_run()
                return
            if turns.is_over:
                turns.begin_turn()
                if self._paying:
                    turns.owe_run()
            self._runs_pushed += 1
        await super().push_context_frame(direction)

    async def _handle_llm_run(self, frame: LLMRunFrame):
        # A run that pays what is owed is not made when another one has been quicker.
        self._paying = OWED_KEY in frame.metadata
        try:
            await super()._handle_llm_run(frame)
        finally:
            self._paying = False

    async def _push_aggregation(self, *, run_llm: bool = True) -> str:
        turns = self._turns
        if not turns or not self._aggregation:
            return await super()._push_aggregation(run_llm=run_llm)
        self._begin_turn_once(turns)
        with self._flushing():
            text = await super()._push_aggregation(run_llm=run_llm)
        # The user has yielded the floor, although it may take the model to say so.
        turns.user_turn_open = False
        return text

    async def _run_speculative_inference(self, speculation: UserTurnSpeculation):
        turns = self._turns
        if turns:
            # The answer and its calls must find their turn begun. Whatever is owed is shown now.
            self._begin_turn_once(turns)
            turns.note_run()
        await super()._run_speculative_inference(speculation)

    @contextmanager
    def _flushing(self) -> Iterator[None]:
        """Let this task ask for runs although the user has the floor."""
        before, self._flushing_task = self._flushing_task, asyncio.current_task()
        try:
            yield
        finally:
            self._flushing_task = before

    def _begin_turn_once(self, turns: TransactionalLLMContext) -> None:
        """Begin the turn of this utterance, which may be flushed in several pieces."""
        if not self._turn_begun or turns.is_over:
            turns.begin_turn()
            self._turn_begun = True

    async def _on_user_turn_started(self, controller, strategy, params):
        turns = self._turns
        if not turns:
            await super()._on_user_turn_started(controller, strategy, params)
            return
        cut_a_run = params.enable_interruptions and turns.run_in_progress
        turns.user_turn_open = True
        self._turn_begun = False
        if params.enable_interruptions:
            turns.end_turn()
        await super()._on_user_turn_started(controller, strategy, params)
        if cut_a_run:
            # Stock takes a bot that thinks again after it has spoken for one that waits.
            self._user_turn_interrupted_bot = True

    async def _on_user_turn_stopped(self, controller, strategy, params):
        await super()._on_user_turn_stopped(controller, strategy, params)
        self._turn_begun = False

    async def _maybe_emit_user_turn_stopped(
        self, strategy=None, on_session_end: bool = False, run_llm: bool = True
    ):
        turns = self._turns
        if not turns:
            await super()._maybe_emit_user_turn_stopped(strategy, on_session_end, run_llm)
            return
        runs_pushed = self._runs_pushed
        try:
            with self._flushing():
                await super()._maybe_emit_user_turn_stopped(strategy, on_session_end, run_llm)
        finally:
            turns.user_turn_open = False
        if on_session_end or not run_llm or self._runs_pushed > runs_pushed:
            return
        if turns.owes_run:
            # The user's turn brought no run, so what waited for it is paid by itself.
            self._paying = True
            try:
                await self.push_context_frame()
            finally:
                self._paying = False
