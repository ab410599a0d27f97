# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The conversation history, and what is not history yet."""

import asyncio
import copy
import inspect
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeAlias

from loguru import logger
from pipecat.frames.frames import Frame
from pipecat.processors.aggregators.llm_context import (
    NOT_GIVEN,
    LLMContext,
    LLMContextMessage,
    LLMSpecificMessage,
    is_given,
)
from pipecat.utils.utils import obj_id

from pipecat_turn_acid.core import (
    Orphan,
    StaleEpochError,
    ToolCall,
    ToolRound,
    TurnEnd,
    Turns,
    TurnState,
    encode_content,
    repair,
    require_messages,
)
from pipecat_turn_acid.core.messages import call_ids, split_rounds
from pipecat_turn_acid.events import (
    HistoryRepaired,
    HookFailed,
    RoundCommitted,
    RoundRolledBack,
    RoundSpliced,
    RoundStaged,
    StaleFenced,
    StaleWork,
    TurnEnded,
    TurnEnding,
    TurnEvent,
    TurnListener,
    TurnStarted,
)
from pipecat_turn_acid.policy import TurnPolicy, has_side_effects
from pipecat_turn_acid.stamps import ADMITTED_KEY, OWED_KEY, epoch_of, stamp

CommitHook: TypeAlias = Callable[[ToolRound], Awaitable[None] | None]

_MAX_WARNED_ORPHANS = 512

_MAX_MADE_ID = 40
"""How long an id may be that is made here. OpenAI refuses longer ones."""


class FenceOutcome(StrEnum):
    """What became of a result.

    Parameters:
        STAGED: It answers its call.
        FENCED: It came too late and was turned away.
    """

    STAGED = "staged"
    FENCED = "fenced"


class RunVerdict(StrEnum):
    """What becomes of a request to run the model.

    Parameters:
        RUN: It may run now.
        OWED: It has to wait, and will be made up for.
        FENCED: It was asked for by a turn that is over, or has been answered.
    """

    RUN = "run"
    OWED = "owed"
    FENCED = "fenced"


class TransactionalLLMContext(LLMContext):
    """An `LLMContext` in which each user turn is a transaction.

    Use it in place of `LLMContext`. ``messages`` stays Pipecat's live list of
    plain dicts and shows history only. A tool round is staged beside it until
    every call has its result, and is then spliced in whole.

    The aggregators and the LLM mixin drive it. By hand::

        context = TransactionalLLMContext()
        context.begin_turn()
        context.add_message({"role": "user", "content": "Status of order 4471?"})
        context.stage_assistant_tool_calls([call])
        context.stage_tool_result("call_1", "shipped")
        context.commit()
    """

    def __init__(
        self,
        messages: list[LLMContextMessage] | None = None,
        tools: Any = NOT_GIVEN,
        tool_choice: Any = NOT_GIVEN,
        *,
        policy: TurnPolicy | None = None,
    ):
        """Initialize the context.

        Args:
            messages: As in `LLMContext`.
            tools: As in `LLMContext`.
            tool_choice: As in `LLMContext`.
            policy: How interrupted turns are remembered. None leaves it to the
                aggregator pair, and to the defaults where that has none.

        Raises:
            InvalidMessageError: A message is not a dict.
        """
        require_messages(messages or [], LLMSpecificMessage)
        super().__init__(messages, tools, tool_choice)
        self._policy = policy
        self._turns = Turns()
        self._listeners: list[TurnListener] = []
        self._hooks: list[CommitHook] = []
        self._uncalled: deque[ToolRound] = deque()
        self._hook_task: asyncio.Task[None] | None = None
        self._holding: set[ToolRound] = set()
        # Frame ids count up, so an unstamped frame with a smaller id was made in an earlier turn.
        self._begun_at = -1
        self._ended_at = -1
        self._interrupted = -1
        self._run_asked = False
        self._has_unseen = False
        # Calls that may outlive their turn and are not in the history yet, with their turns.
        self._unwritten: dict[str, int] = {}
        self._warned_orphans: set[tuple[str, str]] = set()
        # The last message of the last request, and of the last one that the model answered with
        # calls.
        self._shown: LLMContextMessage | None = None
        self._accepted: LLMContextMessage | None = None
        self.user_turn_open = False
        """Whether the user has the floor. Kept by the user aggregator."""
        self.commits_in_order = False
        """Whether an assistant aggregator commits rounds as their frames pass by."""
        self.is_gated = False
        """Whether a transactional LLM service admits the runs."""
        self.run_in_progress = False
        """Whether a run was admitted and its answer has not passed by."""
        self.has_user_aggregator = False
        """Whether somebody begins the turns."""

    # --- turns -------------------------------------------------------------------------------

    @property
    def policy(self) -> TurnPolicy:
        """How interrupted turns are remembered."""
        return self._policy or TurnPolicy()

    def adopt_policy(self, policy: TurnPolicy | None) -> None:
        """Take over the policy that an aggregator was built with.

        Args:
            policy: The policy; None changes nothing.

        Raises:
            ValueError: The context already has a different one.
        """
        if policy is None:
            return
        if self._policy is not None and self._policy != policy:
            raise ValueError(
                f"two policies for one context: it has {self._policy}, and {policy} was passed "
                "beside it; pass the policy once"
            )
        self._policy = policy

    @property
    def epoch(self) -> int:
        """The current turn's number; 0 before the first turn. Never falls."""
        return self._turns.epoch

    @property
    def is_over(self) -> bool:
        """Whether the current turn has ended and the next has not begun."""
        return self._turns.state is TurnState.OVER

    def is_live(self, epoch: int) -> bool:
        """Whether writes of a turn are still accepted.

        Args:
            epoch: The turn.
        """
        return self._turns.is_live(epoch)

    def was_interrupted(self, epoch: int) -> bool:
        """Whether the user has barged in on a turn, or on one after it.

        Args:
            epoch: The turn.
        """
        return epoch <= self._interrupted

    def begin_turn(self) -> int:
        """Begin the next turn.

        The turn before is over: its complete rounds are committed, its
        unfinished ones are rolled back.

        Returns:
            The new turn's epoch.
        """
        was_over = self.is_over
        end = self._turns.begin()
        self._begun_at = obj_id()
        self._run_asked = False
        self._apply(end)
        if not was_over:
            self._tell(TurnEnded(end.epoch))
        self._tell(TurnStarted(self.epoch))
        return self.epoch

    def end_turn(self) -> int:
        """End the current turn without beginning another: the user has barged in.

        Its complete rounds are committed, its unfinished ones are rolled back.
        Asking again changes nothing.

        Returns:
            The epoch of the turn that is over.
        """
        if not self.is_over:
            self._tell(TurnEnding(self.epoch))
            self._interrupted = self.epoch
            self._ended_at = obj_id()
            self._run_asked = False
            self.run_in_progress = False
            self._apply(self._turns.end())
            self._tell(TurnEnded(self.epoch))
        return self.epoch

    def end_turn_of(self, interruption: Frame, *, working_for: int | None = None) -> bool:
        """End the turn that an interruption was raised in, unless another has begun since.

        Args:
            interruption: The frame. It carries the turn's epoch afterwards.
            working_for: The newest turn that the caller has begun to work for;
                None for the current one.

        Returns:
            Whether the caller has anything to stop. A late copy must not be
            acted on: it would stop the turn that has begun since.
        """
        epoch = self.turn_of(interruption)
        stamp(interruption, epoch)
        if epoch == self.epoch:
            self.end_turn()
        elif epoch < (self.epoch if working_for is None else working_for):
            self.report_stale(StaleWork("interruption", epoch))
            return False
        return True

    def turn_of(self, frame: Frame) -> int:
        """The turn on whose behalf a frame was made.

        Args:
            frame: A frame with or without a stamp.

        Returns:
            The epoch it carries; else the current epoch, or one before it when
            the frame is older than the current turn.
        """
        epoch = epoch_of(frame)
        if epoch is not None:
            return epoch
        return self.epoch if frame.id > self._begun_at else self.epoch - 1

    # --- rounds ------------------------------------------------------------------------------

    @property
    def staged(self) -> tuple[ToolRound, ...]:
        """The rounds that are not visible yet, oldest first. For tests and diagnosis."""
        return self._turns.staged

    def find_round(self, tool_call_id: str) -> ToolRound | None:
        """The round that a call belongs to, as far as it is remembered.

        Args:
            tool_call_id: The call.
        """
        return self._turns.find(tool_call_id)

    def stage_assistant_tool_calls(
        self,
        tool_calls: Iterable[Any],
        *,
        epoch: int | None = None,
    ) -> ToolRound:
        """Open a round: all the calls of one response.

        Args:
            tool_calls: What would stand in an assistant message's ``tool_calls``,
                in model order. Copied.
            epoch: The turn on whose behalf they are made; None for the current one.

        Returns:
            The round. Its ``state`` is ``FENCED`` when the turn is over; nothing
            is staged then.

        Raises:
            InvalidMessageError: A call is not a dict, or has no id or no name.
            DuplicateToolCallError: An id is used twice.
        """
        calls = [ToolCall.from_message(tool_call) for tool_call in tool_calls]
        for call in calls:
            call.has_side_effects = self.has_side_effects(call.name)
        return self.stage_round(calls, epoch=epoch)

    def stage_round(self, calls: Sequence[ToolCall], *, epoch: int | None = None) -> ToolRound:
        """Open a round, as `stage_assistant_tool_calls` does, from what the shells know.

        Args:
            calls: In model order; the round keeps them.
            epoch: The turn on whose behalf they are made; None for the current one.

        Returns:
            The round, staged or fenced.
        """
        epoch = self.epoch if epoch is None else epoch
        try:
            round = self._turns.stage_calls(calls, epoch=epoch)
        except StaleEpochError:
            round = self._turns.fence_calls(calls, epoch=epoch)
            for call in calls:
                self.report_stale(StaleWork("calls", epoch, call.tool_call_id))
            return round
        self._unwritten.update({c.tool_call_id: epoch for c in calls if c.outlives_turn})
        self._accepted = self._shown
        self._tell(RoundStaged(round))
        return round

    def stage_tool_result(
        self,
        tool_call_id: str,
        content: Any,
        *,
        epoch: int | None = None,
        wants_run: bool = True,
    ) -> FenceOutcome:
        """Answer a call.

        Args:
            tool_call_id: The call.
            content: The result. Text stands as it is; anything else as JSON.
            epoch: The turn on whose behalf the call was made; None for the
                current one.
            wants_run: Whether the model should see the result at once.

        Returns:
            ``STAGED``, or ``FENCED`` when the turn is over or the round was dropped.

        Raises:
            UnknownToolCallError: Nobody staged the call.
            IllegalTransitionError: The call already has a result, which stands.
            InvalidMessageError: JSON cannot hold the content.
        """
        epoch = self.epoch if epoch is None else epoch
        text = encode_content(content)
        try:
            self._turns.stage_result(tool_call_id, text, epoch=epoch, wants_run=wants_run)
        except StaleEpochError as error:
            self.report_stale(StaleWork("result", error.epoch, tool_call_id))
            return FenceOutcome.FENCED
        return FenceOutcome.STAGED

    def add_staged_call(self, round: ToolRound, call: ToolCall) -> None:
        """Add a call that was announced after its round was opened.

        Args:
            round: A round that is still waiting for results.
            call: The call; the round keeps it.
        """
        self._turns.add_call(round, call)

    def precede(self, round: ToolRound, messages: Iterable[LLMSpecificMessage]) -> None:
        """Have messages stand right before a round, in the history with it or not at all.

        Args:
            round: A round that is staged.
            messages: What one provider wants to see before the calls, such as the
                thoughts that led to them.
        """
        self._turns.precede(round, messages)

    def let_outlive(self, tool_call_id: str) -> None:
        """Note that the model does not wait for a call that was staged as if it did.

        Args:
            tool_call_id: The call.
        """
        self._turns.let_outlive(tool_call_id)

    def note_report(self, tool_call_id: str) -> None:
        """Note that a call which may outlive its turn has reported.

        Args:
            tool_call_id: The call.
        """
        self._turns.note_report(tool_call_id)

    def note_written(self, tool_call_id: str) -> None:
        """Note that a call which may outlive its turn is in the history.

        Args:
            tool_call_id: The call.
        """
        self._unwritten.pop(tool_call_id, None)

    def deliver(self, tool_call_id: str) -> None:
        """Note that the result of a call which may outlive its turn is in the history.

        Args:
            tool_call_id: The call.
        """
        self.note_written(tool_call_id)
        self._apply(self._turns.deliver(tool_call_id))

    def mark_started(self, tool_call_id: str) -> None:
        """Note that a staged call's tool may have begun to act.

        Args:
            tool_call_id: The call.
        """
        self._turns.mark_started(tool_call_id)

    def commit(self, round: ToolRound | None = None) -> int:
        """Make what is staged part of the history, whole.

        A round that is not fully answered is dropped, with the results it has.
        Contains no await, so a cancelled task cannot leave half a round behind.

        Args:
            round: One round; None for everything staged.

        Returns:
            How many messages were added; 0 when nothing is staged.

        Raises:
            UsageError: The round is staged in another context.
        """
        return self._apply(self._turns.commit(round))

    def rollback(self, *, epoch: int | None = None) -> None:
        """Drop what a turn has staged and not completed. Asking again changes nothing.

        The history is untouched, except that calls with side effects that may
        have happened stay on record.

        Args:
            epoch: The turn; None for the current one.
        """
        self._apply(self._turns.rollback(epoch=self.epoch if epoch is None else epoch))

    def unused_call_id(self, tool_call_id: str | None, taken: Collection[str]) -> str:
        """Make a call's id unique in this conversation.

        Args:
            tool_call_id: The provider's id, which it may have used before or not
                set at all.
            taken: Ids of the same response.

        Returns:
            The id itself when it is free.
        """
        used = call_ids(self._messages)
        base = tool_call_id or "call"
        endings = (f"-{n}" for n in itertools.count(2))
        shorter = (base[: _MAX_MADE_ID - len(ending)] + ending for ending in endings)
        candidates = itertools.chain([base], shorter)
        return next(
            candidate
            for candidate in candidates
            if candidate not in used
            and candidate not in taken
            and self._turns.find(candidate) is None
        )

    def has_side_effects(self, tool_name: str) -> bool:
        """Whether a tool is known to act on the world.

        Args:
            tool_name: Looked up in the policy and among the advertised handlers.
        """
        if tool_name in self.policy.side_effect_tools:
            return True
        if not is_given(self.tools):
            return False
        handlers: Mapping[str, Any] = {
            **{schema.name: schema.handler for schema in self.tools.standard_tools},
            **{direct.name: direct.function for direct in self.tools.direct_functions},
        }
        return has_side_effects(handlers.get(tool_name))

    # --- runs --------------------------------------------------------------------------------

    @property
    def owes_run(self) -> bool:
        """Whether the model has to see something that no run has shown it."""
        return self._run_asked or self._has_unseen

    def owe_run(self) -> None:
        """Note that a run was asked for and has to wait."""
        self._run_asked = True

    def hold_runs(self, round: ToolRound) -> None:
        """Have no run start before a round has ended and its commit hooks were called.

        Args:
            round: A round of the current turn. It holds nothing once its turn is
                over.
        """
        self._holding.add(round)

    @property
    def runs_held(self) -> bool:
        """Whether a round, a commit hook or a call that the model has just made comes first."""
        if self.hooks_pending or any(self.is_live(round.epoch) for round in self._holding):
            return True
        # The model would make a call again that it does not find in the history.
        return self.commits_in_order and any(self.is_live(e) for e in self._unwritten.values())

    def note_run(self) -> None:
        """Note that a run sees the history as it stands."""
        self._run_asked = False
        self._has_unseen = False

    def admit_run(self, frame: Frame) -> RunVerdict:
        """Decide on one request to run the model; the gate before each request.

        Args:
            frame: The context frame that asks.

        Returns:
            The verdict. After ``RUN`` the history is ready to be sent.
        """
        if self.is_over and epoch_of(frame) is None and frame.id > self._ended_at:
            # Somebody who knows no turns asks, after an interruption that no user turn followed.
            if self.user_turn_open:
                self.owe_run()
                return RunVerdict.OWED
            self.begin_turn()
            stamp(frame, self.epoch)
        epoch = self.turn_of(frame)
        if not self.is_live(epoch):
            self.report_stale(StaleWork("run", epoch))
            return RunVerdict.FENCED
        if frame.metadata.get(ADMITTED_KEY):
            # Another service of the same pipeline runs on the same frame.
            return RunVerdict.RUN
        if frame.metadata.get(OWED_KEY) and not self.owes_run:
            self.report_stale(StaleWork("run", epoch, reason="a run has answered it already"))
            return RunVerdict.FENCED
        if self._turns.staged and self.commits_in_order:
            self.owe_run()
            return RunVerdict.OWED
        if any(round.unanswered for round in self._turns.staged):
            self.owe_run()
            return RunVerdict.OWED
        self.commit()
        if self.runs_held:
            self.owe_run()
            return RunVerdict.OWED
        self._warn_of_orphans()
        self.note_run()
        self._shown = self._messages[-1] if self._messages else None
        frame.metadata[ADMITTED_KEY] = True
        self.run_in_progress = True
        return RunVerdict.RUN

    # --- hooks and listeners -----------------------------------------------------------------

    def on_round_committed(self, callback: CommitHook) -> Callable[[], None]:
        """Have a function called after each commit and before the next run.

        It may rewrite the messages, the tools and the system instruction. A
        coroutine function is awaited, and no request is sent meanwhile. If it
        raises, the round stays committed and the error is reported.

        Args:
            callback: Called with the committed round.

        Returns:
            A function that takes the callback away again.
        """
        self._hooks.append(callback)

        def remove() -> None:
            if callback in self._hooks:
                self._hooks.remove(callback)

        return remove

    @property
    def hooks_pending(self) -> bool:
        """Whether a callback of `on_round_committed` has not finished."""
        return bool(self._uncalled) or self._hook_task is not None

    async def run_commit_hooks(self) -> None:
        """Call what `on_round_committed` registered, for each round committed since.

        A hook that has begun runs to its end even if the caller is cancelled.
        """
        while self.hooks_pending:
            if self._hook_task is None:
                self._hook_task = asyncio.create_task(self._call_hooks())
            await asyncio.shield(self._hook_task)

    async def _call_hooks(self) -> None:
        try:
            while self._uncalled:
                round = self._uncalled.popleft()
                for hook in list(self._hooks):
                    try:
                        result = hook(round)
                        if inspect.isawaitable(result):
                            await result
                    except Exception as error:
                        self._tell(HookFailed(round, error))
                    except asyncio.CancelledError as error:
                        task = asyncio.current_task()
                        if task and task.cancelling():
                            raise
                        # What the hook waited for was cancelled, and not the hook.
                        failure = RuntimeError("what the callback waited for was cancelled")
                        failure.__cause__ = error
                        self._tell(HookFailed(round, failure))
        finally:
            self._hook_task = None

    def add_listener(self, listener: TurnListener) -> Callable[[], None]:
        """Have a plain function called with each event, at the moment it happens.

        Args:
            listener: Must not raise and cannot await.

        Returns:
            A function that takes the listener away again.
        """
        self._listeners.append(listener)

        def remove() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return remove

    def report_stale(self, what: StaleWork) -> None:
        """Tell the listeners that late work was turned away.

        Args:
            what: The work.
        """
        self._tell(StaleFenced(what))

    # --- the history -------------------------------------------------------------------------

    def add_message(self, message: LLMContextMessage):
        """Add one message to the history.

        Args:
            message: A dict, or an `LLMSpecificMessage`.

        Raises:
            InvalidMessageError: It is neither. The history is unchanged.
        """
        require_messages([message], LLMSpecificMessage)
        super().add_message(message)

    def add_messages(self, messages: list[LLMContextMessage]):
        """Add messages to the history.

        Args:
            messages: Dicts, or `LLMSpecificMessage` entries.

        Raises:
            InvalidMessageError: One is neither. The history is unchanged.
        """
        require_messages(messages, LLMSpecificMessage)
        super().add_messages(messages)

    def set_messages(self, messages: list[LLMContextMessage]):
        """Replace the history. What is staged stays staged.

        Args:
            messages: Dicts, or `LLMSpecificMessage` entries.

        Raises:
            InvalidMessageError: One is neither. The history is unchanged.
        """
        require_messages(messages, LLMSpecificMessage)
        super().set_messages(messages)

    def get_messages(
        self,
        llm_specific_filter: str | None = None,
        *,
        truncate_large_values: bool = False,
    ) -> list[LLMContextMessage]:
        """Get the history: the live list, or what one service may be sent.

        Args:
            llm_specific_filter: As in `LLMContext`. With it, calls and results
                that have come apart are repaired in the returned list; the
                history keeps them.
            truncate_large_values: As in `LLMContext`.

        Returns:
            The messages. What is staged never shows.
        """
        messages = super().get_messages(
            llm_specific_filter, truncate_large_values=truncate_large_values
        )
        if llm_specific_filter is None:
            return messages
        sound = repair(messages)[0]
        # Gemini wants as many results in a turn as there were calls in the turn before, and its
        # adapter makes a turn of each message.
        return split_rounds(sound) if llm_specific_filter == "google" else sound

    def remove_invalid_file_message(self) -> bool:
        """Remove the oldest file or image that the model has not taken yet.

        As in `LLMContext`, except for what was added while a round was open. It
        stands before the round, and the model made the calls without having
        seen it.

        Returns:
            Whether there was one.
        """
        seen = -1
        for index, message in enumerate(self._messages):
            is_answer = (
                isinstance(message, dict)
                and message.get("role") == "assistant"
                and not message.get("tool_calls")
            )
            if is_answer or message is self._accepted:
                seen = index
        unseen = self._messages[seen + 1 :]
        candidates = [m for m in unseen if isinstance(m, dict) and m.get("role") != "assistant"]
        # What counts as a file is for Pipecat to say.
        cleaned = LLMContext(list(candidates))
        if not cleaned.remove_invalid_file_message():
            return False
        kept = {id(message) for message in cleaned.messages}
        self._messages[:] = [
            m for m in self._messages if id(m) in kept or not any(m is c for c in candidates)
        ]
        return True

    def check(self) -> tuple[Orphan, ...]:
        """Find calls and results in the history that have come apart.

        Returns:
            What a request is sent without, or with in another place.
        """
        return repair(self._messages)[1]

    def __deepcopy__(self, memo: dict[int, Any]) -> "TransactionalLLMContext":
        # A copy is another conversation: it has the history and the policy, and neither what is
        # staged here nor those who listen here.
        duplicate = type(self)(
            copy.deepcopy(self._messages, memo),
            self._tools,
            copy.deepcopy(self._tool_choice, memo),
            policy=self._policy,
        )
        memo[id(self)] = duplicate
        return duplicate

    def __copy__(self) -> "TransactionalLLMContext":
        return type(self)(list(self._messages), self._tools, self._tool_choice, policy=self._policy)

    # --- internals ---------------------------------------------------------------------------

    def _apply(self, end: TurnEnd) -> int:
        """Splice what has ended into the history and tell the listeners."""
        self._messages.extend(end.messages)  # pyright: ignore[reportArgumentType]
        for round in end.committed:
            if self._hooks:
                self._uncalled.append(round)
            # What outlives a turn asks for its run itself, when it is delivered.
            if end.messages and round.wants_run:
                self._has_unseen = True
        self._holding.difference_update(end.committed, end.rolled_back)
        for round in end.spliced:
            self._tell(RoundSpliced(round))
        for round in end.committed:
            self._tell(RoundCommitted(round))
        for round in end.rolled_back:
            self._tell(RoundRolledBack(round))
        return len(end.messages)

    def _tell(self, event: TurnEvent) -> None:
        for listener in list(self._listeners):
            listener(event)

    def _warn_of_orphans(self) -> None:
        orphans = self.check()
        fresh = [o for o in orphans if (o.kind, o.tool_call_id) not in self._warned_orphans]
        if not fresh:
            return
        for orphan in fresh:
            logger.warning(
                f"LLM context: {orphan.kind} (tool call {orphan.tool_call_id!r}, message "
                f"{orphan.index}); the request is sent repaired, the history keeps it"
            )
        if len(self._warned_orphans) > _MAX_WARNED_ORPHANS:
            self._warned_orphans.clear()
        self._warned_orphans.update((o.kind, o.tool_call_id) for o in fresh)
        self._tell(HistoryRepaired(tuple(fresh)))
