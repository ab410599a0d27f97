# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What an application decides, and how a tool is marked."""

import dataclasses
import functools

import pytest
from pipecat.services.llm_service import FunctionCallParams

from pipecat_turn_acid import TransactionalLLMContext, TurnPolicy, side_effects
from pipecat_turn_acid._compat import DirectFunctionWrapper, FunctionSchema
from pipecat_turn_acid.policy import has_side_effects


def test_the_defaults_are_those_of_the_design():
    policy = TurnPolicy()
    assert policy.interrupted_text == "discard"
    assert policy.late_result == "deliver"
    assert policy.side_effect_tools == frozenset()


def test_a_policy_cannot_be_changed_in_mid_conversation():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TurnPolicy().late_result = "drop"  # pyright: ignore


@pytest.mark.parametrize("names", [["book"], {"book"}, ("book",)])
def test_tools_may_be_named_in_any_collection(names):
    assert TurnPolicy(side_effect_tools=names).side_effect_tools == {"book"}


async def look_up(params: FunctionCallParams):
    """Look something up."""


async def pay(params: FunctionCallParams):
    """Pay."""


@side_effects
async def book(params: FunctionCallParams, time: str):
    """Book a demo.

    Args:
        time: When.
    """


class Desk:
    @side_effects
    async def book(self, params: FunctionCallParams):
        """Book a demo."""


def decorated():
    @functools.wraps(book)
    async def logged(*args):
        return await book(*args)

    return logged


@pytest.mark.parametrize(
    "handler",
    [book, Desk().book, DirectFunctionWrapper(book), functools.partial(book), decorated()],
    ids=["function", "method", "direct function", "partial", "below a decorator"],
)
def test_a_marked_tool_is_known_whatever_is_around_it(handler):
    assert has_side_effects(handler)


@pytest.mark.parametrize("handler", [None, look_up, DirectFunctionWrapper(look_up), object()])
def test_any_other_is_not(handler):
    assert not has_side_effects(handler)


def test_marking_leaves_the_handler_itself():
    async def handler(params):
        pass

    assert side_effects(handler) is handler


def test_a_handler_that_wraps_itself_is_no_endless_search():
    async def handler():
        pass

    vars(handler)["__wrapped__"] = handler
    assert not has_side_effects(handler)


def test_the_context_knows_tools_by_the_policy_and_by_the_advertised_handlers():
    context = TransactionalLLMContext(
        tools=[
            book,
            FunctionSchema("pay", "Pay.", {}, [], handler=side_effects(pay)),
            FunctionSchema("look_up", "Look up.", {}, [], handler=look_up),
        ],
        policy=TurnPolicy(side_effect_tools=frozenset({"cancel"})),
    )
    known = {name: context.has_side_effects(name) for name in ("book", "pay", "look_up", "cancel")}
    assert known == {"book": True, "pay": True, "look_up": False, "cancel": True}
