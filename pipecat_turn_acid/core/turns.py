# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The turns of one conversation and the tool rounds staged in them.

Nothing here touches the history. A commit returns the messages to splice, and
whoever owns the history splices them before anything else can run.
"""

# `Turns` alone moves a `ToolRound` from state to state, so the moves are private to this file.
# pyright: reportPrivateUsage=false

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipecat_turn_acid.core.errors import (
    DuplicateToolCallError,
    IllegalTransitionError,
    InvalidMessageError,
    StaleEpochError,
    UnknownToolCallError,
    UsageError,
)
from pipecat_turn_acid.core.messages import (
    INTERRUPTED_CONTENT,
    Message,
    ToolCall,
    round_messages,
)
from pipecat_turn_acid.core.states import (
    ROUND_TRANSITIONS,
    TURN_TRANSITIONS,
    RoundMove,
    RoundState,
    TurnMove,
    TurnState,
    next_state,
)

REMEMBERED_CALLS: Final = 512
"""How many ended calls are remembered, to tell a late result from an unknown one."""


class ToolRound:
    """All the calls of one response, and their results.

    Made by `Turns`, which alone moves it from state to state. Equal only to
    itself.
    """

    def __init__(self, number: int, epoch: int, calls: Sequence[ToolCall], state: RoundState):
        """Hold calls that nobody else holds.

        Args:
            number: Counts the rounds of a conversation, from 1.
            epoch: The turn on whose behalf the calls are made.
            calls: In model order; owned by the round from now on.
            state: `RoundState.STAGED`; `RoundState.OUTLIVING` when the model waits for
                none of them, `RoundState.FENCED` when the turn is over.
        """
        self._number = number
        self._epoch = epoch
        self._calls = list(calls)
        self._state = state
        self._is_late = False
        self._preface: list[Any] = []

    def __repr__(self) -> str:
        ids = ", ".join(call.tool_call_id for call in self._calls)
        return f"<ToolRound {self._number} of turn {self._epoch}: {self._state} [{ids}]>"

    @property
    def number(self) -> int:
        """Counts the rounds of a conversation, from 1."""
        return self._number

    @property
    def epoch(self) -> int:
        """The turn on whose behalf the calls are made."""
        return self._epoch

    @property
    def state(self) -> RoundState:
        """Where the round stands."""
        return self._state

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Copies of the calls, in model order."""
        return tuple(call.copy() for call in self._calls)

    @property
    def tool_call_ids(self) -> tuple[str, ...]:
        """The calls' ids, in model order."""
        return tuple(call.tool_call_id for call in self._calls)

    @property
    def awaited(self) -> tuple[str, ...]:
        """Ids of the calls that the model waits for, in model order."""
        return tuple(call.tool_call_id for call in self._awaited)

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Ids of the awaited calls that have no result yet."""
        return tuple(call.tool_call_id for call in self._awaited if not call.is_answered)

    @property
    def is_late(self) -> bool:
        """Whether the turn was over before every call had reported, awaited or not."""
        return self._is_late

    @property
    def wants_run(self) -> bool:
        """Whether any awaited result asks for the model to run."""
        return any(call.wants_run for call in self._awaited)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The awaited calls as they stand, or will, in the history; empty while unanswered."""
        awaited = self._awaited
        if self.unanswered or not awaited or self._state is RoundState.ROLLED_BACK:
            return ()
        return tuple(round_messages(awaited, [call.content or "" for call in awaited]))

    def has_side_effects(self, tool_call_id: str) -> bool:
        """Whether a call of the round must stay on record when it is cut."""
        return self._find(tool_call_id).has_side_effects

    @property
    def _awaited(self) -> list[ToolCall]:
        return [call for call in self._calls if not call.outlives_turn]

    @property
    def _undelivered(self) -> list[ToolCall]:
        return [call for call in self._calls if call.outlives_turn and not call.is_delivered]

    def _find(self, tool_call_id: str) -> ToolCall:
        return next(call for call in self._calls if call.tool_call_id == tool_call_id)

    def _record_of_side_effects(self) -> list[Any]:
        """What must stay on record when the round is cut."""
        calls = [c for c in self._awaited if c.has_side_effects and (c.started or c.is_answered)]
        if not calls:
            return []
        contents = [INTERRUPTED_CONTENT if c.content is None else c.content for c in calls]
        return [*self._preface, *round_messages(calls, contents)]

    def _move(self, move: RoundMove) -> None:
        subject = f"round {self._number} of turn {self._epoch}"
        self._state = next_state(ROUND_TRANSITIONS, self._state, move, subject)


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """What became of the rounds that were staged when something ended.

    Parameters:
        epoch: The turn.
        committed: Rounds whose every call has its result in the history now,
            oldest first.
        spliced: Rounds whose awaited calls are in the history now, while others
            still run, oldest first.
        rolled_back: Rounds that were not complete, oldest first.
        messages: What to append to the history now, in order: the committed
            rounds, and what stays on record of cut calls with side effects.
    """

    epoch: int
    committed: tuple[ToolRound, ...] = ()
    spliced: tuple[ToolRound, ...] = ()
    rolled_back: tuple[ToolRound, ...] = ()
    messages: tuple[Any, ...] = ()


class Turns:
    """Epochs, and the rounds staged in the current one.

    Epoch 0 is live from the start: it is what the bot says before the user has
    said anything.
    """

    def __init__(self) -> None:
        """Start before the first turn."""
        self._epoch = 0
        self._state = TurnState.LIVE
        self._staged: list[ToolRound] = []
        self._outliving: list[ToolRound] = []
        self._ended: OrderedDict[str, ToolRound] = OrderedDict()
        self._rounds = 0

    @property
    def epoch(self) -> int:
        """The current turn's number; 0 before the first turn."""
        return self._epoch

    @property
    def state(self) -> TurnState:
        """Whether the current turn may still write."""
        return self._state

    @property
    def staged(self) -> tuple[ToolRound, ...]:
        """The rounds that are not visible yet, oldest first."""
        return tuple(self._staged)

    def is_live(self, epoch: int) -> bool:
        """Whether writes of this turn are still accepted."""
        return epoch == self._epoch and self._state is TurnState.LIVE

    def find(self, tool_call_id: str) -> ToolRound | None:
        """The round that a call belongs to, as far as it is remembered."""
        for round in (*self._staged, *self._outliving):
            if tool_call_id in round.tool_call_ids:
                return round
        return self._ended.get(tool_call_id)

    def begin(self) -> TurnEnd:
        """Begin the next turn; the turn before is over.

        Returns:
            What became of the turn before.
        """
        self._mark_late()
        end = self._settle(self._staged)
        self._state = next_state(TURN_TRANSITIONS, self._state, TurnMove.BEGIN, self._subject)
        self._epoch += 1
        return end

    def end(self) -> TurnEnd:
        """End the current turn without beginning another. Asking again changes nothing.

        Returns:
            What became of its rounds.
        """
        self._mark_late()
        end = self._settle(self._staged)
        self._state = next_state(TURN_TRANSITIONS, self._state, TurnMove.END, self._subject)
        return end

    def stage_calls(self, calls: Sequence[ToolCall], *, epoch: int) -> ToolRound:
        """Open a round.

        Args:
            calls: All the calls of a response in model order; the round keeps
                them.
            epoch: The turn on whose behalf they are made.

        Returns:
            The round: staged, or outliving when the model waits for none of its
            calls.

        Raises:
            InvalidMessageError: There are no calls.
            DuplicateToolCallError: An id is already staged. Nothing was changed.
            StaleEpochError: The turn is over. Nothing was changed.
        """
        if not calls:
            raise InvalidMessageError("can't stage a round without tool calls")
        if not self.is_live(epoch):
            raise StaleEpochError(f"can't stage a round: turn {epoch} is over", epoch=epoch)
        running = (*self._staged, *self._outliving)
        taken = {tool_call_id for round in running for tool_call_id in round.tool_call_ids}
        for call in calls:
            if call.tool_call_id in taken:
                raise DuplicateToolCallError(
                    f"can't stage tool call {call.tool_call_id!r} twice: give each call an id of "
                    "its own",
                    tool_call_id=call.tool_call_id,
                )
            taken.add(call.tool_call_id)
        if all(call.outlives_turn for call in calls):
            round = self._new_round(calls, epoch, RoundState.OUTLIVING)
            self._outliving.append(round)
        else:
            round = self._new_round(calls, epoch, RoundState.STAGED)
            self._staged.append(round)
        return round

    def fence_calls(self, calls: Sequence[ToolCall], *, epoch: int) -> ToolRound:
        """Remember a round that was asked for too late, so that its results are known as late."""
        round = self._new_round(calls, epoch, RoundState.FENCED)
        self._remember(round)
        return round

    def add_call(self, round: ToolRound, call: ToolCall) -> None:
        """Add a call that was announced after its round was opened.

        Raises:
            DuplicateToolCallError: The id is taken. Nothing was changed.
            IllegalTransitionError: The round is not waiting for results any more.
        """
        if round.state is not RoundState.STAGED:
            raise IllegalTransitionError(
                f"can't stage tool call {call.tool_call_id!r}: round {round.number} of turn "
                f"{round.epoch} is {round.state}"
            )
        running = (*self._staged, *self._outliving)
        if any(call.tool_call_id in other.tool_call_ids for other in running):
            raise DuplicateToolCallError(
                f"can't stage tool call {call.tool_call_id!r} twice: give each call an id of its "
                "own",
                tool_call_id=call.tool_call_id,
            )
        round._calls.append(call)

    def precede(self, round: ToolRound, messages: Iterable[Any]) -> None:
        """Have messages stand right before a round, in the history with it or not at all.

        Args:
            round: A round that is staged.
            messages: What one provider wants to see before the calls, such as the thoughts that
                led to them.

        Raises:
            IllegalTransitionError: The round is not staged any more.
        """
        if round not in self._staged:
            raise IllegalTransitionError(
                f"can't put a message before round {round.number} of turn {round.epoch}: it is "
                f"{round.state}"
            )
        round._preface.extend(messages)

    def let_outlive(self, tool_call_id: str) -> None:
        """Note that the model does not wait for a call that was staged as if it did.

        Its round may be complete after that.

        Args:
            tool_call_id: A call. Nothing happens when it is not staged.
        """
        for round in list(self._staged):
            if tool_call_id not in round.awaited:
                continue
            round._find(tool_call_id).outlives_turn = True
            if not round.awaited:
                self._staged.remove(round)
                self._outliving.append(round)
                round._move(RoundMove.LET_OUTLIVE)
            elif round.state is RoundState.STAGED and not round.unanswered:
                round._move(RoundMove.LAST_RESULT)

    def note_report(self, tool_call_id: str) -> None:
        """Note that a call which outlives its turn has reported.

        Args:
            tool_call_id: The call.
        """
        for round in (*self._staged, *self._outliving):
            if tool_call_id in round.tool_call_ids:
                call = round._find(tool_call_id)
                if call.outlives_turn:
                    call.has_reported = True

    def deliver(self, tool_call_id: str) -> TurnEnd:
        """Note that the result of a call which outlives its turn is in the history.

        Args:
            tool_call_id: The call.

        Returns:
            Its round as committed, when that was the last of its results.
        """
        self.note_report(tool_call_id)
        round = self.find(tool_call_id)
        if round is None or tool_call_id not in round.tool_call_ids:
            return TurnEnd(self._epoch)
        round._find(tool_call_id).is_delivered = True
        if round not in self._outliving or round._undelivered:
            return TurnEnd(self._epoch)
        self._outliving.remove(round)
        round._move(RoundMove.COMMIT)
        self._remember(round)
        return TurnEnd(self._epoch, committed=(round,))

    def mark_started(self, tool_call_id: str) -> None:
        """Note that a tool may have begun to act."""
        for round in self._staged:
            if tool_call_id in round.tool_call_ids:
                round._find(tool_call_id).started = True

    def stage_result(
        self, tool_call_id: str, content: str, *, epoch: int, wants_run: bool = True
    ) -> ToolRound:
        """Answer a call.

        Args:
            tool_call_id: The call.
            content: The result as it will stand in the history.
            epoch: The turn on whose behalf the call was made.
            wants_run: Whether the model should see the result at once.

        Returns:
            The call's round, which may be complete now.

        Raises:
            StaleEpochError: The turn is over, or the call's round was dropped.
            IllegalTransitionError: The call already has a result, or its round
                is committed. The first result stands.
            UnknownToolCallError: Nobody staged the call.
        """
        for round in self._staged:
            if tool_call_id in round.awaited:
                break
        else:
            raise self._explain_unstaged(tool_call_id, epoch)
        if epoch != round.epoch:
            raise StaleEpochError(
                f"can't stage a result for {tool_call_id!r}: it is of turn {epoch}, the call that "
                f"has the id now is of turn {round.epoch}",
                epoch=epoch,
            )
        call = round._find(tool_call_id)
        if call.is_answered:
            raise IllegalTransitionError(
                f"can't stage a result for {tool_call_id!r}: it already has one, which stands"
            )
        is_last = round.unanswered == (tool_call_id,)
        move = RoundMove.LAST_RESULT if is_last else RoundMove.RESULT
        round._move(move)
        call.content = content
        call.wants_run = wants_run
        return round

    def commit(self, round: ToolRound | None = None) -> TurnEnd:
        """Commit one round, or everything staged; what is not complete is dropped.

        Args:
            round: The round; None for all of them.

        Returns:
            What became of the rounds. Empty when nothing is staged, and for a
            round that has already ended.

        Raises:
            UsageError: The round is of another conversation.
        """
        if round is None:
            return self._settle(self._staged)
        if round in self._staged:
            return self._settle([round])
        if round.state in (RoundState.STAGED, RoundState.COMPLETE):
            # Anything else has ended here or there, and there is nothing to commit.
            raise UsageError(f"can't commit {round!r}: it is staged in another conversation")
        return TurnEnd(self._epoch)

    def rollback(self, *, epoch: int) -> TurnEnd:
        """Drop what a turn has staged and not completed. Asking again changes nothing.

        Args:
            epoch: The turn.

        Returns:
            What was dropped. Complete rounds stay staged: they are never lost.
        """
        unfinished = [r for r in self._staged if r.epoch == epoch and r.unanswered]
        return self._settle(unfinished)

    @property
    def _subject(self) -> str:
        return f"turn {self._epoch}"

    def _new_round(self, calls: Sequence[ToolCall], epoch: int, state: RoundState) -> ToolRound:
        self._rounds += 1
        return ToolRound(self._rounds, epoch, calls, state)

    def _mark_late(self) -> None:
        """Note which rounds have not reported everything while their turn was live."""
        if self._state is TurnState.OVER:
            return
        for round in (*self._staged, *self._outliving):
            if not all(call.is_answered for call in round._calls):
                round._is_late = True

    def _settle(self, rounds: Iterable[ToolRound]) -> TurnEnd:
        committed: list[ToolRound] = []
        spliced: list[ToolRound] = []
        rolled_back: list[ToolRound] = []
        messages: list[Any] = []
        for round in list(rounds):
            self._staged.remove(round)
            if round.state is not RoundState.COMPLETE:
                messages += round._record_of_side_effects()
                round._move(RoundMove.ROLLBACK)
                rolled_back.append(round)
                self._remember(round)
                continue
            messages += [*round._preface, *round.messages]
            if round._undelivered:
                round._move(RoundMove.SPLICE)
                self._outliving.append(round)
                spliced.append(round)
            else:
                round._move(RoundMove.COMMIT)
                committed.append(round)
                self._remember(round)
        return TurnEnd(
            self._epoch, tuple(committed), tuple(spliced), tuple(rolled_back), tuple(messages)
        )

    def _remember(self, round: ToolRound) -> None:
        for tool_call_id in round.tool_call_ids:
            self._ended[tool_call_id] = round
            self._ended.move_to_end(tool_call_id)
        while len(self._ended) > REMEMBERED_CALLS:
            self._ended.popitem(last=False)

    def _explain_unstaged(
        self, tool_call_id: str, epoch: int
    ) -> StaleEpochError | IllegalTransitionError | UnknownToolCallError:
        round = self.find(tool_call_id)
        dropped = round is not None and round.state in (RoundState.ROLLED_BACK, RoundState.FENCED)
        if dropped or not self.is_live(epoch):
            return StaleEpochError(
                f"can't stage a result for {tool_call_id!r}: "
                + (f"its round is {round.state}" if dropped and round else f"turn {epoch} is over"),
                epoch=epoch,
            )
        if round is not None and tool_call_id not in round.awaited:
            return IllegalTransitionError(
                f"can't stage a result for {tool_call_id!r}: the model does not wait for it, and "
                "its result goes into the history by Pipecat's own protocol"
            )
        if round is not None:
            return IllegalTransitionError(
                f"can't stage a result for {tool_call_id!r}: its round is committed, and the "
                "result in it stands"
            )
        return UnknownToolCallError(
            f"can't stage a result for {tool_call_id!r}: no such call is staged; stage it first "
            "with stage_assistant_tool_calls()",
            tool_call_id=tool_call_id,
        )
