# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What goes wrong in stock Pipecat, cause by cause, and does not with the drop-ins.

Each test plays the same instants on the stock classes first and asserts the damage there, so that
what we say of them stays true.
"""

from functools import cache

import pytest
from pipecat.frames.frames import (
    Frame,
    FunctionCallCancelFrame,
    FunctionCallInProgressFrame,
    FunctionCallResultFrame,
    FunctionCallsStartedFrame,
    InterruptionFrame,
    LLMContextFrame,
    SystemFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

from pipecat_turn_acid.testing import conversations
from pipecat_turn_acid.testing.checks import Rule, check_history
from pipecat_turn_acid.testing.conversation import (
    STOCK,
    TRANSACTIONAL,
    At,
    Conversation,
    play,
    usual_pipeline,
)
from pipecat_turn_acid.testing.judge import FaultKind, judge
from pipecat_turn_acid.testing.script import Script
from pipecat_turn_acid.testing.tools import Tool


@cache
def clean():
    """Without a barge-in, which stands for every run up to a barge-in."""
    return play(conversations.order, STOCK)


def while_the_tool_runs():
    run = clean().runs[0]
    assert run.ended is not None
    return At((run.started + run.ended) / 2)


def kinds(outcome):
    return {fault.kind for fault in judge(outcome)}


# --- a cancel can arrive before the call that it cancels ---------------------------------------


def test_what_starts_and_cancels_a_call_overtakes_and_what_reports_on_it_does_not():
    """The cause of it, in Pipecat's own types."""
    for overtakes in (FunctionCallsStartedFrame, FunctionCallCancelFrame, InterruptionFrame):
        assert issubclass(overtakes, SystemFrame)
    for waits in (FunctionCallInProgressFrame, FunctionCallResultFrame):
        assert not issubclass(waits, SystemFrame)
        # An interruption does not take them out of the queue either.
        assert waits.interruptible is False


def arrivals(kit, instant):
    """In which order the assistant aggregator got to know of the first call."""
    seen: list[str] = []

    def assemble(bot):
        def note(_, frame):
            if isinstance(frame, (FunctionCallInProgressFrame, FunctionCallCancelFrame)):
                if frame.tool_call_id == "call_0001":
                    seen.append(type(frame).__name__)

        bot.aggregators.assistant().add_event_handler("on_before_process_frame", note)
        return usual_pipeline(bot)

    return play(conversations.order.but(assemble=assemble), kit, instant), seen


def test_a_cancel_arrives_before_the_call_it_cancels():
    """The sentence before the call is still being spoken, and the call waits behind it."""
    instant = while_the_tool_runs()
    stock, order = arrivals(STOCK, instant)
    assert order == ["FunctionCallCancelFrame", "FunctionCallInProgressFrame"]
    assert [f.rule for f in check_history(stock.history)] == [Rule.PLACEHOLDER]
    assert stock.in_progress
    assert FaultKind.STUCK in kinds(stock)

    ours, order = arrivals(TRANSACTIONAL, instant)
    assert order == ["FunctionCallCancelFrame", "FunctionCallInProgressFrame"]
    assert check_history(ours.history) == []
    assert not ours.in_progress
    assert judge(ours) == []


# --- a placeholder is written at the start, and patched by scanning for the id -------------------


def shown_while_the_call_runs(kit):
    shown: list = []

    async def look(bot):
        shown.extend(dict(m) for m in bot.context.get_messages() if m["role"] != "user")

    conversation = conversations.parallel.but(during=((3.9, look),))
    outcome = play(conversation, kit)
    assert outcome.runs[0].started < 3.9 < (outcome.runs[0].ended or 0.0)
    return shown


def test_a_placeholder_is_written_when_a_call_starts():
    contents = [m.get("content") for m in shown_while_the_call_runs(STOCK) if m["role"] == "tool"]
    assert "IN_PROGRESS" in contents
    assert shown_while_the_call_runs(TRANSACTIONAL) == []


def same_id_twice():
    script = Script()
    script.on(user="first", after_tool="look_up").say("Here you are.")
    script.on(user="second", after_tool="look_up").say("Here you are again.")
    script.on(user="first").call("look_up", {"q": "first"}, id="call_0")
    script.on(user="second").call("look_up", {"q": "second"}, id="call_0")
    return script


def test_a_result_is_written_wherever_the_id_is_found():
    """Some services count the calls of each response anew."""
    conversation = Conversation(
        name="same id",
        says=("The first.", "The second."),
        barge_in="",
        script=same_id_twice,
        tools=(Tool("look_up", ("q",), result=lambda arguments: arguments["q"]),),
        voice="text",
    )
    results = {
        kit.name: [m["content"] for m in play(conversation, kit).history if m["role"] == "tool"]
        for kit in (STOCK, TRANSACTIONAL)
    }
    assert results["stock"] == ['"second"', '"second"']
    assert results["transactional"] == ['"first"', '"second"']


# --- a context frame does not know for which turn it was asked -----------------------------------


class Hold(FrameProcessor):
    """Holds the first request that goes upstream, as a busy event loop may."""

    def __init__(self):
        super().__init__()
        self.held: list[LLMContextFrame] = []

    async def process_frame(self, frame: Frame, direction: FrameDirection):
        await super().process_frame(frame, direction)
        upstream = direction is FrameDirection.UPSTREAM
        if upstream and isinstance(frame, LLMContextFrame) and not self.held:
            self.held.append(frame)
            return
        await self.push_frame(frame, direction)

    async def let_go(self, _):
        await self.push_frame(self.held[0], FrameDirection.UPSTREAM)


def held_until_the_next_turn_has_been_answered(kit):
    holds: list[Hold] = []

    def assemble(bot):
        holds.append(Hold())
        parts = usual_pipeline(bot)
        return [*parts[:3], holds[-1], *parts[3:]]

    async def let_go(bot):
        await holds[-1].let_go(bot)

    asked = clean().requests[1].at
    conversation = conversations.order.but(assemble=assemble, during=((20.0, let_go),), quiet=10.0)
    return play(conversation, kit, At(asked + 0.5))


@pytest.mark.parametrize(
    ("kit", "answers"), [(STOCK, 2), (TRANSACTIONAL, 1)], ids=["stock", "transactional"]
)
def test_a_request_of_the_killed_turn_is_answered_after_the_correction(kit, answers):
    outcome = held_until_the_next_turn_has_been_answered(kit)
    finals = [r for r in outcome.requests if r.final and r.asked == conversations.order.barge_in]
    assert len(finals) == answers
    assert (FaultKind.MANY_ANSWERS in kinds(outcome)) is (kit is STOCK)
    fenced = [e.detail for e in outcome.events if e.name == "on_stale_fenced"]
    assert any("kind='run', epoch=1" in detail for detail in fenced) is (kit is not STOCK)
