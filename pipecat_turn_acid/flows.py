# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A flow whose transitions belong to the tool rounds that decide them.

What a handler returns as its next node is only a decision. It is kept with the call
until the call's round is in the history, and the node is entered then, in a commit
hook: after the round and before the next request.
"""

import asyncio
import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, cast

from loguru import logger
from pipecat.flows import (
    ContextStrategyConfig,
    FlowError,
    FlowManager,
    FlowsDirectFunction,
    FlowsFunctionSchema,
    InvalidFunctionError,
    NodeConfig,
)
from pipecat.flows.actions import ActionFinishedFrame, ActionManager, FunctionActionFrame
from pipecat.flows.types import FlowsDirectFunctionWrapper
from pipecat.frames.frames import (
    Frame,
    FunctionCallResultProperties,
    LLMMessagesAppendFrame,
    LLMMessagesTransformFrame,
    LLMMessagesUpdateFrame,
    LLMRunFrame,
    LLMSetToolsFrame,
    LLMUpdateSettingsFrame,
    TTSSpeakFrame,
)
from pipecat.pipeline.llm_switcher import LLMSwitcher
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import (
    LLMContextMessage,
    LLMSpecificMessage,
    NotGiven,
)
from pipecat.processors.frame_processor import FrameDirection
from pipecat.services.llm_service import FunctionCallParams, LLMService
from pipecat.transports.base_transport import BaseTransport
from pipecat.utils.errors import ErrorCategory

from pipecat_turn_acid import _compat
from pipecat_turn_acid._compat import ToolsSchema
from pipecat_turn_acid.context import TransactionalLLMContext
from pipecat_turn_acid.core import RoundState, ToolRound, require_messages
from pipecat_turn_acid.events import (
    RoundRolledBack,
    StaleWork,
    TurnEnded,
    TurnEnding,
    TurnEvent,
    TurnStarted,
)
from pipecat_turn_acid.flow_state import FlowState, Write
from pipecat_turn_acid.policy import TurnPolicy, has_side_effects, side_effects
from pipecat_turn_acid.stamps import OWED_KEY

for _owner in (FlowManager, ActionManager):
    _compat.require(_owner)

_REMEMBERED_CALLS = 512
_SECONDS_TO_APPLY = 5.0

_UNINTERRUPTIBLE = (
    # Without the first two an interrupted action is waited for for ever.
    ActionFinishedFrame,
    FunctionActionFrame,
    LLMMessagesAppendFrame,
    LLMMessagesUpdateFrame,
    LLMRunFrame,
    LLMSetToolsFrame,
    LLMUpdateSettingsFrame,
)


class TransactionalFlowManager(FlowManager):
    """A `FlowManager` whose transitions commit their round first, or do not happen.

    Use it in place of `FlowManager`, with a `TransactionalLLMContextAggregatorPair`
    on a `TransactionalLLMContext`. On anything else it warns once and works as
    stock.

    A node is entered when all the calls of the response that decided it have their
    results in the history. If the user barges in before they have all reported, the
    transition does not happen, then or later. If two functions of one response
    decide, the first one in the model's order wins.

    A handler that calls `set_node_from_config` decides, too: the node is entered
    with the round, not at once.
    """

    def __init__(
        self,
        *,
        llm: LLMService | LLMSwitcher,
        context_aggregator: Any,
        worker: PipelineWorker | None = None,
        task: PipelineWorker | None = None,
        context_strategy: ContextStrategyConfig | None = None,
        transport: BaseTransport | None = None,
        global_functions: list[FlowsFunctionSchema | FlowsDirectFunction] | None = None,
        policy: TurnPolicy | None = None,
    ):
        """Initialize the flow manager.

        Args:
            llm: As in `FlowManager`.
            context_aggregator: The transactional pair.
            worker: As in `FlowManager`.
            task: As in `FlowManager`.
            context_strategy: As in `FlowManager`.
            transport: As in `FlowManager`.
            global_functions: As in `FlowManager`.
            policy: How interrupted turns are remembered; see `TurnPolicy`.

        Raises:
            ValueError: The policy contradicts the context's, or has no effect
                because the context is a plain one.
        """
        context = getattr(context_aggregator.user(), "context", None)
        is_transactional = isinstance(context, TransactionalLLMContext)
        if policy is not None and not is_transactional:
            raise ValueError(
                "a TurnPolicy has no effect on a flow without a TransactionalLLMContext: pass one "
                "to the aggregator pair, or drop the policy"
            )
        self._context: TransactionalLLMContext | None = context if is_transactional else None
        self._calls: OrderedDict[str, _Call] = OrderedDict()
        # A node, or the word that there is none, which no run has shown the model yet.
        self._is_owing = False
        self._is_carrying = False
        super().__init__(
            llm=llm,
            context_aggregator=context_aggregator,
            worker=self._seen_by_flows(worker),
            task=self._seen_by_flows(task),
            context_strategy=context_strategy,
            transport=transport,
            global_functions=global_functions,
        )
        if self._context is None:
            logger.warning(
                f"{type(self).__name__}: works as stock, because its context is a plain "
                f"{type(context).__name__}; pass a TransactionalLLMContext to the aggregator pair"
            )
            return
        self._context.adopt_policy(policy)
        self._state = FlowState(self._running_call)
        self._context.on_round_committed(self._on_round_committed)
        self._context.add_listener(self._on_turn_event)

    def _seen_by_flows(self, worker: PipelineWorker | None) -> PipelineWorker | None:
        if worker is None or self._context is None:
            return worker
        return cast(PipelineWorker, _FlowWorker(worker, self))

    @property
    def worker(self) -> PipelineWorker:
        """The pipeline worker, as it was passed in."""
        worker: Any = self._worker
        return worker.plain if isinstance(worker, _FlowWorker) else worker

    @property
    def _turns(self) -> TransactionalLLMContext | None:
        """The context, while somebody commits the rounds in it."""
        context = self._context
        if context is None or not context.commits_in_order:
            return None
        return None if _compat.is_realtime(self._context_aggregator.assistant()) else context

    # --- decisions ---------------------------------------------------------------------------

    async def _create_transition_func(
        self, name: str, handler: Callable | FlowsDirectFunctionWrapper
    ) -> Callable:
        stock = await super()._create_transition_func(name, handler)
        if self._context is None:
            return stock

        async def transition_func(params: FunctionCallParams) -> None:
            turns = self._turns
            if turns is None or params.context is not turns:
                await stock(params)
                return
            call = self._open_call(turns, params.tool_call_id, name)

            async def result_callback(
                result: Any, *, properties: FunctionCallResultProperties | None = None
            ) -> None:
                await params.result_callback(result, properties=self._take_report(call, properties))

            token = _running.set(call)
            try:
                await stock(dataclasses.replace(params, result_callback=result_callback))
            finally:
                _running.reset(token)

        if has_side_effects(_compat.flow_handler(handler)):
            side_effects(transition_func)
        return transition_func

    def _open_call(self, turns: TransactionalLLMContext, tool_call_id: str, name: str) -> "_Call":
        call = self._calls[tool_call_id] = _Call(self, turns, tool_call_id, name)
        while len(self._calls) > _REMEMBERED_CALLS:
            self._calls.popitem(last=False)
        return call

    def _take_report(
        self, call: "_Call", properties: FunctionCallResultProperties | None
    ) -> FunctionCallResultProperties | None:
        """Keep what a call has decided, and leave the rest to its round.

        Args:
            call: The call.
            properties: What stock Flows reports; None for a handler that raised.

        Returns:
            What the pipeline is told.
        """
        decides = properties is not None and properties.on_context_updated is not None
        pending, self._pending_transition = self._pending_transition, None
        if call.has_reported or properties is None:
            call.node = None
        elif decides and pending:
            if call.node is not None:
                logger.warning(
                    f"{self}: `{call.name}` has set a node and returns another, which is entered"
                )
            call.decide(pending["next_node"])
        if call.has_reported:
            return properties
        call.has_reported = True
        call.wants_run = call.node is None and (
            properties is None or properties.run_llm is not False
        )
        properties = dataclasses.replace(
            properties or FunctionCallResultProperties(), on_context_updated=None
        )
        if call.is_left_alone:
            # The rest of its round was cut. What it has found out is told, and no more.
            self._calls.pop(call.tool_call_id, None)
            if call.node is not None:
                self._come_to_nothing(call)
                properties.run_llm = None
            return properties
        if call.node is not None:
            properties.run_llm = False
        elif call.outlives_turn:
            # Its round asks for one run when all of it has reported.
            properties.run_llm = False
        return properties

    async def set_node_from_config(self, node_config: NodeConfig) -> None:
        """Enter a node.

        In a handler of a call whose round is not in the history yet it is entered
        with the round, and not at all if the round is dropped. The last node that a
        handler sets or returns counts. Elsewhere it is entered at once.

        Args:
            node_config: The node.

        Raises:
            ~pipecat.flows.FlowTransitionError: The manager is not initialized.
            ~pipecat.flows.FlowError: The node cannot be entered. The flow stays
                where it is.
        """
        call = self._running_call()
        if call is None or not self._initialized:
            await super().set_node_from_config(node_config)
        elif call.is_dropped:
            self._report_stale(call)
        elif call.has_reported:
            await super().set_node_from_config(node_config)
        else:
            await self._rehearse(str(node_config.get("name", "unnamed")), node_config)
            call.decide(node_config)

    def _running_call(self) -> "_Call | None":
        """The call on whose behalf the running task acts."""
        call = _running.get()
        return call if call is not None and call.manager is self else None

    # --- rounds ------------------------------------------------------------------------------

    async def _on_round_committed(self, round: ToolRound) -> None:
        """Enter the node that a round has decided on."""
        turns = self._context
        calls = [self._calls.pop(key) for key in round.tool_call_ids if key in self._calls]
        if turns is None or not calls:
            return
        for call in calls:
            call.writes.clear()
        moves = [call for call in calls if call.has_reported and call.node is not None]
        is_stale = bool(moves) and _came_too_late(turns, round)
        if not moves or is_stale:
            for call in moves:
                self._come_to_nothing(call)
            self._owe_for(turns, round, calls, conveys=is_stale)
            return
        chosen, *others = moves
        for call in others:
            logger.warning(
                f"{self}: `{call.name}` and `{chosen.name}` of one response both lead to a node; "
                f"the one of `{chosen.name}`, which comes first, is entered"
            )
            self._report_stale(call, f"`{chosen.name}` comes first in the response")
        if turns.is_live(round.epoch):
            # What the round has asked for, the node's own run answers.
            turns.note_run()
        await self._enter(turns, round, chosen)

    async def _enter(self, turns: TransactionalLLMContext, round: ToolRound, call: "_Call") -> None:
        """Enter a node as far as the next request needs it.

        Its run and its post-actions follow when all commit hooks have returned.
        """
        entry = _Entry(present=call.present, round=round)
        settled = entry.settled = asyncio.get_running_loop().create_future()
        assistant = self._context_aggregator.assistant()

        async def enter() -> None:
            _running.set(None)
            _entering.set(entry)
            try:
                await self._execute_transition({"next_node": call.node})
            except Exception as error:
                if not settled.done():
                    settled.set_exception(error)
                    return
                message = f"An action of a node that was entered for `{call.name}` failed: {error}"
                await assistant.push_error(message, error, category=ErrorCategory.APPLICATION)

        name = f"{call.name}:{call.tool_call_id}:transition"
        task = _compat.run_until_the_session_ends(assistant, enter(), name)
        task.add_done_callback(lambda _: entry.settle())
        try:
            await settled
        except Exception as error:
            self._tell(
                turns,
                f"`{call.name}` was to lead to the next step of the conversation, which could not "
                f"be entered: {error}. The conversation is still at the same step.",
            )
            self._owe(turns)
            raise

    def _owe_for(
        self,
        turns: TransactionalLLMContext,
        round: ToolRound,
        calls: "list[_Call]",
        *,
        conveys: bool,
    ) -> None:
        """Have the model see a round that leads nowhere."""
        if len(round.awaited) == len(round.tool_call_ids) and not conveys:
            return  # The round itself asks for its run.
        if round.epoch < turns.epoch and turns.policy.late_result != "deliver":
            return
        silent = [call for call in calls if call.has_reported and not call.wants_run]
        if conveys or round.wants_run or len(silent) < len(round.tool_call_ids):
            self._owe(turns)

    def _come_to_nothing(self, call: "_Call") -> None:
        """Report a decision as stale, and to the model too if it knows of the call."""
        self._report_stale(call)
        if call.is_dropped:
            # What stays on record of a dropped round would pass for a step that was made.
            is_known, why = call.is_on_record, "is of a response that the user has cut short"
        else:
            is_known = call.turns.policy.late_result != "drop"
            why = "ended after the user had spoken"
        if is_known:
            self._tell(
                call.turns,
                f"Tool call {call.tool_call_id} (`{call.name}`) {why}, "
                "so it has not moved the conversation to another step.",
            )

    def _report_stale(self, call: "_Call", reason: str = "the turn is over") -> None:
        call.turns.report_stale(StaleWork("transition", call.epoch, call.tool_call_id, reason))

    @staticmethod
    def _tell(turns: TransactionalLLMContext, text: str) -> None:
        turns.add_message(cast(LLMContextMessage, {"role": "developer", "content": text}))

    def _on_turn_event(self, event: TurnEvent) -> None:
        turns = self._context
        if turns is None:
            return
        match event:
            case RoundRolledBack(round):
                self._roll_back(round)
            case TurnEnding():
                self._is_carrying = self._is_owing and turns.owes_run
            case TurnEnded():
                if self._is_carrying:
                    # Unless the user says something, nobody else would run the node.
                    turns.owe_run()
                self._is_carrying = False
            case TurnStarted():
                self._is_owing = False
            case _:
                pass

    def _roll_back(self, round: ToolRound) -> None:
        """Forget what the calls of a dropped round have decided, and take back what they wrote."""
        calls = [self._calls.pop(key) for key in round.tool_call_ids if key in self._calls]
        for call in calls:
            if call.has_reported and call.node is not None:
                self._come_to_nothing(call)
            call.node = None
        if isinstance(self._state, FlowState):
            self._state.take_back(
                write for call in calls if not call.is_on_record for write in call.writes
            )
        for call in calls:
            call.writes.clear()

    def _owe(self, turns: TransactionalLLMContext) -> None:
        self._is_owing = True
        turns.owe_run()

    # --- nodes -------------------------------------------------------------------------------

    async def _set_node(self, node_id: str, node_config: NodeConfig) -> None:
        turns = self._turns
        if turns is None or not self._initialized:
            await super()._set_node(node_id, node_config)
            return
        entry = _entering.get()
        if entry is None or entry.is_taken:
            entry = _Entry(present=tuple(turns.messages))
            for call in self._calls.values():
                call.node = None
        entry.is_taken = True
        await self._rehearse(node_id, node_config)
        restore = _compat.save_actions(self._action_manager)
        token = _entering.set(entry)
        try:
            await super()._set_node(node_id, node_config)
        except Exception:
            if not entry.is_entered:
                restore()
            raise
        finally:
            _entering.reset(token)

    async def _rehearse(self, node_id: str, node_config: NodeConfig) -> None:
        """Find what is wrong with a node before anything of the one before is touched.

        Raises:
            FlowError: The node cannot be entered.
        """
        restore = _compat.save_actions(self._action_manager)
        try:
            self._validate_node_config(node_id, node_config)
            node = self._render_node(node_id, node_config)
            for action in [*node.get("pre_actions", []), *node.get("post_actions", [])]:
                if not action.get("type"):
                    raise FlowError("Action missing required 'type' field")
                self._register_action_from_config(action)
            for function in self._global_functions + node.get("functions", []):
                await self._create_function_schema(_tool(node_id, function))
            require_messages(
                [*(node.get("role_messages") or []), *node["task_messages"]], LLMSpecificMessage
            )
            dataclasses.replace(node.get("context_strategy") or self._context_strategy)
        except Exception as error:
            logger.error(f"Error setting node {node_id}: {error}")
            raise FlowError(f"Failed to set node {node_id}: {error}") from error
        finally:
            restore()

    async def _update_llm_context(
        self,
        role_message: str | None,
        role_messages: list[dict] | None,
        task_messages: list[dict],
        functions: ToolsSchema | NotGiven,
        strategy: ContextStrategyConfig | None = None,
    ) -> None:
        entry = _entering.get()
        if entry is not None:
            # Stock turns the strategy of a node into another one when a summary fails.
            strategy = dataclasses.replace(strategy or self._context_strategy)
        await super()._update_llm_context(
            role_message, role_messages, task_messages, functions, strategy
        )
        if entry is None:
            return
        if entry.round is not None:
            try:
                await asyncio.wait_for(entry.applied.wait(), _SECONDS_TO_APPLY)
            except TimeoutError:
                logger.warning(
                    f"{self}: a node's messages and tools are not in the context after "
                    f"{_SECONDS_TO_APPLY:g} s; going on without waiting for them"
                )
        entry.is_entered = True

    # --- frames ------------------------------------------------------------------------------

    async def _prepare(self, frames: Iterable[Frame]) -> list[Frame]:
        """Make the frames of a node proof against a barge-in.

        Args:
            frames: What Flows is about to queue.

        Returns:
            What is queued in their place.
        """
        entry = _entering.get()
        prepared: list[Frame] = []
        for frame in frames:
            if isinstance(frame, TTSSpeakFrame) and entry and self._is_cut(entry):
                logger.debug(f"{self}: an action's words are not said, because the turn is over")
                continue
            if isinstance(frame, LLMMessagesUpdateFrame) and entry:
                frame = _ResetFrame(frame, entry.present, self._context)
            if isinstance(frame, LLMRunFrame) and entry and entry.round:
                if not await self._before_run(frame, entry):
                    continue
            if isinstance(frame, _UNINTERRUPTIBLE):
                frame.interruptible = False
            prepared.append(frame)
            if isinstance(frame, LLMSetToolsFrame) and entry and entry.round:
                probe = LLMMessagesTransformFrame(transform=_noting(entry.applied))
                probe.interruptible = False
                prepared.append(probe)
        return prepared

    def _is_cut(self, entry: "_Entry") -> bool:
        return (
            entry.round is not None
            and self._context is not None
            and not self._context.is_live(entry.round.epoch)
        )

    async def _before_run(self, frame: LLMRunFrame, entry: "_Entry") -> bool:
        """Let the hook return before the node's run, and make that run the only one.

        Returns:
            Whether the run is still to be asked for.
        """
        turns = self._context
        if turns is None:
            return True
        self._is_owing = True
        is_owed, epoch = turns.owes_run, turns.epoch
        entry.settle()
        await turns.run_commit_hooks()
        # A run that was owed meanwhile, or that came with a new turn, shows the node already.
        is_shown = is_owed or turns.epoch != epoch
        if not turns.is_gated:
            # Of several nodes that were entered meanwhile, one asks.
            asks = self._is_owing and not is_shown
            self._is_owing = self._is_owing and not asks
            return asks
        # The gate turns the frame away if another run has been quicker.
        frame.metadata[OWED_KEY] = True
        if not is_shown:
            turns.owe_run()
        return True


class _Call:
    """A call of one of the flow's functions, and what it has decided."""

    def __init__(
        self,
        manager: TransactionalFlowManager,
        turns: TransactionalLLMContext,
        tool_call_id: str,
        name: str,
    ):
        self.manager = manager
        self.turns = turns
        self.tool_call_id = tool_call_id
        self.name = name
        self.node: NodeConfig | None = None
        self.present: tuple[LLMContextMessage, ...] = ()
        self.has_reported = False
        self.wants_run = True
        self.writes: list[Write] = []
        self._asked_in = turns.epoch
        self._round: ToolRound | None = None

    @property
    def round(self) -> ToolRound | None:
        """Its round; a stock LLM service may tell of it only later."""
        if self._round is None:
            self._round = self.turns.find_round(self.tool_call_id)
        return self._round

    @property
    def epoch(self) -> int:
        """The turn on whose behalf it was made."""
        return self.round.epoch if self.round else self._asked_in

    @property
    def outlives_turn(self) -> bool:
        """Whether the model does not wait for it."""
        return self.round is not None and self.tool_call_id not in self.round.awaited

    @property
    def is_left_alone(self) -> bool:
        """Whether its round was dropped, with it or without it."""
        round = self.round
        return round is not None and round.state in (RoundState.ROLLED_BACK, RoundState.FENCED)

    @property
    def is_dropped(self) -> bool:
        """Whether nothing that it does counts any more."""
        return self.is_left_alone and not self.outlives_turn

    @property
    def is_on_record(self) -> bool:
        """Whether the history speaks of it even if its round is dropped."""
        if self.outlives_turn or self.round is None:
            return True
        call = next(c for c in self.round.calls if c.tool_call_id == self.tool_call_id)
        return call.has_side_effects and (call.started or call.is_answered)

    def decide(self, node: NodeConfig) -> None:
        """Lead to a node, once the round is in the history."""
        self.node = node
        self.present = tuple(self.turns.messages)
        if self.round is not None and self.turns.is_live(self.round.epoch):
            self.turns.hold_runs(self.round)

    def may_write(self, key: str) -> bool:
        """Whether a write to the flow's state is let through."""
        if self.turns.policy.flow_state == "keep" or not self.is_dropped or self.is_on_record:
            return True
        self.turns.report_stale(StaleWork("state", self.epoch, self.tool_call_id))
        return False

    def keep(self, write: Write) -> None:
        """Remember a write to the flow's state, while it may have to be taken back."""
        if self.turns.policy.flow_state == "keep" or self.has_ended or self.outlives_turn:
            return
        self.writes.append(write)

    @property
    def has_ended(self) -> bool:
        """Whether its round can't be dropped any more."""
        return self.round is not None and self.round.state is not RoundState.STAGED


@dataclasses.dataclass(eq=False)
class _Entry:
    """One entry into a node.

    Parameters:
        present: The history when it was decided.
        round: The round that decided it; None when the application did.
        settled: Done when the commit hook may return.
        applied: Set when the node's messages and tools are in the context.
        is_taken: Whether a node is being entered with it.
        is_entered: Whether the node's messages and tools are on their way or there.
    """

    present: tuple[LLMContextMessage, ...]
    round: ToolRound | None = None
    settled: asyncio.Future[None] | None = None
    applied: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    is_taken: bool = False
    is_entered: bool = False

    def settle(self) -> None:
        """Let the commit hook return."""
        if self.settled is not None and not self.settled.done():
            self.settled.set_result(None)


# Tasks inherit them: what a handler starts acts for its call, what an action starts for its node.
_running: ContextVar[_Call | None] = ContextVar("turn_acid_flow_call", default=None)
_entering: ContextVar[_Entry | None] = ContextVar("turn_acid_flow_entry", default=None)


class _ResetFrame(LLMMessagesUpdateFrame):
    """Replaces the history, but for what the user has said since that was decided."""

    def __init__(
        self,
        frame: LLMMessagesUpdateFrame,
        present: tuple[LLMContextMessage, ...],
        context: TransactionalLLMContext | None,
    ):
        self._present = {id(message): message for message in present}
        self._context = context
        super().__init__(messages=frame.messages, run_llm=frame.run_llm)

    @property
    def messages(self) -> list[Any]:
        """What the history is to be. An aggregator reads it when it replaces the history."""
        return [*self._messages, *(m for m in self._history if self._was_said_since(m))]

    @messages.setter
    def messages(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, messages: list[Any]
    ) -> None:
        self._messages = messages

    @property
    def _history(self) -> list[LLMContextMessage]:
        return self._context.messages if self._context is not None else []

    def _was_said_since(self, message: LLMContextMessage) -> bool:
        is_users = isinstance(message, dict) and message.get("role") == "user"
        return is_users and id(message) not in self._present


class _FlowWorker:
    """The worker as Flows sees it: what Flows queues survives a barge-in."""

    def __init__(self, plain: PipelineWorker, manager: TransactionalFlowManager):
        self.plain = plain
        self._prepare = manager._prepare  # pyright: ignore[reportPrivateUsage]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)

    async def queue_frame(
        self, frame: Frame, direction: FrameDirection = FrameDirection.DOWNSTREAM
    ) -> None:
        for prepared in await self._prepare([frame]):
            await self.plain.queue_frame(prepared, direction)

    async def queue_frames(
        self, frames: Iterable[Frame], direction: FrameDirection = FrameDirection.DOWNSTREAM
    ) -> None:
        await self.plain.queue_frames(await self._prepare(frames), direction)


def _came_too_late(turns: TransactionalLLMContext, round: ToolRound) -> bool:
    if round.is_late:
        return True
    # A result that the policy has dropped cannot have led anywhere.
    has_late_results = round.epoch < turns.epoch and len(round.awaited) < len(round.tool_call_ids)
    return has_late_results and turns.policy.late_result == "drop"


def _tool(node_id: str, function: Any) -> FlowsFunctionSchema | FlowsDirectFunctionWrapper:
    if isinstance(function, FlowsFunctionSchema):
        return function
    if not callable(function):
        raise InvalidFunctionError(
            f"node '{node_id}' has a function of type {type(function).__name__}; pass a "
            "FlowsFunctionSchema or a direct function"
        )
    return FlowsDirectFunctionWrapper(function=function)


def _noting(
    event: asyncio.Event,
) -> Callable[[list[LLMContextMessage]], list[LLMContextMessage]]:
    """Change nothing, and note that everything queued before has been applied."""

    def note(messages: list[LLMContextMessage]) -> list[LLMContextMessage]:
        event.set()
        return messages

    return note
