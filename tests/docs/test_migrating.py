# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What docs/migrating.md says of pipelines of other shapes."""

import pytest
from pipecat.frames.frames import ManuallySwitchServiceFrame
from pipecat.pipeline.llm_switcher import LLMSwitcher
from pipecat.pipeline.parallel_pipeline import ParallelPipeline
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.services.openai.llm import OpenAILLMService

from pipecat_turn_acid import transactional
from pipecat_turn_acid.testing import conversations
from pipecat_turn_acid.testing.conversation import (
    STOCK,
    TRANSACTIONAL,
    At,
    play,
    usual_pipeline,
)
from pipecat_turn_acid.testing.judge import FaultKind, judge

INSTANTS = (None, At(3.3), At(3.5), At(4.0), At(4.7), At(5.47), At(5.7), At(6.5))


def with_service_in(make):
    """A conversation whose pipeline has ``make(bot)`` in place of the LLM service."""

    def assemble(bot):
        return [make(bot) if part is bot.llm else part for part in usual_pipeline(bot)]

    return conversations.order.but(assemble=assemble)


def switching(at):
    """A conversation on two services, of which the second takes over."""
    others = {}

    def switcher(bot):
        other = type(bot.llm)(api_key="scripted")
        bot.toolbox.register(other, marks=bot.kit.transactional)
        others[bot] = other
        return LLMSwitcher([bot.llm, other])

    async def switch(bot):
        await bot.queue(ManuallySwitchServiceFrame(service=others[bot]))

    return with_service_in(switcher).but(during=((at, switch),))


@pytest.mark.parametrize("instant", INSTANTS, ids=str)
@pytest.mark.parametrize("switched", (3.6, 4.2, 5.2))
def test_a_turn_may_begin_on_one_service_and_end_on_another(switched, instant):
    assert judge(play(switching(switched), TRANSACTIONAL, instant)) == []


@pytest.mark.parametrize("instant", INSTANTS, ids=str)
def test_a_parallel_pipeline_needs_no_change(instant):
    conversation = with_service_in(lambda bot: ParallelPipeline([bot.llm], []))

    assert judge(play(conversation, TRANSACTIONAL, instant)) == []


def test_the_same_instants_leave_damage_in_stock():
    """So that the tests above can fail."""
    parallel = with_service_in(lambda bot: ParallelPipeline([bot.llm], []))
    for conversation in (switching(3.6), parallel):
        found = {fault.kind for at in INSTANTS for fault in judge(play(conversation, STOCK, at))}
        assert FaultKind.PLACEHOLDER in found


@pytest.mark.parametrize(
    "kit",
    (
        TRANSACTIONAL.but(pair=LLMContextAggregatorPair, llm=OpenAILLMService),
        STOCK.but(llm=transactional(OpenAILLMService)),
    ),
    ids=("a transactional context alone", "a transactional service alone"),
)
def test_a_bot_that_is_half_migrated_works_where_nobody_interrupts(kit):
    """One import at a time."""
    outcome = play(conversations.order, kit)

    assert judge(outcome) == []
    assert outcome.history == play(conversations.order, STOCK).history


@pytest.mark.parametrize("instant", INSTANTS, ids=str)
def test_a_stock_service_under_transactional_aggregators_leaves_no_half_round(instant):
    outcome = play(conversations.order, TRANSACTIONAL.but(llm=OpenAILLMService), instant)

    found = {fault.kind for fault in judge(outcome)}
    assert not found & {
        FaultKind.PLACEHOLDER,
        FaultKind.HALF_ROUND,
        FaultKind.REFUSED,
        FaultKind.STUCK,
    }
