# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The mixin and the classes that are made with it."""

import asyncio
import dataclasses
import inspect

import pytest
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.llm import OpenAILLMService

from pipecat_turn_acid import (
    TransactionalLLMMixin,
    TransactionalOpenAILLMService,
    side_effects,
    transactional,
)
from pipecat_turn_acid._compat import FunctionSchema
from pipecat_turn_acid.testing import conversations
from pipecat_turn_acid.testing.checks import check_history
from pipecat_turn_acid.testing.conversation import STOCK, TRANSACTIONAL, At, play

ORDER = conversations.order


def test_transactional_gives_a_class_of_the_same_shape():
    made = transactional(OpenAILLMService)
    assert made.__name__ == "TransactionalOpenAILLMService"
    assert issubclass(made, TransactionalLLMMixin)
    assert issubclass(made, OpenAILLMService)
    assert inspect.signature(made.__init__) == inspect.signature(OpenAILLMService.__init__)
    assert made.Settings is OpenAILLMService.Settings


def test_transactional_gives_the_same_class_each_time():
    assert transactional(OpenAILLMService) is transactional(OpenAILLMService)


def test_what_is_transactional_already_comes_back_as_it_is():
    assert transactional(TransactionalOpenAILLMService) is TransactionalOpenAILLMService


@pytest.mark.parametrize("instant", [None, At(3.9), At(4.5)])
def test_a_made_class_does_what_our_own_does(instant):
    made = TRANSACTIONAL.but("made", llm=transactional(OpenAILLMService))
    assert play(ORDER, made, instant).history == play(ORDER, TRANSACTIONAL, instant).history


@pytest.mark.parametrize("instant", [None, At(3.9), At(4.2)])
def test_on_a_plain_context_the_service_is_the_stock_one(instant):
    plain = STOCK.but("plain", llm=TransactionalOpenAILLMService)
    ours, stock = play(ORDER, plain, instant), play(ORDER, STOCK, instant)
    assert ours.history == stock.history
    assert [r.messages for r in ours.requests] == [r.messages for r in stock.requests]


class RealtimeService(OpenAILLMService):
    """A service that says of itself that it keeps its own turns."""

    def service_metadata_frame(self):
        return dataclasses.replace(super().service_metadata_frame(), is_realtime_service=True)


@pytest.mark.parametrize("context", [None, LLMContext], ids=["our context", "plain context"])
def test_a_realtime_service_passes_through_untouched(context):
    """It keeps its own turns; ours would only be in its way."""
    stock = STOCK.but("stock", llm=RealtimeService)
    ours = TRANSACTIONAL.but("ours", llm=transactional(RealtimeService))
    if context:
        ours = ours.but(context=context)
    conversation = ORDER.but(voice="text", limit=20.0)
    theirs, mine = play(conversation, stock), play(conversation, ours)
    assert mine.history == theirs.history
    assert len(mine.requests) == len(theirs.requests)
    assert not [e for e in mine.events if e.name.startswith(("on_turn", "on_round"))]


# --- handlers that the context advertises ----------------------------------------------------------


def advertising(*tools):
    async def prepare(bot):
        bot.context.set_tools(list(tools))

    return ORDER.but(tools=(), prepare=prepare, voice="text")


def direct_tool(calls, *, marked=False, seconds=0.8):
    async def get_order_status(params: FunctionCallParams, order_id: str):
        """Look up an order.

        Args:
            order_id: Its number.
        """
        calls.append(order_id)
        await asyncio.sleep(seconds)
        await params.result_callback({"order_id": order_id, "status": "shipped"})

    return side_effects(get_order_status) if marked else get_order_status


def in_schema(function):
    async def handle(params: FunctionCallParams):
        await function(params, **params.arguments)

    properties = {"order_id": {"type": "string"}}
    return FunctionSchema("get_order_status", "Look up.", properties, ["order_id"], handler=handle)


@pytest.mark.parametrize("wrap", [lambda f: f, in_schema], ids=["direct function", "schema"])
def test_an_advertised_handler_is_recorded_at_the_source_in_every_turn(wrap):
    """It is registered anew when it changes, and must not be taken for changed by our wrapping."""
    calls: list[str] = []
    conversation = advertising(wrap(direct_tool(calls)))
    conversation = conversation.but(says=("Status of 4471?", "And of 4473?"))
    outcome = play(conversation, TRANSACTIONAL)
    assert calls == ["4471", "4473"]
    assert [m["role"] for m in outcome.history].count("tool") == 2
    assert check_history(outcome.history) == []


@pytest.mark.parametrize(("marked", "kept"), [(True, 1), (False, 0)])
def test_a_direct_function_can_be_marked(marked, kept):
    calls: list[str] = []
    conversation = advertising(direct_tool(calls, marked=marked))
    begun = play(conversation, TRANSACTIONAL).requests[0].finished_at
    assert begun is not None
    outcome = play(conversation, TRANSACTIONAL, At(begun + 0.4))
    assert calls[-2:] == ["4471", "4472"]
    interrupted = [m for m in outcome.history if "may have completed" in str(m.get("content"))]
    assert len(interrupted) == kept
    assert check_history(outcome.history) == []
