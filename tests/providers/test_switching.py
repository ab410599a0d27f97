# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""An ``LLMSwitcher`` that changes the model in mid-conversation."""

from typing import Any

import pytest
from pipecat.frames.frames import ManuallySwitchServiceFrame
from pipecat.pipeline.llm_switcher import LLMSwitcher

from pipecat_turn_acid.testing.conversation import (
    TRANSACTIONAL,
    Bot,
    Conversation,
    connected_llm,
    play,
    usual_pipeline,
)
from pipecat_turn_acid.testing.conversations import order, parallel
from pipecat_turn_acid.testing.providers import PROVIDERS, speaking
from pipecat_turn_acid.testing.script import Script
from pipecat_turn_acid.testing.sweep import sweep

AT_REST = 7.0
WHILE_THE_TOOL_WORKS = 3.4


def switching(conversation: Conversation, second: Any) -> Conversation:
    """A bot with two models, of which the second takes over in the instant of a barge-in.

    Args:
        conversation: What is played.
        second: Makes the second service, from a bot.
    """
    services: dict[str, Any] = {}

    def assemble(bot: Bot) -> list[Any]:
        services["second"] = second(bot)
        bot.toolbox.register(services["second"], marks=True)
        switcher = LLMSwitcher(llms=[bot.llm, services["second"]])
        return [switcher if part is bot.llm else part for part in usual_pipeline(bot)]

    async def switch(bot: Bot) -> None:
        await bot.queue(ManuallySwitchServiceFrame(service=services["second"]))

    return conversation.but(assemble=assemble, cue=switch, during=())


def another(bot: Bot) -> Any:
    return connected_llm(bot.kit, bot.server, bot.conversation)


@pytest.mark.parametrize("conversation", [order, parallel], ids=lambda c: c.name)
def test_no_barge_in_that_changes_the_model_leaves_a_trace(conversation):
    """A round that the first model asked for is dropped or shown whole to the second."""
    report = sweep(switching(conversation, another), TRANSACTIONAL, sample=20)

    assert not report.damaged, str(report)


@pytest.mark.parametrize("seconds", [AT_REST, WHILE_THE_TOOL_WORKS])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_another_provider_takes_over_with_the_whole_history(provider, seconds):
    """The second model sees the rounds of the first, and answers the one that is open."""
    pytest.importorskip("anthropic", reason="needs pipecat-turn-acid[providers]")
    pytest.importorskip("google.genai", reason="needs pipecat-turn-acid[providers]")
    servers: dict[str, Any] = {}

    def second(bot: Bot) -> Any:
        kit = speaking(provider, TRANSACTIONAL)
        servers["second"] = kit.replaced["server"](_answers())
        return kit.replaced["connect"](kit, servers["second"], bot.conversation)

    conversation = switching(order, second)
    switch = conversation.cue
    assert switch
    outcome = play(
        conversation.but(
            says=("What is the status of order 4471?", "And of order 4472?"),
            during=((seconds, switch),),
        ),
        TRANSACTIONAL,
    )

    requests = servers["second"].requests
    by_second = 2 if seconds == AT_REST else 3
    rounds = [m for m in outcome.history if m.get("tool_calls")]
    assert [run.ending for run in outcome.runs] == ["reported"] * 2
    assert (len(outcome.requests), len(requests)) == (4 - by_second, by_second)
    assert not any(record.findings for record in requests)
    assert len(rounds) == 2
    assert outcome.history[-1]["content"] == "Order 4472 has been shipped."
    assert not outcome.in_progress
    assert not outcome.errors


def _answers() -> Script:
    script = order.script()
    assert isinstance(script, Script)
    return script
