# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What a dropped round has written to the flow's state is taken back, and nothing else."""

import asyncio
import copy
import json

import pytest

from pipecat_turn_acid import TurnPolicy, side_effects
from pipecat_turn_acid.flow_state import FlowState
from pipecat_turn_acid.testing.conversation import STOCK, TRANSACTIONAL, At, play
from tests.flows.talk import function, node, talk


def cut(conversation, kit=TRANSACTIONAL):
    """Barge in a second after the first call was made. The handlers take two."""
    made = play(conversation, kit).requests[0].at
    return play(conversation, kit, At(made + 1.0)).found


async def choose(args, flow_manager):
    flow_manager.state["size"] = "large"
    await asyncio.sleep(2.0)
    return {"size": "large"}, node("second")


def calling(handler, **options):
    options = {"cancel_on_interruption": True, **options}
    return talk(node("first", function("choose", handler, **options)), ("choose",))


def state_after(handler, kit=TRANSACTIONAL, **options):
    return cut(calling(handler, **options), kit)


def test_a_dropped_round_leaves_nothing_in_the_state():
    """The size says large, and the caller has said never mind."""
    assert state_after(choose) == {"node": "first", "state": {}}
    assert state_after(choose, STOCK)["state"] == {"size": "large"}


def test_a_committed_round_keeps_what_it_has_written():
    found = play(calling(choose), TRANSACTIONAL).found
    assert found == {"node": "second", "state": {"size": "large"}}


def test_the_policy_keeps_what_a_dropped_round_has_written():
    kit = TRANSACTIONAL.but(policy=TurnPolicy(flow_state="keep"))
    assert state_after(choose, kit)["state"] == {"size": "large"}


def test_what_stays_on_record_keeps_what_it_has_written():
    """The history says that the call may have happened, so the state must not say that it has not."""
    assert state_after(side_effects(_copy_of(choose)))["state"] == {"size": "large"}


def test_a_call_that_outlives_its_turn_keeps_what_it_has_written():
    found = state_after(choose, cancel_on_interruption=False)
    assert found == {"node": "first", "state": {"size": "large"}}


def test_a_value_that_somebody_else_has_written_since_stands():
    async def handler(args, flow_manager):
        flow_manager.state["size"] = "large"
        await asyncio.sleep(2.0)

    async def measure(bot):
        bot.flow_manager.state["size"] = "measured"

    made = play(calling(handler), TRANSACTIONAL).requests[0].at
    found = cut(calling(handler).but(during=((made + 0.7, measure),)))
    assert found["state"] == {"size": "measured"}


def test_live_objects_are_left_alone():
    log = []

    async def handler(args, flow_manager):
        flow_manager.state["log"].append("large")
        await asyncio.sleep(2.0)

    async def connect(bot):
        log.clear()
        bot.flow_manager.state["log"] = log

    found = cut(calling(handler).but(during=((0.1, connect),)))
    assert found["state"]["log"] is log and log == ["large"]


def test_a_handler_that_ignores_its_end_writes_nothing():
    async def handler(args, flow_manager):
        try:
            await asyncio.sleep(2.0)
        except asyncio.CancelledError:
            flow_manager.state["size"] = "large"
            raise

    assert state_after(handler)["state"] == {}


def test_the_policy_names_its_choices():
    with pytest.raises(ValueError, match="flow_state='forget'"):
        TurnPolicy(flow_state="forget")  # pyright: ignore[reportArgumentType]


# --- the mapping -------------------------------------------------------------------------------


class Writer:
    def __init__(self):
        self.writes = []
        self.may = True

    def may_write(self, key):
        return self.may

    def keep(self, write):
        self.writes.append(write)


def each_way():
    """Every way in which a dict can be changed."""

    def delete(state):
        del state["a"]

    def or_update(state):
        state |= {"a": 9, "c": 9}

    return {
        "set": lambda state: state.__setitem__("a", 9),
        "set new": lambda state: state.__setitem__("c", 9),
        "delete": delete,
        "update": lambda state: state.update({"a": 9}, c=9),
        "or": or_update,
        "setdefault": lambda state: state.setdefault("c", 9),
        "pop": lambda state: state.pop("a"),
        "popitem": lambda state: state.popitem(),
        "clear": lambda state: state.clear(),
    }


@pytest.mark.parametrize("change", each_way().values(), ids=each_way())
def test_every_change_can_be_taken_back(change):
    writers: list[Writer | None] = [None]
    state = FlowState(lambda: writers[0])
    state.update(a=1, b=2)
    plain = dict(state)
    writers[0] = writer = Writer()

    change(state)
    change(plain)
    assert state == plain and writer.writes
    state.take_back(writer.writes)
    assert state == {"a": 1, "b": 2}


@pytest.mark.parametrize("change", each_way().values(), ids=each_way())
def test_a_change_that_may_not_be_made_is_not(change):
    writers: list[Writer | None] = [None]
    state = FlowState(lambda: writers[0])
    state.update(a=1, b=2)
    writers[0] = writer = Writer()
    writer.may = False

    change(state)
    assert state == {"a": 1, "b": 2} and not writer.writes


def test_it_is_a_dict_like_any_other():
    state = FlowState(lambda: None)
    state.update(a=1)
    assert isinstance(state, dict) and json.dumps(state) == '{"a": 1}'
    assert type(copy.deepcopy(state)) is dict and type(copy.copy(state)) is dict
    assert state.pop("none", 7) == 7
    for wrong in (lambda: state.pop("none"), lambda: state.__delitem__("none")):
        with pytest.raises(KeyError):
            wrong()


def _copy_of(handler):
    async def marked(args, flow_manager):
        return await handler(args, flow_manager)

    return marked
