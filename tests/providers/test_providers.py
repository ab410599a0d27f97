# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The conversations with Anthropic, Google and OpenAI's Responses, barged in on at every instant.

The servers are strict: each refuses what its provider refuses, in its provider's words.
"""

import gc
import json
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("anthropic", reason="needs pipecat-turn-acid[providers]")
pytest.importorskip("google.genai", reason="needs pipecat-turn-acid[providers]")

from pipecat.frames.frames import UserImageRawFrame

from pipecat_turn_acid import TurnPolicy, _compat
from pipecat_turn_acid.testing.conversation import STOCK, TRANSACTIONAL, At, Tick, play
from pipecat_turn_acid.testing.conversations import FIVE, chain, correct, order, parallel, talk
from pipecat_turn_acid.testing.judge import judge
from pipecat_turn_acid.testing.providers import PROVIDERS, speaking
from pipecat_turn_acid.testing.script import Script
from pipecat_turn_acid.testing.sweep import sweep

PLAYED = [(provider, conversation) for provider in PROVIDERS for conversation in FIVE]


@pytest.mark.parametrize("thinking", [False, True], ids=["", "thinking"])
@pytest.mark.parametrize(("provider", "conversation"), PLAYED, ids=lambda v: getattr(v, "name", v))
def test_no_barge_in_leaves_a_trace(provider, conversation, thinking):
    """Whatever the user cuts off, the provider takes the next request and the answer is right."""
    kit = speaking(provider, TRANSACTIONAL, thinking=thinking)

    report = sweep(conversation, kit, sample=12)

    assert not report.reference_faults
    assert not report.damaged, str(report)
    assert len(report.verdicts) == 12


@pytest.mark.parametrize("provider", ["anthropic", "google", "responses"])
def test_an_interruption_hangs_up_on_the_provider(provider):
    """An answer that nobody hears is not paid for."""
    outcome = play(order, speaking(provider, TRANSACTIONAL), At(3.19))

    assert [request.fate for request in outcome.requests[:2]] == ["disconnected", "finished"]


def test_google_is_hung_up_on_at_the_next_collection_if_a_piece_came_in_that_instant():
    """Its client leaves the stream to the garbage collector, which is off in virtual time."""
    kit = speaking("google", TRANSACTIONAL)
    reference = play(order, kit)
    piece = reference.requests[0].sent_at[0]

    async def collect(bot):
        gc.collect()

    left_open = [
        outcome
        for tick, at in enumerate(reference.tick_times)
        if at == pytest.approx(piece)
        and (outcome := play(order, kit, Tick(tick))).requests[0].fate == "finished"
    ]
    assert left_open and all(judge(outcome) == [] for outcome in left_open)
    for outcome in left_open:
        tick = Tick(outcome.barge_ins[0].tick)
        collected = play(order.but(during=((piece + 0.01, collect),)), kit, tick)
        assert collected.requests[0].fate == "disconnected"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_servers_refuse_what_stock_leaves_behind(provider):
    """A server that takes everything would prove nothing."""
    report = sweep(order, speaking(provider, STOCK, thinking=True), sample=20)

    assert report.damaged


@pytest.mark.since(1, 13)
def test_a_thought_stands_before_the_words_that_it_led_to_when_an_image_comes_between_them():
    """The provider pairs a thought with what follows it, and that is not what it was about."""

    async def send(bot):
        image = UserImageRawFrame(image=bytes(12), size=(2, 2), format="RGB")
        image.append_to_context, image.run_llm = True, False
        await bot.queue(image)

    def kinds(bot):
        return [getattr(m, "message", m).get("role", "thought") for m in bot.context.messages]

    conversation = talk.but(during=((5.0, send),), inspect=kinds)
    kit = speaking("responses", TRANSACTIONAL, thinking=True)

    whole, cut = play(conversation, kit), play(conversation, kit, At(5.6))

    assert whole.found == ["user", "thought", "assistant", "user", "assistant"]
    assert cut.found == ["user", "user", "user", "thought", "assistant"]


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


def test_all_calls_of_an_anthropic_response_are_run_and_shown():
    """Stock runs the last one alone, and never tells."""
    stock = play(parallel, speaking("anthropic", STOCK))
    ours = play(parallel, speaking("anthropic", TRANSACTIONAL))

    assert [run.arguments["city"] for run in stock.runs] == ["London"]
    assert {run.arguments["city"] for run in ours.runs} == {"Paris", "London"}
    assert ours.history[-1]["content"] == "It is sunny in Paris. It is sunny in London."


def broken(arguments: str, *, beside_a_good_one: bool) -> Any:
    """A model that calls a tool with arguments that it cannot have."""

    def script() -> Script:
        script = Script()
        script.on(after_tool="get_weather").say("Something went wrong.")
        rule = script.on().call("get_weather", arguments)
        if beside_a_good_one:
            rule.call("get_weather", {"city": "London"})
        return script

    return parallel.but(script=script, voice="text")


@pytest.mark.parametrize("beside_a_good_one", [False, True], ids=["alone", "beside a good call"])
@pytest.mark.parametrize("arguments", ['{"city": "Par', '["Paris"]'], ids=["cut off", "a list"])
@pytest.mark.parametrize("provider", ["anthropic", "responses"])
def test_arguments_that_are_no_json_object_are_answered(provider, arguments, beside_a_good_one):
    """The model is told, in one request, and the tool is not called with what it did not say."""
    conversation = broken(arguments, beside_a_good_one=beside_a_good_one)

    outcome = play(conversation, speaking(provider, TRANSACTIONAL))

    results = [json.loads(m["content"]) for m in outcome.history if m["role"] == "tool"]
    good = {"city": "London", "weather": "sunny"}
    assert "not" in results[0] and "JSON" in results[0]
    assert results[1:] == [good] * beside_a_good_one
    assert [run.arguments for run in outcome.runs] == [{"city": "London"}] * beside_a_good_one
    assert len(outcome.requests) == 2
    assert not any(request.refusal for request in outcome.requests)
    assert outcome.history[-1]["content"] == "Something went wrong."
    assert not outcome.in_progress


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *((value, value) for value in ([], "", 0, False)),
        ({"temperature": float("nan")}, {"temperature": "NaN"}),
        ({"city": "Par\ud83d"}, {"city": "Par?"}),
    ],
    ids=ascii,
)
def test_a_result_that_is_hard_to_send_is_sent_to_every_provider(provider, value, shown):
    """And stands in the requests after it, which are answered too."""
    tool = replace(parallel.tools[0], result=value, seconds=0.2)

    def script() -> Script:
        script = Script()
        script.on(after_tool="get_weather").say("I see.")
        script.on().call("get_weather", {"city": "Paris"})
        return script

    conversation = parallel.but(
        script=script, tools=(tool,), says=("What is it like?", "And now?"), voice="text"
    )
    outcome = play(conversation, speaking(provider, TRANSACTIONAL))

    said = [m["content"] for m in outcome.history if m["role"] == "assistant" and "content" in m]
    assert said == ["I see.", "I see."]
    assert [request.fate for request in outcome.requests] == ["finished"] * 4
    assert not outcome.errors and not outcome.in_progress
    results = [json.loads(m["content"]) for m in outcome.history if m["role"] == "tool"]
    assert results == [shown, shown]


def test_the_seams_of_these_services_are_as_we_take_them_to_be():
    """A release that moves one is an error with a way out, and not a bot that behaves oddly."""
    from pipecat.services.anthropic.llm import AnthropicLLMService
    from pipecat.services.openai.responses.llm import OpenAIResponsesHttpLLMService

    owners = {c.__name__: c for c in OpenAIResponsesHttpLLMService.__mro__} | {
        "AnthropicLLMService": AnthropicLLMService
    }

    assert [_compat.missing_from(owners[seam.owner]) for seam in _compat.PROVIDER_SEAMS] == [[], []]


def test_a_request_on_an_open_connection_brings_what_is_new():
    """The whole round is what follows the response that called it, so nothing is sent again."""
    bodies: list[Any] = []
    kit = speaking("responses-websocket", TRANSACTIONAL)

    play(parallel.but(inspect=lambda bot: bodies.extend(bot.server.bodies)), kit)

    assert [item["type"] for item in bodies[1]["input"][-2:]] == ["function_call_output"] * 2
    assert bodies[1]["previous_response_id"]


@pytest.mark.parametrize(
    "kit",
    [
        speaking("anthropic", TRANSACTIONAL, thinking=True).but(
            policy=TurnPolicy(interrupted_text="heard")
        ),
        speaking("google", TRANSACTIONAL, thinking=True),
    ],
    ids=["heard", "sentences"],
)
def test_no_barge_in_leaves_a_trace_in_other_ways_to_speak_and_to_remember(kit):
    """A voice without word timestamps, and a history that keeps what was heard."""
    report = sweep(order.but(voice="sentences"), kit, sample=12)

    assert not report.damaged, str(report)


@pytest.mark.parametrize("conversation", [chain, correct, talk], ids=lambda c: c.name)
def test_a_second_barge_in_leaves_no_trace_either(conversation):
    """The user corrects the correction."""
    report = sweep(conversation, speaking("responses", TRANSACTIONAL), sample=6, second=True)

    assert not report.damaged, str(report)
