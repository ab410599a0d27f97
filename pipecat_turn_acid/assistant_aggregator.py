# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The assistant aggregator: it commits a round when its frames have passed by.

That is behind the words that were said before it, and it causes one run.
"""

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, cast

from loguru import logger
from pipecat.frames.frames import (
    BotStoppedSpeakingFrame,
    Frame,
    FunctionCallCancelFrame,
    FunctionCallFromLLM,
    FunctionCallInProgressFrame,
    FunctionCallResultFrame,
    FunctionCallResultProperties,
    FunctionCallsStartedFrame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMMarkerFrame,
    LLMMessagesAppendFrame,
    LLMThoughtEndFrame,
    TextFrame,
    TTSStartedFrame,
    UserImageRawFrame,
)
from pipecat.processors.aggregators import async_tool_messages
from pipecat.processors.aggregators.llm_context import LLMContext, LLMSpecificMessage
from pipecat.processors.aggregators.llm_response_universal import (
    LLMAssistantAggregator,
    LLMAssistantAggregatorParams,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessorSetup
from pipecat.utils.errors import ErrorCategory
from pipecat.utils.utils import obj_id

from pipecat_turn_acid import _compat
from pipecat_turn_acid.context import TransactionalLLMContext
from pipecat_turn_acid.core import IllegalTransitionError, RoundState, ToolCall, ToolRound
from pipecat_turn_acid.events import (
    HookFailed,
    RoundCommitted,
    RoundRolledBack,
    RoundSpliced,
    StaleFenced,
    StaleWork,
    TurnEnding,
    TurnEvent,
    TurnStarted,
)
from pipecat_turn_acid.late_results import dropped_content, note_message
from pipecat_turn_acid.llm import asks_for_run
from pipecat_turn_acid.policy import TurnPolicy
from pipecat_turn_acid.results import cut_short, result_content, sendable
from pipecat_turn_acid.stamps import (
    AFTER_WORDS_KEY,
    epoch_of,
)
from pipecat_turn_acid.turn_aware import TurnAwareAggregator, adopt

_compat.require(LLMAssistantAggregator)


class TransactionalLLMAssistantAggregator(TurnAwareAggregator, _compat.AssistantAggregator):
    """An `LLMAssistantAggregator` that commits tool rounds whole, or not at all.

    With a plain `LLMContext`, and with a realtime service, it is the stock
    aggregator.

    Event handlers, beside the stock ones:

    - ``on_turn_started(aggregator, epoch)``: A turn has begun.
    - ``on_round_committed(aggregator, round)``: A `ToolRound` is history.
    - ``on_round_rolled_back(aggregator, round)``: A `ToolRound` was dropped.
    - ``on_stale_fenced(aggregator, what)``: `StaleWork` was turned away.
    """

    def __init__(
        self,
        context: LLMContext,
        *,
        params: LLMAssistantAggregatorParams | None = None,
        policy: TurnPolicy | None = None,
        **kwargs,
    ):
        """Initialize the assistant aggregator.

        Args:
            context: The conversation.
            params: As in `LLMAssistantAggregator`.
            policy: How interrupted turns are remembered; see `TurnPolicy`.
            **kwargs: As in `LLMAssistantAggregator`.
        """
        self._observed: set[str] = set()
        self._is_set_up = False
        super().__init__(context, params=params, **kwargs)
        adopt(context, policy)
        for event in (
            "on_turn_started",
            "on_round_committed",
            "on_round_rolled_back",
            "on_stale_fenced",
        ):
            self._register_event_handler(event)
        # Which calls of a staged round have passed by, and what waits for its commit.
        self._passed: dict[ToolRound, set[str]] = {}
        self._on_committed: dict[ToolRound, list[Callable[[], Awaitable[None]]]] = {}
        self._images: dict[ToolRound, list[UserImageRawFrame]] = {}
        self._cancelled_early: dict[str, FunctionCallCancelFrame] = {}
        self._groups: dict[str, ToolRound] = {}
        self._asked_in: dict[str, int] = {}
        # Set when a turn ends: what is still said belongs to the turn that is over.
        self._is_cut = False
        self._cut_at = -1
        # Until the interruption has come here too, what comes is of the turn that it ends.
        self._interruption_is_due = False
        self._response_open = False
        self._held: list[tuple[LLMSpecificMessage, bool]] = []
        # What of the open response is in the history already, before a file or an image.
        self._written_early: list[Any] = []
        self._calls_after_words = False
        self._end_may_not_come = False
        self._working_for = 0
        self._hook_runner: asyncio.Task[Any] | None = None
        self._stop_listening: Callable[[], None] | None = None
        if isinstance(context, TransactionalLLMContext):
            self._stop_listening = context.add_listener(self._on_turn_event)
            context.commits_in_order = True

    async def process_frame(self, frame: Frame, direction: FrameDirection):
        """Process a frame, unless it is an interruption of a turn that is long over.

        Args:
            frame: The frame.
            direction: Where it travels.
        """
        turns = self._turns
        if turns and isinstance(frame, InterruptionFrame):
            if not turns.end_turn_of(frame, working_for=self._working_for):
                return
        await super().process_frame(frame, direction)
        if isinstance(frame, InterruptionFrame):
            self._interruption_is_due = False
        if turns and isinstance(frame, (BotStoppedSpeakingFrame, InterruptionFrame)):
            await self._call_hooks_and_pay(turns)

    # --- text --------------------------------------------------------------------------------

    async def _handle_llm_start(self, _: LLMFullResponseStartFrame):
        turns = self._turns
        if turns:
            epoch = turns.turn_of(_)
            if turns.was_interrupted(epoch):
                if turns.has_user_aggregator or epoch_of(_) is not None:
                    turns.report_stale(StaleWork("text", epoch))
                    return
                # Nobody else begins turns, so what is said after the interruption does.
                epoch = turns.begin_turn()
            self._is_cut = False
            self._response_open = True
            self._written_early.clear()
            self._end_may_not_come = False
            self._working_for = epoch
            if not turns.is_gated:
                turns.note_run()
        await super()._handle_llm_start(_)

    async def _handle_llm_end(self, _: LLMFullResponseEndFrame):
        turns = self._turns
        if not turns:
            await super()._handle_llm_end(_)
            return
        names_turn = epoch_of(_) is not None or not self._response_open
        epoch = turns.turn_of(_) if names_turn else self._working_for
        if turns.was_interrupted(epoch):
            # The voice may have begun anew with a word that had passed the interruption.
            if epoch >= self._working_for:
                self._is_cut = True
                await self._trigger_assistant_turn_stopped(interrupted=True)
            return
        self._place_held(turns, has_words=bool(self._aggregation))
        # Said to its end: an interruption that comes from here on cuts nothing of it.
        self._response_open = False
        self._written_early.clear()
        await super()._handle_llm_end(_)
        turns.run_in_progress = False
        await self._commit_passed(turns)

    async def _handle_tts_started(self, frame: TTSStartedFrame):
        # An utterance of the application's own, made after the cut, is not part of what was cut.
        made_after_the_cut = frame.id > self._cut_at and not self._interruption_is_due
        if self._is_cut and made_after_the_cut and not self._response_open:
            self._is_cut = False
        await super()._handle_tts_started(frame)

    async def _handle_text(self, frame: TextFrame):
        if not self._is_leftover(frame):
            await super()._handle_text(frame)

    async def _handle_marker_frame(self, frame: LLMMarkerFrame):
        if not self._is_leftover(frame):
            await super()._handle_marker_frame(frame)

    async def _handle_thought_end(self, frame: LLMThoughtEndFrame):
        if self._is_leftover(frame):
            await self._reset_thought_aggregation()
            return
        messages = self._context.messages
        before = len(messages)
        await super()._handle_thought_end(frame)
        if self._turns and self._response_open:
            thoughts = [m for m in messages[before:] if isinstance(m, LLMSpecificMessage)]
            _take_out(thoughts, messages)
            self._hold(frame, thoughts)

    def _hold(self, frame: Frame, messages: Sequence[LLMSpecificMessage]) -> None:
        """Keep messages for one provider alone until the response has passed.

        They are of use to it only beside what it said or called with them.
        """
        after_words = bool(frame.metadata.get(AFTER_WORDS_KEY))
        self._held += [(message, after_words) for message in messages]

    def _place_held(self, turns: TransactionalLLMContext, *, has_words: bool) -> None:
        """Put what was held before the words that follow it, or with the round."""
        held, self._held = self._held, []
        round = turns.staged[-1] if turns.staged else None
        for message, after_words in held:
            if round and (after_words or not has_words):
                turns.precede(round, [message])
            else:
                turns.add_message(message)

    def _is_leftover(self, frame: Frame) -> bool:
        """Whether a frame belongs to what was cut."""
        turns = self._turns
        if not turns or not self._is_cut:
            return False
        if turns.is_live(turns.turn_of(frame)) and frame.id > self._cut_at:
            # A pipeline may write without announcing its responses.
            self._is_cut = False
        return self._is_cut

    async def _add_aggregation_to_context(self) -> str:
        turns = self._turns
        if turns and self._is_cut and self._aggregation:
            # Reported to the transcript events; whether it is remembered was settled with the turn.
            text = self.aggregation_string()
            await self.reset()
            return text
        if not turns or not self._response_open or not self._aggregation:
            return await super()._add_aggregation_to_context()
        # A file or an image has come in the middle of an answer.
        before = len(turns.messages)
        self._place_held(turns, has_words=True)
        text = await super()._add_aggregation_to_context()
        self._written_early += turns.messages[before:]
        return text

    def _cut_text(self, turns: TransactionalLLMContext) -> None:
        if self._is_cut:
            return
        self._is_cut = True
        self._cut_at = obj_id()
        self._interruption_is_due = True
        self._response_open = False
        round = turns.staged[-1] if turns.staged else None
        for message, after_words in self._held:
            # If the round is complete, it stays, and its signature with it.
            if round and (after_words or not self._calls_after_words):
                turns.precede(round, [message])
        self._held.clear()
        early, self._written_early = self._written_early, []
        if turns.policy.interrupted_text == "discard":
            _take_out(early, turns.messages)
        elif self._aggregation:
            turns.add_message({"role": "assistant", "content": self.aggregation_string()})

    # --- rounds ------------------------------------------------------------------------------

    async def _handle_function_calls_started(self, frame: FunctionCallsStartedFrame):
        turns = self._turns
        if not turns:
            await super()._handle_function_calls_started(frame)
            return
        epoch = turns.turn_of(frame)
        if not turns.is_live(epoch):
            for call in frame.function_calls:
                turns.report_stale(StaleWork("calls", epoch, call.tool_call_id))
            return
        self._calls_after_words = bool(frame.metadata.get(AFTER_WORDS_KEY))
        self._end_may_not_come = _compat.VOICES_KEEP_WORDLESS_ENDS and not self._calls_after_words
        await super()._handle_function_calls_started(frame)
        if epoch_of(frame) is None:
            # A stock service: this frame is the first to know the whole batch.
            fresh: dict[str, FunctionCallFromLLM] = {}
            for call in frame.function_calls:
                if _staged(turns, call.tool_call_id) is None:
                    # An id that the service uses twice names its first call.
                    fresh.setdefault(call.tool_call_id, call)
            calls = [
                _describe(turns, call.tool_call_id, call.function_name, call.arguments)
                for call in fresh.values()
            ]
            if calls:
                turns.stage_round(calls, epoch=epoch)

    async def _handle_function_call_in_progress(self, frame: FunctionCallInProgressFrame):
        turns = self._turns
        if not turns:
            await super()._handle_function_call_in_progress(frame)
            return
        epoch = turns.turn_of(frame)
        tool_call_id = frame.tool_call_id
        if not frame.cancel_on_interruption:
            # Pipecat's own protocol: written at once, for the model does not wait for it.
            self._asked_in[tool_call_id] = epoch
            if epoch_of(frame) is None:
                turns.let_outlive(tool_call_id)
            await super()._handle_function_call_in_progress(frame)
            turns.note_written(tool_call_id)
            await self._commit_passed(turns)
            if cancelled := self._cancelled_early.pop(tool_call_id, None):
                await self._handle_function_call_cancel(cancelled)
            return
        round = _staged(turns, tool_call_id)
        if round is None and epoch_of(frame) is None and turns.is_live(epoch):
            round = self._stage_from_in_progress(turns, frame, epoch)
        if round is None:
            known = turns.find_round(tool_call_id)
            if known is None or known.state in (RoundState.ROLLED_BACK, RoundState.FENCED):
                turns.report_stale(StaleWork("calls", epoch, tool_call_id))
            self._function_calls_in_progress.pop(tool_call_id, None)
            return
        self._function_calls_in_progress[tool_call_id] = frame
        if cancelled := self._cancelled_early.pop(tool_call_id, None):
            await self._handle_function_call_cancel(cancelled)

    def _stage_from_in_progress(
        self, turns: TransactionalLLMContext, frame: FunctionCallInProgressFrame, epoch: int
    ) -> ToolRound:
        """Stage a call that no start frame announced, beside its siblings."""
        call = _describe(turns, frame.tool_call_id, frame.function_name, frame.arguments)
        siblings = self._groups.get(frame.group_id) if frame.group_id else None
        if siblings is not None and siblings.state is RoundState.STAGED:
            turns.add_staged_call(siblings, call)
            return siblings
        round = turns.stage_round([call], epoch=epoch)
        if frame.group_id:
            self._groups[frame.group_id] = round
        return round

    async def _handle_function_call_result(self, frame: FunctionCallResultFrame):
        turns = self._turns
        in_progress = self._function_calls_in_progress.get(frame.tool_call_id)
        if not turns:
            await super()._handle_function_call_result(frame)
            return
        if in_progress is not None and not in_progress.cancel_on_interruption:
            await self._handle_async_result(turns, frame)
            return
        if turns.find_round(frame.tool_call_id) is None:
            await super()._handle_function_call_result(frame)
            return
        self._function_calls_in_progress.pop(frame.tool_call_id, None)
        if epoch_of(frame) is None:
            self._stage_from_result(turns, frame)
        round = turns.find_round(frame.tool_call_id)
        image = self._function_calls_image_results.pop(frame.tool_call_id, None)
        callback = frame.properties.on_context_updated if frame.properties else None
        if round is not None and round.state is not RoundState.ROLLED_BACK:
            if image is not None:
                self._images.setdefault(round, []).append(image)
            if callback is not None:
                self._on_committed.setdefault(round, []).append(callback)
            await self._pass_by(turns, round, frame.tool_call_id)
        else:
            await self._pay_owed_run(turns)

    def _stage_from_result(
        self, turns: TransactionalLLMContext, frame: FunctionCallResultFrame
    ) -> None:
        """Record the result of a stock service, which only its frame brings."""
        explicit = _explicit_run(frame)
        try:
            turns.stage_tool_result(
                frame.tool_call_id,
                result_content(frame.function_name, frame.result),
                epoch=turns.turn_of(frame),
                wants_run=asks_for_run(frame.result, explicit),
            )
        except IllegalTransitionError as error:
            logger.warning(f"{self}: {error}")

    async def _handle_function_call_cancel(self, frame: FunctionCallCancelFrame):
        turns = self._turns
        if not turns:
            await super()._handle_function_call_cancel(frame)
            return
        tool_call_id = frame.tool_call_id
        in_progress = self._function_calls_in_progress.get(tool_call_id)
        if in_progress is not None and not in_progress.cancel_on_interruption:
            is_late = self._policy_for(turns, tool_call_id) != "deliver"
            if is_late or _has_side_effects(turns, tool_call_id):
                # Pipecat would have the model say, and at once, that it was not done.
                await self._handle_async_result(turns, _as_result(turns, frame, in_progress))
                return
            self._asked_in.pop(tool_call_id, None)
            await super()._handle_function_call_cancel(frame)
            if frame.run_llm and not self._has_siblings(in_progress):
                turns.owe_run()
            self._context_push_owed = False
            turns.deliver(tool_call_id)
            await self._call_hooks_and_pay(turns)
            return
        round = turns.find_round(tool_call_id)
        if round is None or not _is_running(round, tool_call_id):
            self._function_calls_in_progress.pop(tool_call_id, None)
            return
        if in_progress is None:
            # The cancellation has overtaken the call, which is behind the words before it.
            self._cancelled_early[tool_call_id] = frame
            return
        if tool_call_id in round.unanswered:
            # A stock service: the frame is all that tells.
            turns.stage_tool_result(
                tool_call_id,
                result_content(frame.function_name, _how_it_ended(turns, frame)),
                epoch=round.epoch,
                wants_run=frame.run_llm,
            )
        await self._pass_by(turns, round, tool_call_id)

    async def _pass_by(
        self, turns: TransactionalLLMContext, round: ToolRound, tool_call_id: str
    ) -> None:
        """Note that a call has ended here, where everything arrives in order."""
        self._function_calls_in_progress.pop(tool_call_id, None)
        self._passed.setdefault(round, set()).add(tool_call_id)
        await self._commit_passed(turns)

    async def _commit_passed(self, turns: TransactionalLLMContext) -> None:
        """Commit the rounds whose last result has passed by."""
        for round in list(self._passed):
            if not self._passed[round].issuperset(round.awaited):
                continue
            if round.state is RoundState.COMPLETE:
                if self._response_open and (self._aggregation or not self._end_may_not_come):
                    # The words of this response stand before its calls; its end brings both.
                    continue
                self._place_held(turns, has_words=bool(self._aggregation))
                await self._add_aggregation_to_context()
                turns.commit(round)
            del self._passed[round]
            await self._finish_committed(turns, round)
        await self._call_hooks_and_pay(turns)

    async def _handle_user_image_frame(self, frame: UserImageRawFrame):
        turns = self._turns
        tool_call_id = frame.request.tool_call_id if frame.request else None
        round = turns.find_round(tool_call_id) if turns and tool_call_id else None
        if turns and round and round.state in (RoundState.ROLLED_BACK, RoundState.FENCED):
            # Stock takes an image that nobody waits for any more for one that nobody asked for.
            turns.report_stale(StaleWork("result", round.epoch, tool_call_id))
            return
        await super()._handle_user_image_frame(frame)

    async def _finish_committed(self, turns: TransactionalLLMContext, round: ToolRound) -> None:
        """Do what waited for a round to be history, or drop it with the round."""
        images = self._images.pop(round, [])
        callbacks = self._on_committed.pop(round, [])
        if round.state not in (RoundState.COMMITTED, RoundState.OUTLIVING):
            return
        for image in images:
            if await self._maybe_append_image_to_context(image):
                turns.owe_run()
        for callback in callbacks:
            coroutine = cast(Coroutine[Any, Any, None], callback())
            _compat.run_until_the_session_ends(self, coroutine, f"{round}:on_context_updated")

    # --- calls that outlive the turn ---------------------------------------------------------

    async def _handle_async_result(
        self, turns: TransactionalLLMContext, frame: FunctionCallResultFrame
    ) -> None:
        tool_call_id = frame.tool_call_id
        is_final = frame.properties.is_final if frame.properties else True
        policy = self._policy_for(turns, tool_call_id)
        if policy != "deliver":
            epoch, reason = self._asked_in[tool_call_id], f"policy: {policy}"
            turns.report_stale(StaleWork("result", epoch, tool_call_id, reason=reason))
        if is_final:
            self._asked_in.pop(tool_call_id, None)
        if policy == "deliver" or (policy == "note" and not is_final):
            await self._deliver_async_result(turns, frame, may_run=policy == "deliver")
        elif is_final:
            self._settle_late(turns, frame, policy)
        if is_final:
            turns.deliver(tool_call_id)
        await self._call_hooks_and_pay(turns)

    def _policy_for(self, turns: TransactionalLLMContext, tool_call_id: str) -> str:
        """What becomes of what a call brings now; on time, it is delivered."""
        is_late = self._asked_in.get(tool_call_id, turns.epoch) < turns.epoch
        return turns.policy.late_result if is_late else "deliver"

    def _settle_late(
        self, turns: TransactionalLLMContext, frame: FunctionCallResultFrame, policy: str
    ) -> None:
        """Write what came too late as the policy wants it, and ask for no run."""
        tool_call_id = frame.tool_call_id
        del self._function_calls_in_progress[tool_call_id]
        if policy == "note":
            content = result_content(frame.function_name, frame.result)
            turns.add_message(note_message(tool_call_id, content))
        else:
            content = dropped_content(
                tool_call_id, has_side_effects=_has_side_effects(turns, tool_call_id)
            )
            self._update_function_call_result(frame.function_name, tool_call_id, content)

    async def _deliver_async_result(
        self, turns: TransactionalLLMContext, frame: FunctionCallResultFrame, *, may_run: bool
    ) -> None:
        """Let Pipecat write an async result, and owe the run that it asks for."""
        in_progress = self._function_calls_in_progress[frame.tool_call_id]
        explicit = _explicit_run(frame)
        if not may_run:
            properties = frame.properties or FunctionCallResultProperties()
            frame.properties = dataclasses.replace(properties, run_llm=False)
        await super()._handle_function_call_result(frame)
        wants_run = self._context_push_owed
        self._context_push_owed = False
        if frame.result is not None:
            # Stock takes an empty result for none at all.
            wants_run = explicit if explicit is not None else not self._has_siblings(in_progress)
        if wants_run and may_run:
            turns.owe_run()

    def _has_siblings(self, in_progress: FunctionCallInProgressFrame | None) -> bool:
        """Whether other calls of the same response are still running."""
        if in_progress is None or not in_progress.group_id:
            return False
        return any(
            frame is not None and frame.group_id == in_progress.group_id
            for tool_call_id, frame in self._function_calls_in_progress.items()
            if tool_call_id != in_progress.tool_call_id
        )

    async def _handle_function_call_finished(
        self, frame: FunctionCallResultFrame, in_progress_frame: FunctionCallInProgressFrame
    ):
        if not self._turns or frame.result:
            await super()._handle_function_call_finished(frame, in_progress_frame)
            return
        # Stock writes "COMPLETED" for [] and 0 too.
        deferred = self._is_deferred(in_progress_frame)
        del self._function_calls_in_progress[frame.tool_call_id]
        content = result_content(frame.function_name, frame.result)
        if deferred:
            message = async_tool_messages.build_final_result_message(frame.tool_call_id, content)
            self._context.add_message(message)
        else:
            self._update_function_call_result(frame.function_name, frame.tool_call_id, content)

    # --- runs --------------------------------------------------------------------------------

    async def push_context_frame(self, direction: FrameDirection = FrameDirection.DOWNSTREAM):
        """Push the context: downstream to tell, upstream to ask for a run.

        While the user has the floor a run is owed instead.

        Args:
            direction: Where the frame goes.
        """
        turns = self._turns
        if turns and direction is FrameDirection.UPSTREAM:
            if turns.user_turn_open:
                turns.owe_run()
                return
            if turns.is_over:
                turns.begin_turn()
                if self._paying:
                    turns.owe_run()
        await super().push_context_frame(direction)

    async def _handle_llm_messages_append(self, frame: LLMMessagesAppendFrame):
        turns = self._turns
        if not turns:
            await super()._handle_llm_messages_append(frame)
            return
        specific = [m for m in frame.messages if isinstance(m, LLMSpecificMessage)]
        if specific and len(specific) == len(frame.messages) and epoch_of(frame) is not None:
            # From the service: it belongs to the response that it is pushed with.
            if turns.was_interrupted(turns.turn_of(frame)) or self._is_leftover(frame):
                return
            if self._response_open:
                self._hold(frame, specific)
                return
        self.add_messages(frame.messages)
        if frame.run_llm:
            turns.owe_run()
        await self._pay_owed_run(turns)

    async def _maybe_push_context(self) -> None:
        turns = self._turns
        if not turns:
            await super()._maybe_push_context()
            return
        # The caller settles what is owed, when all of its frame has been handled.
        self._context_push_owed = True

    async def _pay_owed_run(self, turns: TransactionalLLMContext) -> None:
        """Ask for the run that is owed, unless something else will bring it about."""
        if not turns.owes_run:
            return
        if turns.staged or turns.runs_held:
            return
        if turns.user_turn_open or self._user_speaking or self._bot_speaking:
            return
        if self.has_queued_frame(FunctionCallResultFrame):
            return
        if self.has_queued_frame(LLMMessagesAppendFrame):
            return
        self._paying = True
        try:
            await self.push_context_frame(FrameDirection.UPSTREAM)
        finally:
            self._paying = False
        if not turns.is_gated:
            turns.note_run()

    async def _call_hooks_and_pay(self, turns: TransactionalLLMContext) -> None:
        if turns.hooks_pending:
            self._call_hooks(turns)
        else:
            await self._pay_owed_run(turns)

    def _call_hooks(self, turns: TransactionalLLMContext) -> None:
        """Call the commit hooks beside the pipeline, which a hook may have to wait for."""
        if self._hook_runner is not None or not self._is_set_up:
            return

        async def call_hooks() -> None:
            try:
                await turns.run_commit_hooks()
            finally:
                self._hook_runner = None
            await self._pay_owed_run(turns)

        self._hook_runner = self.create_task(call_hooks(), "commit_hooks")

    # --- session and events ------------------------------------------------------------------

    async def setup(self, setup: FrameProcessorSetup):
        """Set up the aggregator.

        Args:
            setup: As in stock Pipecat.
        """
        await super().setup(setup)
        self._is_set_up = True

    async def cleanup(self):
        """Release this aggregator's resources at teardown."""
        self._is_set_up = False
        if self._hook_runner is not None:
            await self.cancel_task(self._hook_runner)
            self._hook_runner = None
        if self._stop_listening is not None:
            self._stop_listening()
        await super().cleanup()
        if self._turns:
            # The service cancels what still runs, and nobody hears of it.
            self._function_calls_in_progress.clear()

    async def _handle_end_or_cancel(self, frame: Frame):
        await super()._handle_end_or_cancel(frame)
        if self._turns:
            # Complete rounds are kept, the others will never be complete.
            self._turns.commit()

    def add_event_handler(self, event_name: str, handler):
        """Add an event handler.

        Args:
            event_name: The event.
            handler: Called with this aggregator and what the event brings.
        """
        super().add_event_handler(event_name, handler)
        self._observed.add(event_name)

    def _on_turn_event(self, event: TurnEvent) -> None:
        turns = self._turns
        if turns is None:
            return
        match event:
            case TurnEnding():
                self._cut_text(turns)
            case TurnStarted(epoch):
                self._interruption_is_due = False
                self._emit("on_turn_started", epoch)
            case RoundSpliced(round):
                self._forget(round)
            case RoundCommitted(round):
                self._forget(round)
                self._emit("on_round_committed", round)
                if turns.hooks_pending:
                    self._call_hooks(turns)
            case RoundRolledBack(round):
                self._forget(round)
                for tool_call_id in round.awaited:
                    self._function_calls_image_results.pop(tool_call_id, None)
                self._passed.pop(round, None)
                self._on_committed.pop(round, None)
                self._images.pop(round, None)
                self._emit("on_round_rolled_back", round)
            case StaleFenced(what):
                logger.debug(f"{self}: fenced {what}")
                self._emit("on_stale_fenced", what)
            case HookFailed(round, error):
                logger.error(f"{self}: a callback of on_round_committed failed: {error!r}")
                if self._is_set_up:
                    message = f"Callback of on_round_committed failed for {round}: {error}"
                    self.create_task(
                        self.push_error(message, error, category=ErrorCategory.APPLICATION)
                    )
            case _:
                pass

    def _forget(self, round: ToolRound) -> None:
        """Take a round's calls off the list of running calls."""
        for tool_call_id in round.awaited:
            self._function_calls_in_progress.pop(tool_call_id, None)
            self._cancelled_early.pop(tool_call_id, None)
        self._groups = {g: r for g, r in self._groups.items() if r is not round}

    def _emit(self, event_name: str, *args: Any) -> None:
        if event_name in self._observed and self._is_set_up:
            self.create_task(self._call_event_handler(event_name, *args), event_name)


def _describe(
    turns: TransactionalLLMContext, tool_call_id: str, name: str, arguments: Any
) -> ToolCall:
    return ToolCall(
        tool_call_id=tool_call_id,
        name=name,
        arguments=json.dumps(sendable(arguments), ensure_ascii=False),
        has_side_effects=turns.has_side_effects(name),
    )


def _explicit_run(frame: FunctionCallResultFrame) -> bool | None:
    """What was said of running the model on a result; its properties come first, as in stock."""
    explicit = frame.properties.run_llm if frame.properties else None
    return frame.run_llm if explicit is None else explicit


def _how_it_ended(turns: TransactionalLLMContext, frame: FunctionCallCancelFrame) -> str:
    """What the model is told of a call that was cancelled, by a deadline or by the application."""
    return cut_short(
        frame.function_name,
        timed_out=frame.run_llm,
        has_side_effects=_has_side_effects(turns, frame.tool_call_id),
    )


def _as_result(
    turns: TransactionalLLMContext,
    frame: FunctionCallCancelFrame,
    in_progress: FunctionCallInProgressFrame,
) -> FunctionCallResultFrame:
    """A cancellation as a result that says what is known."""
    return FunctionCallResultFrame(
        function_name=frame.function_name,
        tool_call_id=frame.tool_call_id,
        arguments=in_progress.arguments,
        result=_how_it_ended(turns, frame),
        run_llm=frame.run_llm,
    )


def _has_side_effects(turns: TransactionalLLMContext, tool_call_id: str) -> bool:
    round = turns.find_round(tool_call_id)
    return round is not None and round.has_side_effects(tool_call_id)


def _is_running(round: ToolRound, tool_call_id: str) -> bool:
    """Whether a call may still end: its round was neither dropped nor has it the result."""
    if round.state is RoundState.OUTLIVING:
        return tool_call_id not in round.awaited
    return round.state in (RoundState.STAGED, RoundState.COMPLETE)


def _staged(turns: TransactionalLLMContext, tool_call_id: str) -> ToolRound | None:
    return next((r for r in turns.staged if tool_call_id in r.awaited), None)


def _take_out(these: Sequence[Any], messages: list[Any]) -> None:
    """Take messages out of a history, themselves and not their equals."""
    messages[:] = [m for m in messages if not any(m is one for one in these)]
