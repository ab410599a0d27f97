# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The conversations with Anthropic, Google and OpenAI's Responses, barged in on at every instant.

The servers are strict: each refuses what its provider refuses, in its provider's words.
"""

import pytest

pytest.importorskip("anthropic", reason="needs pipecat-turn-acid[providers]")
pytest.importorskip("google.genai", reason="needs pipecat-turn-acid[providers]")

from pipecat_turn_acid.testing.conversation import STOCK, TRANSACTIONAL, Tick, play
from pipecat_turn_acid.testing.conversations import FIVE, chain, correct, order, parallel, talk
from pipecat_turn_acid.testing.judge import judge
from pipecat_turn_acid.testing.providers import PROVIDERS, speaking
from pipecat_turn_acid.testing.sweep import sweep

# Pipecat's Anthropic service passes on one call of a response; see the test of it below.
PLAYED = [
    (provider, conversation)
    for provider in PROVIDERS
    for conversation in FIVE
    if (provider, conversation) != ("anthropic", parallel)
]


@pytest.mark.parametrize("thinking", [False, True], ids=["", "thinking"])
@pytest.mark.parametrize(("provider", "conversation"), PLAYED, ids=lambda v: getattr(v, "name", v))
def test_no_barge_in_leaves_a_trace(provider, conversation, thinking):
    """Whatever the user cuts off, the provider takes the next request and the answer is right."""
    kit = speaking(provider, TRANSACTIONAL, thinking=thinking)

    report = sweep(conversation, kit, sample=12)

    assert not report.reference_faults
    assert not report.damaged, str(report)
    assert len(report.verdicts) == 12


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_servers_refuse_what_stock_leaves_behind(provider):
    """A server that takes everything would prove nothing."""
    report = sweep(order, speaking(provider, STOCK, thinking=True), sample=20)

    assert report.damaged


@pytest.mark.parametrize("provider", ["anthropic", "responses"])
def test_a_thought_goes_with_its_round(provider):
    """The provider refuses a thought that is shown without what it led to."""
    kit = speaking(provider, TRANSACTIONAL, thinking=True)
    without = play(order, kit)
    tool = without.runs[0]
    cut = play(order, kit, Tick(tool.started_tick + 1))

    assert without.specific
    assert judge(cut) == []
    kept = {message["tool_calls"][0]["id"] for message in cut.history if "tool_calls" in message}
    assert tool.tool_call_id not in kept
    assert not any(tool.tool_call_id in str(thought) for thought in cut.specific)


def test_a_signature_reaches_gemini_on_the_call_that_it_signs():
    """Gemini signs the first call of a response and looks for the signature there."""
    outcome = play(parallel, speaking("google", TRANSACTIONAL, thinking=True))

    assert judge(outcome) == []
    assert [request.refusal for request in outcome.requests] == ["", ""]
    assert len(outcome.requests[0].calls) == 2


def test_pipecat_passes_on_the_last_call_of_anthropics_response():
    """When this fails, Pipecat has mended it: have `parallel` played with Anthropic above."""
    outcome = play(parallel, speaking("anthropic", STOCK))

    assert len(outcome.requests[0].calls) == 2
    assert [run.arguments["city"] for run in outcome.runs] == ["London"]


@pytest.mark.parametrize("conversation", [chain, correct, talk], ids=lambda c: c.name)
def test_a_second_barge_in_leaves_no_trace_either(conversation):
    """The user corrects the correction."""
    report = sweep(conversation, speaking("responses", TRANSACTIONAL), sample=6, second=True)

    assert not report.damaged, str(report)
