# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Bots in which only some of the parts are transactional."""

from typing import Any

import pytest
from pipecat.frames.frames import (
    Frame,
    InterruptionFrame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
)
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregator,
    LLMUserAggregatorParams,
)
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.tests.utils import SleepFrame, run_test

from pipecat_turn_acid import TransactionalLLMAssistantAggregator, TransactionalLLMContext
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL
from pipecat_turn_acid.testing.conversations import correct, order
from pipecat_turn_acid.testing.sweep import sweep


class PairWithStockUser(LLMContextAggregatorPair):
    """A stock user aggregator beside a transactional assistant aggregator."""

    def __init__(
        self,
        context: TransactionalLLMContext,
        *,
        user_params: LLMUserAggregatorParams | None = None,
        **kwargs: Any,
    ):
        self._user = LLMUserAggregator(context, params=user_params, **kwargs)
        self._assistant = TransactionalLLMAssistantAggregator(context, **kwargs)


@pytest.mark.parametrize(
    "kit",
    [
        TRANSACTIONAL.but("stock service", llm=OpenAILLMService),
        TRANSACTIONAL.but("stock user aggregator", pair=PairWithStockUser),
    ],
    ids=str,
)
@pytest.mark.parametrize("conversation", [order, correct], ids=lambda c: c.name)
def test_no_barge_in_leaves_half_a_round(kit, conversation):
    """What a bot has of the drop-ins protects what it can reach."""
    report = sweep(conversation, kit, sample=20)

    damage = {str(v.trial): v.faults for v in report.verdicts}
    kinds = {f.kind.value for faults in damage.values() for f in faults}
    assert not kinds & {"refused", "placeholder", "half round", "no answer", "stuck"}, damage


async def test_an_answer_after_an_interruption_is_kept_where_nobody_begins_turns(virtual_time):
    """An assistant aggregator that stands alone hears of interruptions, and never of turns."""
    context = TransactionalLLMContext()
    aggregator = TransactionalLLMAssistantAggregator(context)
    frames: list[Frame] = [
        LLMFullResponseStartFrame(),
        LLMTextFrame("Refunds take"),
        SleepFrame(),
        InterruptionFrame(),
        LLMFullResponseStartFrame(),
        LLMTextFrame("We are open until five."),
        LLMFullResponseEndFrame(),
    ]

    await run_test(aggregator, frames_to_send=frames)

    assert context.messages == [{"role": "assistant", "content": "We are open until five."}]


def test_a_run_that_the_application_asks_for_after_an_interruption_begins_a_turn():
    """A bot that was cut off by its application, not by the user, can still be told to speak."""
    context = TransactionalLLMContext()
    context.begin_turn()
    context.end_turn()

    verdict = context.admit_run(LLMContextFrame(context))

    assert verdict == "run"
    assert context.epoch == 2


def test_a_run_that_was_asked_for_before_the_interruption_stays_fenced():
    """What the user has cut off is not started by a frame that was under way."""
    context = TransactionalLLMContext()
    context.begin_turn()
    frame = LLMContextFrame(context)
    context.end_turn()

    verdict = context.admit_run(frame)

    assert verdict == "fenced"
    assert context.epoch == 1


def test_a_run_that_the_application_asks_for_while_the_user_speaks_waits():
    """The user is not spoken over, and the run is not forgotten."""
    context = TransactionalLLMContext()
    context.begin_turn()
    context.user_turn_open = True
    context.end_turn()

    verdict = context.admit_run(LLMContextFrame(context))

    assert verdict == "owed"
    assert context.owes_run
