# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Rules 1, 2, 6 and 9 at the aggregators: who begins and ends turns, and what says whose it is."""

import pytest
from pipecat.frames.frames import InterruptionFrame, LLMContextFrame, LLMRunFrame
from pipecat.processors.frame_processor import FrameDirection

from pipecat_turn_acid import ToolRound
from pipecat_turn_acid.events import StaleWork
from pipecat_turn_acid.testing import conversations, scenarios
from pipecat_turn_acid.testing.checks import check_history
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, At, play, usual_pipeline
from pipecat_turn_acid.testing.judge import judge

WHILE_THE_TOOL_RUNS = At(3.9)
ORDER = conversations.order


def watched(conversation, instant, *, processor, event, look):
    """Play, and look at the bot at each event of one of its processors."""
    found = []

    def assemble(bot):
        processor(bot).add_event_handler(event, lambda _, frame: found.append(look(bot, frame)))
        return usual_pipeline(bot)

    outcome = play(conversation.but(assemble=assemble), TRANSACTIONAL, instant)
    return outcome, [one for one in found if one is not None]


def user_of(bot):
    return bot.aggregators.user()


def assistant_of(bot):
    return bot.aggregators.assistant()


# --- epochs ------------------------------------------------------------------------------------


def test_every_request_names_the_turn_that_asked_for_it():
    _, epochs = watched(
        ORDER,
        WHILE_THE_TOOL_RUNS,
        processor=lambda bot: bot.llm,
        event="on_before_process_frame",
        look=lambda bot, frame: (
            frame.metadata["turn_epoch"] if isinstance(frame, LLMContextFrame) else None
        ),
    )
    assert epochs == [1, 2, 2]


@pytest.mark.parametrize("processor", [lambda bot: bot.llm, assistant_of], ids=["llm", "assistant"])
def test_every_interruption_names_the_turn_that_it_ends(processor):
    """The user's first words end turn 0: what the bot may have said unasked."""
    _, epochs = watched(
        ORDER,
        WHILE_THE_TOOL_RUNS,
        processor=processor,
        event="on_before_process_frame",
        look=lambda bot, frame: (
            frame.metadata["turn_epoch"] if isinstance(frame, InterruptionFrame) else None
        ),
    )
    assert epochs == [0, 1]


def test_the_turn_is_over_before_anybody_hears_of_the_interruption():
    """Whoever reacts to it finds the round rolled back already."""
    _, seen = watched(
        ORDER,
        WHILE_THE_TOOL_RUNS,
        processor=user_of,
        event="on_before_push_frame",
        look=lambda bot, frame: (
            (bot.context.epoch, bot.context.is_over, bot.context.staged)
            if isinstance(frame, InterruptionFrame)
            else None
        ),
    )
    assert set(seen) == {(0, True, ()), (1, True, ())}


def test_the_turn_is_over_first_whoever_asks_the_user_aggregator_to_interrupt():
    """A strategy or the application may call it; what it broadcasts overtakes everything."""
    seen = []

    def assemble(bot):
        def note(_, frame):
            if isinstance(frame, InterruptionFrame) and bot.context.epoch == 1:
                seen.append((bot.context.is_over, bot.context.staged))

        user_of(bot).add_event_handler("on_before_push_frame", note)
        return usual_pipeline(bot)

    async def interrupt(bot):
        await user_of(bot).broadcast_interruption()

    play(ORDER.but(assemble=assemble, during=((3.9, interrupt),)), TRANSACTIONAL)
    assert seen
    assert set(seen) == {(True, ())}


def test_a_turn_begins_when_the_words_are_flushed_and_not_before():
    events = play(ORDER, TRANSACTIONAL, WHILE_THE_TOOL_RUNS)
    started = [e for e in events.events if e.name == "on_turn_started"]
    assert [e.detail for e in started] == ["1", "2"]
    assert [e.at for e in started] == [mark.at for mark in events.stops]


# --- interruptions -----------------------------------------------------------------------------


@pytest.mark.parametrize("where", [user_of, lambda bot: bot.llm, assistant_of])
@pytest.mark.parametrize("stamped", [True, False], ids=["stamped", "unstamped"])
def test_a_late_copy_of_an_interruption_does_not_touch_the_next_turn(where, stamped):
    """It may come from any processor, and one that is not ours puts no stamp on it."""
    old = []

    async def keep(bot):
        old.append(InterruptionFrame())
        if stamped:
            old[0].metadata["turn_epoch"] = 1

    async def come_late(bot):
        await where(bot).queue_frame(old[0], FrameDirection.DOWNSTREAM)

    plain = play(ORDER, TRANSACTIONAL, At(3.6))
    late = next(run for run in plain.runs if run.ending == "reported").started + 0.4
    conversation = ORDER.but(during=((3.55, keep), (late, come_late)))
    outcome = play(conversation, TRANSACTIONAL, At(3.6))
    assert judge(outcome) == []
    assert outcome.history == plain.history
    assert [run.ending for run in outcome.runs] == ["cancelled", "reported"]
    fenced = [e.detail for e in outcome.events if e.name == "on_stale_fenced"]
    assert sum("kind='interruption', epoch=1" in detail for detail in fenced) >= 1


@pytest.mark.parametrize("end", ["input", "output"])
def test_an_interruption_from_another_processor_ends_the_turn(end):
    """A client's button, a watchdog: the turn is over, and its call leaves nothing."""
    states = []

    async def interrupt(bot):
        await getattr(bot.transport, end)().broadcast_interruption()

    async def look(bot):
        states.append((bot.context.is_over, bot.context.staged, len(bot.context.messages)))

    conversation = ORDER.but(during=((3.9, interrupt), (4.0, look)))
    outcome = play(conversation, TRANSACTIONAL)
    assert states == [(True, (), 1)]
    assert [run.ending for run in outcome.runs] == ["cancelled"]
    assert not outcome.in_progress
    assert check_history(outcome.history) == []


# --- calls in progress ---------------------------------------------------------------------------


@pytest.mark.parametrize("voice", ["words", "sentences", "text"])
def test_calls_are_in_progress_exactly_while_they_are(voice):
    """Mute strategies, idle timers and Flows ask."""
    clean = play(ORDER.but(voice=voice), TRANSACTIONAL)
    run = clean.runs[0]
    committed = next(e.at for e in clean.events if e.name == "on_round_committed")
    assert run.ended is not None
    found = []

    async def look(bot):
        found.append(assistant_of(bot).has_function_calls_in_progress)

    moments = (run.started - 0.05, run.started + 0.05, run.ended - 0.05, committed + 0.05)
    play(ORDER.but(voice=voice, during=tuple((at, look) for at in moments)), TRANSACTIONAL)
    assert found == [False, True, True, False]


def test_a_cut_call_is_not_in_progress_from_the_barge_in_on():
    found = []

    async def look(bot):
        found.append(assistant_of(bot).has_function_calls_in_progress)

    play(ORDER.but(during=((3.91, look), (8.0, look))), TRANSACTIONAL, WHILE_THE_TOOL_RUNS)
    assert found[0] is False


# --- events ------------------------------------------------------------------------------------


def test_events_come_with_the_aggregator_and_what_happened():
    heard = []

    def assemble(bot):
        for name in (
            "on_turn_started",
            "on_round_committed",
            "on_round_rolled_back",
            "on_stale_fenced",
        ):

            async def handler(aggregator, what, name=name):
                assert aggregator is assistant_of(bot)
                heard.append((name, what))

            assistant_of(bot).add_event_handler(name, handler)
        return usual_pipeline(bot)

    play(scenarios.stubborn.but(assemble=assemble), TRANSACTIONAL, WHILE_THE_TOOL_RUNS)
    by_name = {name: [what for n, what in heard if n == name] for name, _ in heard}
    assert by_name["on_turn_started"] == [1, 2]
    (rolled_back,), (committed,) = by_name["on_round_rolled_back"], by_name["on_round_committed"]
    assert isinstance(rolled_back, ToolRound) and isinstance(committed, ToolRound)
    assert (rolled_back.epoch, committed.epoch) == (1, 2)
    assert rolled_back.is_late and not committed.is_late
    assert all(isinstance(what, StaleWork) for what in by_name["on_stale_fenced"])
    assert {what.epoch for what in by_name["on_stale_fenced"]} == {1}


def test_nobody_is_called_for_events_that_nobody_wants():
    """The clean path costs no task more than stock."""
    heard = []

    async def prepare(bot):
        @assistant_of(bot).event_handler("on_turn_started")
        async def on_turn_started(aggregator, epoch):
            heard.append(epoch)

    play(conversations.talk.but(prepare=prepare), TRANSACTIONAL)
    assert heard == [1]


# --- runs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("voice", ["words", "sentences"])
def test_a_result_that_comes_while_the_bot_speaks_is_shown_when_it_has_finished(voice):
    outcome = play(ORDER.but(voice=voice), TRANSACTIONAL)
    run, second = outcome.runs[0], outcome.requests[1]
    last_word = [word for word in outcome.heard if word.request == 0][-1]
    assert run.ended is not None
    assert run.ended < last_word.at < second.at
    assert len(outcome.requests) == 2


def test_a_round_whose_results_come_while_the_user_talks_is_seen_by_the_users_own_run():
    """One answer per cause: the turn's own run shows it, and no other is made."""
    outcome = play(scenarios.outliving, TRANSACTIONAL, At(5.0))
    assert judge(outcome) == []
    assert not [
        r
        for r in outcome.requests
        for begun, done in zip(outcome.turns, outcome.stops, strict=True)
        if begun.at < r.at < done.at
    ]


@pytest.mark.parametrize("conversation", [scenarios.run_during_call, scenarios.append_during_call])
def test_a_run_asked_for_during_a_call_is_made_once_and_with_the_result(conversation):
    outcome = play(conversation, TRANSACTIONAL)
    assert len(outcome.requests) == 2
    assert judge(outcome) == []


@pytest.mark.parametrize("asked", [user_of, assistant_of], ids=["user", "assistant"])
def test_a_run_asked_for_while_the_user_has_the_floor_is_the_turns_own(asked):
    """The user is not spoken over, and is answered once."""

    async def ask(bot):
        await asked(bot).queue_frame(LLMRunFrame())

    plain = play(ORDER, TRANSACTIONAL, WHILE_THE_TOOL_RUNS)
    outcome = play(ORDER.but(during=((4.5, ask),)), TRANSACTIONAL, WHILE_THE_TOOL_RUNS)
    assert outcome.turns[1].at < 4.5 < outcome.stops[1].at
    assert [r.at for r in outcome.requests] == [r.at for r in plain.requests]
    assert outcome.history == plain.history


def test_no_run_starts_while_the_user_has_the_floor():
    for instant in (4.2, 4.5, 4.8, 5.2):
        outcome = play(conversations.chain, TRANSACTIONAL, At(instant))
        begun, done = outcome.turns[-1].at, outcome.stops[-1].at
        assert not [r for r in outcome.requests if begun < r.at < done]
