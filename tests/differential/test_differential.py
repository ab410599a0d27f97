# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Without a barge-in the drop-ins do what stock does, apart from a list of differences.

Each test with a name of its own is an entry of ``docs/differences.md``, with the rule that demands
it. ``test_without_a_barge_in_stock_and_drop_ins_are_alike`` knows no others.
"""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loguru import logger

from pipecat_turn_acid import TransactionalLLMContextAggregatorPair
from pipecat_turn_acid.testing.conversation import STOCK, TRANSACTIONAL
from tests.differential.duet import Play, Record, Response, Step, ToolKind, as_meant, perform


@pytest.fixture(autouse=True, scope="module")
def silent():
    """Keep what two bots log of every session out of a failure's report."""
    logger.disable("pipecat")
    yield
    logger.enable("pipecat")


# --- generated sessions ------------------------------------------------------------------------

AWAITED: tuple[ToolKind, ...] = ("quick", "slow", "failing")

_WHILE_A_TOOL_WORKS = {True: 1.2, False: 0.5}
"""Seconds after the user has spoken, and after anybody else has asked."""


def responses(draw: st.DrawFn, voice: Any) -> tuple[Response, ...]:
    """Up to three rounds, in which the last result asks for a run, or none does.

    An awaited call that times out while its words are spoken, and a result of None beside others,
    are differences with tests of their own.
    """
    rounds = []
    for _ in range(draw(st.integers(0, 3))):
        kinds: list[ToolKind] = [*AWAITED, "outliving"]
        if voice == "text":
            kinds.append("timing out")
        calls = tuple(draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3)))
        rounds.append(Response(draw(st.booleans()), calls))
    if draw(st.booleans()) and draw(st.booleans()):
        # No answer follows, so it is the last one.
        rounds.append(Response(draw(st.booleans()), (draw(st.sampled_from(["silent", "empty"])),)))
    return tuple(rounds)


@st.composite
def plays(draw: st.DrawFn) -> Play:
    """Sessions without a barge-in; what happens beside a round asks for no run."""
    voice: Any = draw(st.sampled_from(["text", "text", "words", "sentences"]))
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, 5))):
        kinds: list[Any] = [
            "user",
            "user",
            "user",
            "append",
            "update",
            "transform",
            "tools",
            "image",
        ]
        kinds += ["speak", "run"]
        if not any(step.responses for step in steps):
            # A summary keeps so many messages, and a round has fewer of them than on stock.
            kinds.append("summarize")
        kind = draw(st.sampled_from(kinds))
        run = draw(st.booleans())
        asks = kind in ("user", "run") or (
            run and kind in ("append", "update", "transform", "image")
        )
        answered = responses(draw, voice) if asks else ()
        steps.append(Step(kind, run, answered))
        if answered and answered[0].calls == ("slow",) and voice == "text" and draw(st.booleans()):
            beside: Any = draw(st.sampled_from(["append", "tools", "image", "transform"]))
            steps.append(Step(beside, False, after=_WHILE_A_TOOL_WORKS[kind == "user"]))
    return Play(tuple(steps), voice, draw(st.booleans()))


def differences(stock: Record, ours: Record) -> dict[str, Any]:
    """What differs, by what can be seen."""
    meant = as_meant(stock)
    return {
        field.name: (getattr(meant, field.name), getattr(ours, field.name))
        for field in dataclasses.fields(Record)
        if getattr(meant, field.name) != getattr(ours, field.name)
    }


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(plays())
def test_without_a_barge_in_stock_and_drop_ins_are_alike(play):
    """Frames, events, requests and history are those of stock, so that migrating changes nothing."""
    assert differences(perform(play, STOCK), perform(play, TRANSACTIONAL)) == {}


@pytest.mark.parametrize("voice", ["text", "words", "sentences"])
def test_a_session_with_everything_is_alike(voice):
    """One session that does all of it, whatever the generator happens to try."""
    calls = (Response(True, ("quick", "slow", "failing")), Response(False, ("outliving", "slow")))
    play = Play(
        (
            Step("speak"),
            Step("user", responses=calls),
            Step("tools"),
            Step("append", run=True, responses=calls),
            Step("image", run=True),
            Step("transform", run=True, responses=calls),
            Step("user", responses=calls),
            Step("update", run=True),
            Step("user"),
            Step("user"),
            Step("summarize"),
            Step("run"),
        ),
        voice,
    )

    assert differences(perform(play, STOCK), perform(play, TRANSACTIONAL)) == {}


class ForgetfulPair(TransactionalLLMContextAggregatorPair):
    """A pair whose assistant aggregator forgets what was said."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)

        async def forget() -> str:
            await self._assistant.reset()
            return ""

        self._assistant.push_aggregation = forget


def test_a_broken_drop_in_is_noticed():
    """A comparison that cannot fail proves nothing."""
    play = Play((Step("user"),))

    found = differences(perform(play, STOCK), perform(play, TRANSACTIONAL.but(pair=ForgetfulPair)))

    assert "history" in found


# --- the differences that are meant ------------------------------------------------------------


def of(play: Play) -> tuple[Record, Record]:
    return perform(play, STOCK), perform(play, TRANSACTIONAL)


def roles(record: Record) -> list[str]:
    return ["calls" if m.get("tool_calls") else m["role"] for m in record.history]


def test_rule_4_the_calls_of_a_response_stand_in_one_message():
    """A model that made two calls at once sees that it did."""
    stock, ours = of(Play((Step("user", responses=(Response(False, ("quick", "slow")),)),)))

    assert roles(stock) == ["user", "calls", "tool", "calls", "tool", "assistant"]
    assert roles(ours) == ["user", "calls", "tool", "tool", "assistant"]


@pytest.mark.parametrize(
    "kind", ["append", pytest.param("image", marks=pytest.mark.since(1, 13)), "transform"]
)
def test_rule_3_what_is_added_while_a_round_is_open_stands_before_it(kind):
    """A round becomes history when it is complete, not when it begins."""
    beside = Step(kind, run=False, after=1.2)
    stock, ours = of(Play((Step("user", responses=(Response(False, ("slow",)),)), beside)))
    added = "user" if kind == "image" else "developer"

    assert roles(stock) == ["user", "calls", "tool", added, "assistant"]
    assert roles(ours) == ["user", added, "calls", "tool", "assistant"]


def test_rules_3_and_9_a_run_that_is_asked_for_while_a_round_is_open_waits_for_it():
    """The model is asked once, with the result, and not before with a placeholder."""
    beside = Step("append", run=True, after=1.2)
    stock, ours = of(Play((Step("user", responses=(Response(False, ("slow",)),)), beside)))

    assert len(stock.requests) == 3
    assert "IN_PROGRESS" in json.dumps(stock.requests[1])
    assert len(ours.requests) == 2
    assert "Note 1." in json.dumps(ours.requests[1])


def test_rule_9_a_round_whose_last_result_is_none_is_answered_for_its_others():
    """A lookup is answered, even if a tool that has nothing to say finishes after it."""
    stock, ours = of(Play((Step("user", responses=(Response(False, ("quick", "empty")),)),)))

    assert len(stock.requests) == 1
    assert len(ours.requests) == 2
    assert roles(ours) == ["user", "calls", "tool", "tool", "assistant"]


def test_rule_13_a_call_that_timed_out_is_answered_with_a_text_that_says_so():
    """A model can tell the user what happened."""
    stock, ours = of(Play((Step("user", responses=(Response(False, ("timing out",)),)),)))
    said = "The function `timing_out` timed out and returned no result."

    assert stock.history[2]["content"] == "CANCELLED"
    assert json.loads(ours.history[2]["content"]) == said
    assert len(stock.requests) == len(ours.requests) == 2


def test_rule_6_a_call_that_times_out_before_its_words_are_spoken_is_answered():
    """The cancellation overtakes the call, which then counts as running for ever on stock."""
    calls = (Response(True, ("timing out",)),)
    stock, ours = of(Play((Step("user", responses=calls),), "words"))

    assert stock.in_progress
    assert "IN_PROGRESS" in json.dumps(stock.history)
    assert len(stock.requests) == 1
    assert not ours.in_progress
    assert len(ours.requests) == 2
    assert roles(ours) == ["user", "assistant", "calls", "tool", "assistant"]
