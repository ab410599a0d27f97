# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Conversations with a whole bot: what they show of stock Pipecat, and that they repeat."""

import hashlib
import json
import os
import subprocess
import sys
import textwrap
import threading
from itertools import pairwise

import pytest

from pipecat_turn_acid.testing import conversations
from pipecat_turn_acid.testing.conversation import (
    STOCK,
    TRANSACTIONAL,
    After,
    At,
    Tick,
    play,
)
from pipecat_turn_acid.testing.judge import FaultKind, judge
from pipecat_turn_acid.testing.script import Script
from pipecat_turn_acid.testing.tools import Behaviour

VOICES = ("words", "sentences", "text")
five = pytest.mark.parametrize("conversation", conversations.FIVE, ids=lambda one: one.name)
voices = pytest.mark.parametrize("voice", VOICES)
kits = pytest.mark.parametrize("kit", (STOCK, TRANSACTIONAL), ids=lambda one: one.name)


def kinds(outcome):
    return {fault.kind for fault in judge(outcome)}


def everything(outcome):
    return repr(
        (
            outcome.trace,
            outcome.ticks,
            outcome.seconds,
            outcome.history,
            outcome.requests,
            outcome.heard,
            outcome.events,
            outcome.runs,
        )
    )


@five
@voices
@kits
def test_without_a_barge_in_all_is_well(conversation, voice, kit):
    outcome = play(conversation.but(voice=voice), kit)
    assert judge(outcome) == []
    assert outcome.rested and not outcome.in_progress and not outcome.errors


@five
@kits
def test_the_same_instant_gives_the_same_run_to_the_byte(conversation, kit):
    """A finding that can't be played again can't be mended."""
    instants = [None, Tick(150), Tick(300), At(3.3)]
    once = [everything(play(conversation, kit, instant, trace=True)) for instant in instants]
    twice = [everything(play(conversation, kit, instant, trace=True)) for instant in instants]
    assert once == twice


def test_a_trace_changes_nothing_else():
    """What a replay shows is what the sweep saw."""
    plain = play(conversations.chain, STOCK, Tick(333))
    traced = play(conversations.chain, STOCK, Tick(333), trace=True)
    assert traced.trace and not plain.trace
    traced.trace.clear()
    assert everything(plain) == everything(traced)


def test_runs_repeat_under_load_and_in_other_processes():
    """Hash seeds, other threads and a busy machine must not reach a run."""
    program = textwrap.dedent(
        """
        import hashlib
        from pipecat_turn_acid.testing.conversation import STOCK, Tick, play
        from pipecat_turn_acid.testing.conversations import FIVE
        for one in FIVE:
            outcome = play(one, STOCK, Tick(200), trace=True)
            shown = repr((outcome.trace, outcome.ticks, outcome.history, outcome.heard))
            print(hashlib.sha256(shown.encode()).hexdigest())
        """
    )
    others = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        for seed in ("1", "2")
    ]
    done = threading.Event()
    spinning = [threading.Thread(target=_spin, args=(done,)) for _ in range(2)]
    for thread in spinning:
        thread.start()
    try:
        here = []
        for one in conversations.FIVE:
            outcome = play(one, STOCK, Tick(200), trace=True)
            shown = repr((outcome.trace, outcome.ticks, outcome.history, outcome.heard))
            here.append(hashlib.sha256(shown.encode()).hexdigest())
    finally:
        done.set()
        for thread in spinning:
            thread.join()
    for other in others:
        assert other.communicate()[0].split() == here
        assert other.returncode == 0


def _spin(done):
    while not done.is_set():
        hashlib.sha256(b"busy" * 100).digest()


# --- what stock Pipecat does -------------------------------------------------------------------


def test_stock_leaves_a_call_in_progress_for_ever():
    """A cancel overtakes the call that it cancels, which waits behind the speech."""
    outcome = play(conversations.order, STOCK, At(3.6))
    assert {FaultKind.PLACEHOLDER, FaultKind.STUCK, FaultKind.LEFTOVER} <= kinds(outcome)
    assert "IN_PROGRESS" in outcome.transcript


def test_stock_leaves_a_cancelled_call_beside_a_finished_one():
    outcome = play(conversations.parallel, STOCK, At(3.9))
    assert {FaultKind.PLACEHOLDER, FaultKind.LEFTOVER} == kinds(outcome)
    contents = [m["content"] for m in outcome.history if m["role"] == "tool"][:2]
    assert contents == ["CANCELLED", '{"city": "London", "weather": "sunny"}']


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="its tasks wake in another order there")
def test_stock_lets_a_cut_turn_go_on_and_answers_twice():
    faults = {}
    for tick in range(300, 360, 3):
        outcome = play(conversations.chain, STOCK, Tick(tick))
        faults |= {fault.kind: outcome for fault in judge(outcome)}
    assert {FaultKind.DEAD_TURN, FaultKind.MANY_ANSWERS} <= set(faults)
    finals = [r.said for r in faults[FaultKind.MANY_ANSWERS].requests if r.final]
    assert any("Anna" in said for said in finals) and any("Ben" in said for said in finals)


# --- the parts of a run ------------------------------------------------------------------------


def test_the_words_that_are_heard_keep_the_pace_of_speech():
    outcome = play(conversations.talk, STOCK)
    words = [word.text for word in outcome.heard]
    assert " ".join(words) == outcome.requests[0].said
    gaps = [b.at - a.at for a, b in pairwise(outcome.heard)]
    assert all(0.2 <= gap <= 0.5 for gap in gaps)


@voices
def test_a_barge_in_silences_the_bot_at_once(voice):
    conversation = conversations.talk.but(voice=voice)
    at = 2.3 if voice == "text" else 4.0
    outcome = play(conversation, STOCK, At(at))
    assert [mark.at for mark in outcome.barge_ins] == pytest.approx([at])
    assert outcome.turns[-1].at == pytest.approx(at)
    old = [word for word in outcome.heard if word.request == 0]
    assert old and all(word.at <= at for word in old)
    assert outcome.history[-1]["content"] == conversation.expects


def test_a_second_barge_in_comes_after_the_first():
    for second in (After(ticks=300), After(seconds=3.5), At(7.5)):
        outcome = play(conversations.order, TRANSACTIONAL, At(3.6), second=second)
        assert len(outcome.barge_ins) == 2
        assert [said.text for said in outcome.said] == [
            *conversations.order.says,
            conversations.order.barge_in,
            conversations.order.second_barge_in,
        ]
        assert judge(outcome) == []
        assert outcome.history[-1]["content"] == "Order 4473 has been shipped."


def test_a_noise_makes_the_bot_ask_the_model_again():
    """Pipecat answers a turn without words when it has cut the bot off."""
    outcome = play(conversations.talk, STOCK, At(3.0), false_start=True)
    assert [said.text for said in outcome.said] == list(conversations.talk.says)
    assert outcome.requests[-1].messages[-1]["role"] == "developer"
    assert judge(outcome) == []


def test_a_barge_in_before_the_turn_has_ended_makes_one_message():
    outcome = play(conversations.order, STOCK, At(2.6))
    users = [m["content"] for m in outcome.history if m["role"] == "user"]
    assert users == [f"{conversations.order.says[0]} {conversations.order.barge_in}"]
    assert len(outcome.turns) == 1 and judge(outcome) == []


def test_an_instant_that_never_comes_is_no_barge_in():
    outcome = play(conversations.talk, STOCK, At(500.0))
    assert outcome.barge_ins == [] and judge(outcome) == []


def one_tool(behaviour, **changes):
    (tool,) = conversations.order.tools
    values = {**vars(tool), "behaviour": behaviour, **changes}
    return conversations.order.but(tools=(type(tool)(**values),))


def test_a_tool_that_fails_is_reported_to_the_model():
    outcome = play(one_tool(Behaviour.FAILS).but(script=_talker), STOCK)
    assert [run.ending for run in outcome.runs] == ["failed"]
    assert any("out of order" in error for error in outcome.errors)
    assert judge(outcome) == []


def test_a_tool_that_ignores_cancellation_reports_late():
    outcome = play(one_tool(Behaviour.IGNORES_CANCELLATION, seconds=4.0), STOCK, At(3.6))
    first = outcome.runs[0]
    assert first.ending == "reported" and first.ended == pytest.approx(first.started + 4.0)
    assert first.ended is not None and first.ended > outcome.turns[-1].at + 3


def test_a_tool_that_never_reports_leaves_stock_stuck():
    outcome = play(one_tool(Behaviour.NEVER_REPORTS), STOCK)
    assert outcome.runs[0].ending == "silent"
    assert {FaultKind.STUCK, FaultKind.NO_ANSWER} <= kinds(outcome)


def test_a_bot_that_never_rests_is_stopped_and_named():
    conversation = conversations.talk.but(
        limit=15.0, during=tuple((second, _run) for second in range(3, 16))
    )
    outcome = play(conversation, STOCK)
    assert not outcome.rested and outcome.seconds < 20
    assert FaultKind.NEVER_RESTS in kinds(outcome)


def test_the_whole_outcome_can_be_told_as_json():
    outcome = play(conversations.order, STOCK, At(3.6))
    assert json.loads(json.dumps(outcome.history)) == outcome.history


async def _run(bot):
    from pipecat.frames.frames import LLMRunFrame

    await bot.queue(LLMRunFrame())


def _talker():
    script = conversations.order.script()
    assert isinstance(script, Script)
    script.on(after_tool="get_order_status").say("That did not work.")
    script.rules.insert(0, script.rules.pop())
    return script
