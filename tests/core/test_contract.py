# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The contract, against a model of two plain lists: the history, and what is staged.

Whatever happens, in whatever order: calls, results in time, late, twice, for calls that nobody made,
ids that come back, barge-ins, commits and rollbacks by hand, tools with side effects and tools that
outlive their turn. The history is what the model says it is, message by message.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from pipecat_turn_acid import FenceOutcome, RoundState, TransactionalLLMContext
from pipecat_turn_acid.core import (
    DuplicateToolCallError,
    IllegalTransitionError,
    ToolCall,
    UnknownToolCallError,
)
from pipecat_turn_acid.events import (
    RoundCommitted,
    RoundRolledBack,
    RoundSpliced,
    RoundStaged,
    StaleFenced,
    TurnEvent,
)

IDS = [f"call_{letter}" for letter in "abcdefgh"]
RESULTS = st.sampled_from(["shipped", "", "0", "[]", "{}", '{"ok": true}'])
BOOK, RUN, LOOK_UP = "book", "run_on", "look_up"
TOOLS = st.sampled_from([LOOK_UP, LOOK_UP, BOOK, RUN])


@dataclass
class ModelCall:
    id: str
    name: str
    started: bool
    result: str | None = None
    wants_run: bool = True
    delivered: bool = False

    @property
    def awaited(self):
        return self.name != RUN


@dataclass(eq=False)
class ModelRound:
    """A round as the model sees it; ``real`` is only compared with, never asked."""

    epoch: int
    calls: list[ModelCall]
    real: Any
    end: str = ""  # "committed", "rolled back", "fenced"
    outliving: bool = False
    late: bool = False

    @property
    def awaited(self):
        return [call for call in self.calls if call.awaited]

    @property
    def complete(self):
        return all(call.result is not None for call in self.awaited)

    @property
    def delivered(self):
        return all(call.delivered for call in self.calls if not call.awaited)


@dataclass
class Model:
    """Two plain lists, and what is needed to say what belongs in them."""

    history: list[dict] = field(default_factory=list)
    staged: list[ModelRound] = field(default_factory=list)
    epoch: int = 0
    over: bool = False

    def live(self, epoch):
        return epoch == self.epoch and not self.over

    def spell(self, calls, contents):
        self.history.append(
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": call.id,
                        "function": {"name": call.name, "arguments": "{}"},
                        "type": "function",
                    }
                    for call in calls
                ],
            }
        )
        for call, content in zip(calls, contents, strict=True):
            self.history.append({"role": "tool", "content": content, "tool_call_id": call.id})

    def settle(self, rounds):
        for round in list(rounds):
            self.staged.remove(round)
            if round.complete:
                self.spell(round.awaited, [call.result for call in round.awaited])
                if round.delivered:
                    round.end = "committed"
                else:
                    round.outliving = True
                continue
            round.end = "rolled back"
            acted = [
                c for c in round.awaited if c.name == BOOK and (c.started or c.result is not None)
            ]
            if acted:
                cut = json.dumps(
                    "INTERRUPTED: the user spoke before this call reported. It may have "
                    "completed. Check before repeating it."
                )
                self.spell(acted, [cut if c.result is None else c.result for c in acted])


class Contract(RuleBasedStateMachine):
    """Everything that a conversation can do to its context."""

    def __init__(self):
        super().__init__()
        self.context = TransactionalLLMContext()
        self.model = Model()
        self.everyone: list[ModelRound] = []
        self.events: list[TurnEvent] = []
        self.highest = 0
        self.said = 0
        self.user_words: list[str] = []
        self.context.add_listener(self.events.append)

    @initialize(greets=st.booleans())
    def may_greet(self, greets):
        if greets:
            self.say("assistant", "Hello, how can I help?")

    # --- what happens ---

    def say(self, role, text):
        self.context.add_message({"role": role, "content": text})  # pyright: ignore
        self.model.history.append({"role": role, "content": text})

    @rule(really=st.sampled_from([False, True]))
    def the_user_says_something(self, really):
        if not (really or self.model.over):
            return
        self.said += 1
        words = f"words {self.said}"
        self.context.begin_turn()
        self.mark_late()
        self.model.settle(self.model.staged)
        self.model.epoch += 1
        self.model.over = False
        self.say("user", words)
        self.user_words.append(words)

    @rule(really=st.sampled_from([False, True]))
    def the_user_barges_in(self, really):
        if not really:
            return
        self.context.end_turn()
        self.mark_late()
        self.model.settle(self.model.staged)
        self.model.over = True

    def mark_late(self):
        if self.model.over:
            return
        for round in self.everyone:
            if not round.end and any(call.result is None for call in round.calls):
                round.late = True

    @rule()
    def the_bot_says_something(self):
        self.said += 1
        self.say("assistant", f"answer {self.said}")

    @rule(
        ids=st.lists(st.sampled_from(IDS), min_size=1, max_size=3, unique=True),
        twice=st.sampled_from([False] * 9 + [True]),
        tools=st.lists(st.tuples(TOOLS, st.booleans()), min_size=3, max_size=3),
        turns_ago=st.sampled_from([0, 0, 0, 1]),
    )
    def the_model_calls(self, ids, twice, tools, turns_ago):
        ids = ids + ids[:1] if twice else ids
        tools = [(i, name, started) for i, (name, started) in zip(ids, tools * 2, strict=False)]
        epoch = max(self.model.epoch - turns_ago, 0)
        calls = [ModelCall(tool_call_id, name, started) for tool_call_id, name, started in tools]
        real = [
            ToolCall(
                call.id,
                call.name,
                "{}",
                has_side_effects=call.name == BOOK,
                started=call.started,
                outlives_turn=not call.awaited,
            )
            for call in calls
        ]
        taken = {c.id for r in self.running() for c in r.calls}
        if self.model.live(epoch) and (len(set(ids)) < len(ids) or taken & set(ids)):
            with pytest.raises(DuplicateToolCallError):
                self.context.stage_round(real, epoch=epoch)
            return
        before = len(self.fenced())
        round = ModelRound(epoch, calls, self.context.stage_round(real, epoch=epoch))
        self.everyone.append(round)
        if not self.model.live(epoch):
            round.end = "fenced"
            assert round.real.state is RoundState.FENCED
            assert len(self.fenced()) == before + len(calls)
        elif round.awaited:
            self.model.staged.append(round)
        else:
            round.outliving = True

    @precondition(lambda self: self.model.staged)
    @rule(data=st.data(), content=RESULTS, wants_run=st.booleans(), twice=st.booleans())
    def a_tool_reports(self, data, content, wants_run, twice):
        waiting = [
            (round, call)
            for round in self.model.staged
            for call in round.awaited
            if call.result is None
        ]
        if not waiting:
            return
        round, call = data.draw(st.sampled_from(waiting))
        outcome = self.context.stage_tool_result(
            call.id, content, epoch=round.epoch, wants_run=wants_run
        )
        assert outcome is FenceOutcome.STAGED
        call.result, call.wants_run = content, wants_run
        if twice:
            with pytest.raises(IllegalTransitionError, match="which stands"):
                self.context.stage_tool_result(call.id, "again", epoch=round.epoch)

    @precondition(lambda self: self.everyone)
    @rule(data=st.data())
    def a_tool_reports_late_or_twice(self, data):
        """Whatever it says, it changes nothing, and it is told why."""
        round, call = data.draw(self.recent_calls())
        owner = self.owner(call.id)
        if round in self.model.staged and call.awaited and call.result is None:
            return
        if round.epoch == self.model.epoch and owner not in (None, round):
            return  # within one turn, whoever has the id now is answered
        try:
            outcome = self.context.stage_tool_result(call.id, "again", epoch=round.epoch)
        except IllegalTransitionError:
            # It has its answer, or it is none that the model waits for.
            assert self.model.live(round.epoch)
        else:
            assert outcome is FenceOutcome.FENCED
            assert not self.model.live(round.epoch) or round.end != "committed"

    @precondition(lambda self: self.everyone)
    @rule(data=st.data())
    def a_tool_that_outlives_its_turn_reports(self, data):
        round, call = data.draw(self.recent_calls())
        if not call.awaited and self.owner(call.id) is round:
            self.context.note_report(call.id)
            call.result = ""

    @precondition(lambda self: any(r.outliving for r in self.everyone))
    @rule(data=st.data())
    def a_result_is_delivered(self, data):
        """What outlives its turn reaches the history by Pipecat's own protocol."""
        waiting = [
            (round, call)
            for round in self.running()
            for call in round.calls
            if not call.awaited and not call.delivered
        ]
        if not waiting:
            return
        round, call = data.draw(st.sampled_from(waiting))
        self.context.deliver(call.id)
        call.result, call.delivered = "", True
        if round.outliving and round.delivered:
            round.outliving, round.end = False, "committed"

    @rule(content=RESULTS)
    def a_result_comes_that_nobody_asked_for(self, content):
        if self.model.over:
            assert self.context.stage_tool_result("nobody", content) is FenceOutcome.FENCED
        else:
            with pytest.raises(UnknownToolCallError):
                self.context.stage_tool_result("nobody", content)

    @precondition(lambda self: self.model.staged)
    @rule(data=st.data())
    def a_tool_starts(self, data):
        round = data.draw(st.sampled_from(self.model.staged))
        call = data.draw(st.sampled_from(round.calls))
        self.context.mark_started(call.id)
        call.started = True

    @precondition(lambda self: self.everyone)
    @rule(data=st.data())
    def someone_commits(self, data):
        """Everything, or one round that may have ended long ago."""
        round = data.draw(st.sampled_from([None, *self.everyone[-4:]]))
        before = len(self.model.history)
        added = self.context.commit(round.real if round else None)
        self.model.settle([r for r in self.model.staged if round in (None, r)])
        assert added == len(self.model.history) - before

    @rule(turns_ago=st.sampled_from([0, 0, 1]))
    def someone_rolls_back(self, turns_ago):
        epoch = max(self.model.epoch - turns_ago, 0)
        self.context.rollback(epoch=epoch)
        if epoch == self.model.epoch:
            self.model.settle([r for r in self.model.staged if not r.complete])

    @precondition(lambda self: self.model.history)
    @rule()
    def someone_rewrites_the_history(self):
        """A summary, say. What is staged is not part of it, and stays."""
        kept = self.model.history[-4:]
        while kept and (kept[0]["role"] == "tool" or kept[0].get("tool_calls")):
            kept = kept[1:]
        self.context.set_messages(list(kept))  # pyright: ignore
        self.model.history[:] = kept
        self.user_words = [m["content"] for m in kept if m["role"] == "user"]

    # --- what holds ---

    def recent_calls(self):
        return st.sampled_from([(r, call) for r in self.everyone[-4:] for call in r.calls])

    def running(self):
        return [r for r in self.everyone if not r.end]

    def owner(self, tool_call_id):
        """The running round that has an id now."""
        return next((r for r in self.running() if any(c.id == tool_call_id for c in r.calls)), None)

    def fenced(self):
        return [event for event in self.events if isinstance(event, StaleFenced)]

    @invariant()
    def history_is_exactly_what_was_committed(self):
        assert self.context.get_messages() == self.model.history

    @invariant()
    def what_is_staged_is_what_is_not_finished(self):
        assert [id(r) for r in self.context.staged] == [id(r.real) for r in self.model.staged]
        for round in self.model.staged:
            assert round.real.unanswered == tuple(c.id for c in round.awaited if c.result is None)

    @invariant()
    def epochs_never_fall(self):
        assert self.context.epoch == self.model.epoch >= self.highest
        assert self.context.is_live(self.model.epoch) is not self.model.over
        self.highest = self.model.epoch

    @invariant()
    def every_history_can_be_sent_as_it_is(self):
        """No call without its result, no result without its call, no placeholder."""
        assert self.context.check() == ()
        contents = [m.get("content") for m in self.context.get_messages() if isinstance(m, dict)]
        assert "IN_PROGRESS" not in contents
        assert "CANCELLED" not in contents

    @invariant()
    def no_words_of_the_user_are_lost(self):
        kept = [m["content"] for m in self.model.history if m["role"] == "user"]
        assert kept == self.user_words

    @invariant()
    def complete_is_never_lost(self):
        """Every round that had all its results is staged or committed, in whole."""
        for round in self.everyone:
            if round.awaited and round.complete and round.end != "fenced":
                assert round.real.state in (
                    RoundState.COMPLETE,
                    RoundState.OUTLIVING,
                    RoundState.COMMITTED,
                )

    @invariant()
    def every_round_is_where_the_model_says(self):
        for round in self.everyone:
            if round.end:
                assert round.real.state == round.end
            elif round.outliving:
                assert round.real.state is RoundState.OUTLIVING
            assert round.real.is_late is round.late

    @invariant()
    def every_end_is_told_once(self):
        """Nothing is lost without a word, and nothing is told twice."""
        for kind, ends in (
            (RoundStaged, [r for r in self.everyone if r.end != "fenced"]),
            (RoundCommitted, [r for r in self.everyone if r.end == "committed"]),
            (RoundRolledBack, [r for r in self.everyone if r.end == "rolled back"]),
        ):
            told = [id(event.round) for event in self.events if isinstance(event, kind)]
            assert sorted(told) == sorted(id(r.real) for r in ends)
        spliced = [id(event.round) for event in self.events if isinstance(event, RoundSpliced)]
        assert len(spliced) == len(set(spliced))


Contract.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
TestContract = Contract.TestCase
