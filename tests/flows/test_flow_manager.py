# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The flow manager as an application sees it."""

import asyncio
import inspect
import textwrap
from typing import Any

import pytest
from loguru import logger
from pipecat.flows import (
    NO_RESPONSE,
    TRANSITION_IN_YAML,
    ContextStrategy,
    ContextStrategyConfig,
    Flow,
    FlowConfig,
    FlowError,
    FlowManager,
    flows_tool_options,
)
from pipecat.frames.frames import LLMRunFrame
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.services.openai.llm import OpenAILLMService

from pipecat_turn_acid import (
    TransactionalFlowManager,
    TransactionalLLMContext,
    TransactionalLLMContextAggregatorPair,
    TurnPolicy,
    side_effects,
)
from pipecat_turn_acid.testing.conversation import STOCK, TRANSACTIONAL, At, play
from pipecat_turn_acid.testing.script import Reply
from tests.flows.talk import function, node, talk


@pytest.fixture
def warnings():
    """What is logged as a warning or worse."""
    seen = []
    number = logger.add(lambda message: seen.append(message.record["message"]), level="WARNING")
    yield seen
    logger.remove(number)


class Worker:
    """As much of a worker as a flow manager asks for when it is made."""

    def set_reached_downstream_filter(self, types):
        pass

    def event_handler(self, name):
        return lambda handler: handler


def manage(pair, worker=None, **options):
    more: Any = {"llm": None, "worker": worker or Worker(), **options}
    return TransactionalFlowManager(context_aggregator=pair, **more)


def spoken(outcome):
    return [request.said for request in outcome.requests if request.final]


def developer_messages(outcome):
    return [m["content"] for m in outcome.history if m["role"] == "developer"]


def cut(conversation, kit=TRANSACTIONAL, after=0.5):
    """Barge in some time after the first call was made."""
    return play(conversation, kit, At(play(conversation, kit).requests[0].at + after))


# --- a drop-in ---------------------------------------------------------------------------------


def test_the_constructor_is_the_stock_one_and_a_policy():
    stock = inspect.signature(FlowManager).parameters
    ours = inspect.signature(TransactionalFlowManager).parameters
    assert [name for name in ours if name not in stock] == ["policy"]
    assert {name: ours[name].kind for name in stock} == {n: p.kind for n, p in stock.items()}
    assert {name: ours[name].default for name in stock} == {n: p.default for n, p in stock.items()}


def test_a_plain_context_is_warned_of_once_and_works_as_stock(warnings):
    worker = Worker()
    pair = LLMContextAggregatorPair(LLMContext())
    manager = manage(pair, worker)
    assert len(warnings) == 1 and "works as stock" in warnings[0]
    assert manager.worker is worker and type(manager.state) is dict


def test_a_policy_without_a_transactional_context_has_no_effect_and_says_so():
    pair = LLMContextAggregatorPair(LLMContext())
    with pytest.raises(ValueError, match="no effect"):
        manage(pair, policy=TurnPolicy())


def test_a_policy_is_the_conversations():
    context = TransactionalLLMContext()
    pair = TransactionalLLMContextAggregatorPair(context)
    policy = TurnPolicy(flow_state="keep")
    manage(pair, policy=policy)
    assert context.policy == policy


def test_the_worker_is_the_one_that_was_passed_in():
    worker = Worker()
    pair = TransactionalLLMContextAggregatorPair(TransactionalLLMContext())
    manager = manage(pair, worker)
    assert manager.worker is worker


@pytest.mark.parametrize("kit", (STOCK, TRANSACTIONAL), ids=lambda kit: kit.name)
def test_no_response_stays_silent(kit):
    async def quiet(args, flow_manager):
        return {"done": True}, NO_RESPONSE

    outcome = play(talk(node("first", function("quiet", quiet)), ("quiet",)), kit)
    assert spoken(outcome) == [] and "done" in outcome.transcript


@pytest.mark.parametrize("cancel", (True, False))
def test_no_response_beside_a_function_that_wants_one_gives_one(cancel):
    async def quiet(args, flow_manager):
        await asyncio.sleep(0.5)
        return {"done": True}, NO_RESPONSE

    async def loud(args, flow_manager):
        return {"found": True}, None

    options = {"cancel_on_interruption": cancel}
    first = node("first", function("quiet", quiet, **options), function("loud", loud, **options))
    assert spoken(play(talk(first, ("loud", "quiet")), TRANSACTIONAL)) == ["Here is first."]


@pytest.mark.parametrize("kit", (STOCK, TRANSACTIONAL), ids=lambda kit: kit.name)
def test_a_node_that_does_not_respond_immediately_waits_for_the_user(kit):
    async def go(args, flow_manager):
        return {}, node("second", respond_immediately=False)

    outcome = play(talk(node("first", function("go", go)), ("go",)), kit)
    assert outcome.found["node"] == "second" and spoken(outcome) == []


def test_direct_functions_and_yaml_work_unchanged():
    async def choose(flow_manager, size: str = "large"):
        """Choose a size.

        Args:
            size: A size.
        """
        flow_manager.state["size"] = size
        return {"size": size}, TRANSITION_IN_YAML

    flow = Flow(
        FlowConfig.from_yaml(
            textwrap.dedent("""
                initial_node: first
                nodes:
                  first:
                    task_messages: [{role: developer, content: You are at first.}]
                    functions:
                      - name: choose
                        transition_to: {field: size, cases: {large: second}}
                  second:
                    task_messages: [{role: developer, content: "You are at second. {{ size }}"}]
            """)
        ),
        handlers={"choose": choose},
    )
    outcome = play(talk(flow.initial_node, ("choose",)), TRANSACTIONAL)
    assert outcome.found == {"node": "second", "state": {"size": "large"}}
    assert "You are at second. large" in developer_messages(outcome)
    assert spoken(outcome) == ["Here is second."]


# --- decisions ---------------------------------------------------------------------------------


def test_of_two_edges_the_first_in_model_order_wins_and_the_other_is_reported():
    async def slow(args, flow_manager):
        await asyncio.sleep(0.5)
        return {}, node("second")

    async def quick(args, flow_manager):
        return {}, node("third")

    first = node("first", function("slow", slow), function("quick", quick))
    outcome = play(talk(first, ("slow", "quick")), TRANSACTIONAL)
    assert outcome.found["node"] == "second" and spoken(outcome) == ["Here is second."]
    fenced = [event.detail for event in outcome.events if event.name == "on_stale_fenced"]
    assert len(fenced) == 1
    assert "kind='transition'" in fenced[0] and "comes first in the response" in fenced[0]


def test_a_transition_that_comes_too_late_is_told_to_the_model_and_does_not_fire_later():
    async def go(args, flow_manager):
        await asyncio.sleep(1.0)
        return {}, node("second")

    outcome = cut(talk(node("first", function("go", go)), ("go",)))
    assert outcome.found["node"] == "first"
    assert any("has not moved the conversation" in text for text in developer_messages(outcome))
    fenced = [event.detail for event in outcome.events if event.name == "on_stale_fenced"]
    assert any("kind='transition'" in detail for detail in fenced)


STOCK_SERVICE = TRANSACTIONAL.but("stock service", llm=OpenAILLMService)


@pytest.mark.parametrize("kit", (TRANSACTIONAL, STOCK_SERVICE), ids=lambda kit: kit.name)
def test_a_round_that_ends_while_a_node_is_entered_leads_on_from_there_in_one_run(kit):
    """The caller is not told of two steps, nor of the last one twice."""

    async def slow(args, flow_manager):
        await asyncio.sleep(1.5)
        return {}, node("second", pre_actions=[{"type": "wait", "handler": wait}])

    async def wait(action, flow_manager):
        await asyncio.sleep(1.0)

    async def quick(args, flow_manager):
        await asyncio.sleep(0.3)
        return {}, node("third")

    async def run(bot):
        await bot.queue(LLMRunFrame())

    def answer(request):
        if "at third." in request.system:
            return Reply().say("Here is third.")
        return Reply().call("quick" if request.calls else "slow", {})

    first = node("first", function("slow", slow), function("quick", quick))
    conversation = talk(first, (), during=((2.5, run),)).but(script=lambda: answer)
    outcome = play(conversation, kit)

    assert outcome.found["node"] == "third" and spoken(outcome) == ["Here is third."]
    assert developer_messages(outcome)[-2:] == ["You are at second.", "You are at third."]


def test_a_handler_that_sets_a_node_decides_with_its_round():
    seen = []

    async def go(args, flow_manager):
        await flow_manager.set_node_from_config(node("second"))
        seen.append(flow_manager.current_node)
        return {}, None

    outcome = play(talk(node("first", function("go", go)), ("go",)), TRANSACTIONAL)
    assert seen == ["first"]
    assert outcome.found["node"] == "second" and spoken(outcome) == ["Here is second."]


def test_a_handler_that_sets_a_node_and_fails_stays():
    async def go(args, flow_manager):
        await flow_manager.set_node_from_config(node("second"))
        raise RuntimeError("out of order")

    outcome = play(talk(node("first", function("go", go)), ("go",)), TRANSACTIONAL)
    assert outcome.found["node"] == "first" and spoken(outcome) == ["Here is first."]
    assert "out of order" in outcome.transcript


def test_a_handler_that_sets_a_node_and_is_cut_stays():
    async def go(args, flow_manager):
        await flow_manager.set_node_from_config(node("second"))
        await asyncio.sleep(2.0)
        return {}, None

    first = node("first", function("go", go, cancel_on_interruption=True))
    outcome = cut(talk(first, ("go",)))
    assert outcome.found["node"] == "first" and not any(
        "second" in r.said for r in outcome.requests
    )


def test_a_handler_learns_that_the_node_it_sets_cannot_be_entered():
    errors = []

    async def go(args, flow_manager):
        try:
            await flow_manager.set_node_from_config(node("second", "not a function"))
        except FlowError as error:
            errors.append(str(error))
        return {}, None

    outcome = play(talk(node("first", function("go", go)), ("go",)), TRANSACTIONAL)
    assert len(errors) == 1 and "second" in errors[0]
    assert outcome.found["node"] == "first" and spoken(outcome) == ["Here is first."]


def test_the_last_node_that_a_handler_names_counts():
    async def go(args, flow_manager):
        await flow_manager.set_node_from_config(node("second"))
        return {}, node("third")

    outcome = play(talk(node("first", function("go", go)), ("go",)), TRANSACTIONAL)
    assert outcome.found["node"] == "third" and spoken(outcome) == ["Here is third."]
    assert "You are at second." not in developer_messages(outcome)


def test_the_application_may_set_a_node_at_any_time():
    async def move(bot):
        await bot.flow_manager.set_node_from_config(node("third"))

    async def wait(args, flow_manager):
        await asyncio.sleep(3.0)
        return {}, node("second")

    conversation = talk(node("first", function("wait", wait)), ("wait",))
    made = play(conversation, TRANSACTIONAL).requests[0].at
    outcome = play(conversation.but(during=((made + 1.0, move),)), TRANSACTIONAL)
    assert outcome.found["node"] == "second", "what is decided later counts"

    conversation = talk(node("first"), ())
    outcome = play(conversation.but(during=((made + 1.0, move),)), TRANSACTIONAL)
    assert outcome.found["node"] == "third" and spoken(outcome)[-1] == "Here is third."


# --- nodes that cannot be entered --------------------------------------------------------------


async def refuse(action, flow_manager):
    raise RuntimeError("the till is out of order")


BROKEN = {
    "missing key": node("second")
    | {"task_messages": [{"role": "developer", "content": "{{ a }}"}]},
    "no function": node("second", "not a function"),
    "no messages": {"name": "second", "functions": []},
    "wrong messages": node("second") | {"task_messages": ["You are at second."]},
    "unknown action": node("second", pre_actions=[{"type": "dance"}]),
    "action without a type": node("second", post_actions=[{"text": "Hello."}]),
    "wrong strategy": node("second", context_strategy="reset"),
    "failing action": node("second", pre_actions=[{"type": "refuse", "handler": refuse}]),
}


@pytest.mark.parametrize("cancel", (True, False))
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_node_that_cannot_be_entered_changes_nothing_and_the_model_is_told(broken, cancel):
    async def go(args, flow_manager):
        return {"gone": True}, broken

    first = node("first", function("go", go, cancel_on_interruption=cancel))
    outcome = play(talk(first, ("go",)), TRANSACTIONAL)
    assert outcome.found["node"] == "first"
    assert [set(request.tools) for request in outcome.requests] == [{"go"}, {"go"}]
    assert '{"gone": true}' in outcome.transcript, "the round stays committed"
    assert "You are at second." not in outcome.transcript
    assert sum("could not be entered" in text for text in developer_messages(outcome)) == 1
    assert spoken(outcome) == ["Here is first."]
    assert len(outcome.errors) == 1 and "on_round_committed" in outcome.errors[0]


def test_what_is_wrong_with_a_node_is_found_before_its_actions_run():
    done = []

    async def note(action, flow_manager):
        done.append(action["type"])

    async def go(args, flow_manager):
        pre_actions = [{"type": "note", "handler": note}]
        return {}, node("second", context_strategy="reset", pre_actions=pre_actions)

    outcome = play(talk(node("first", function("go", go)), ("go",)), TRANSACTIONAL)
    assert outcome.found["node"] == "first" and done == []


def test_a_node_that_cannot_be_entered_leaves_the_actions_of_the_one_before():
    """What waits for the next response of the node waits for it still."""
    done = []

    async def note(action, flow_manager):
        done.append(action["type"])

    async def go(args, flow_manager):
        return {}, node("second", pre_actions=[{"type": "refuse", "handler": refuse}])

    first = node("first", function("go", go), post_actions=[{"type": "note", "handler": note}])
    play(talk(first, ("go",)), TRANSACTIONAL)
    assert done == ["note"]


def test_a_post_action_that_fails_leaves_the_node_entered_and_is_reported():
    async def go(args, flow_manager):
        return {}, node("second", post_actions=[{"type": "refuse", "handler": refuse}])

    outcome = play(talk(node("first", function("go", go)), ("go",)), TRANSACTIONAL)
    assert outcome.found["node"] == "second" and spoken(outcome) == ["Here is second."]
    assert len(outcome.errors) == 1 and "out of order" in outcome.errors[0]


def test_a_summary_that_fails_does_not_change_the_node_for_the_next_time():
    strategy = ContextStrategyConfig(ContextStrategy.RESET_WITH_SUMMARY, "Summarize.")

    async def go(args, flow_manager):
        return {}, node("second", context_strategy=strategy)

    async def break_down(bot):
        async def run_inference(*args, **kwargs):
            return None

        bot.llm.run_inference = run_inference

    conversation = talk(node("first", function("go", go)), ("go",), during=((0.1, break_down),))
    outcome = play(conversation, TRANSACTIONAL)
    assert outcome.found["node"] == "second" and "Go." in outcome.transcript
    assert strategy.strategy is ContextStrategy.RESET_WITH_SUMMARY


# --- side effects ------------------------------------------------------------------------------


def marked(kind):
    """A function that is marked and takes a while, written in one of Flows' ways."""

    @side_effects
    async def handler(args, flow_manager):
        await asyncio.sleep(2.0)
        return {}, None

    @side_effects
    @flows_tool_options(cancel_on_interruption=True)
    async def order(flow_manager):
        """Order."""
        await asyncio.sleep(2.0)
        return {}, TRANSITION_IN_YAML if kind == "yaml" else None

    if kind == "schema":
        return node("first", function("order", handler, cancel_on_interruption=True))
    if kind == "direct":
        return node("first", order)
    text = """
        initial_node: first
        nodes:
          first:
            task_messages: [{role: developer, content: You are at first.}]
            functions: [{name: order}]
    """
    config = FlowConfig.from_yaml(textwrap.dedent(text))
    return Flow(config, handlers={"order": order}).initial_node


@pytest.mark.parametrize("kind", ("schema", "direct", "yaml"))
def test_a_marked_function_that_is_cut_stays_on_record(kind):
    outcome = cut(talk(marked(kind), ("order",)))
    assert "INTERRUPTED" in outcome.transcript


# --- RESET -------------------------------------------------------------------------------------


async def take_long(action, flow_manager):
    await asyncio.sleep(4.0)


def resetting(strategy=ContextStrategy.RESET, prompt=None):
    async def go(args, flow_manager):
        return {"gone": True}, node(
            "second",
            context_strategy=ContextStrategyConfig(strategy, prompt),
            pre_actions=[{"type": "take_long", "handler": take_long}],
        )

    return talk(node("first", function("go", go)), ("go",))


def test_a_reset_wipes_what_was_there_and_never_what_the_user_has_said_since():
    """The user speaks while the node is being entered."""
    stock, ours = (cut(resetting(), kit, after=1.0) for kit in (STOCK, TRANSACTIONAL))
    assert "Never mind." not in stock.transcript
    assert [(m["role"], m["content"]) for m in ours.history[:2]] == [
        ("developer", "You are at second."),
        ("user", "Never mind."),
    ]
    assert "gone" not in ours.transcript and "Go." not in ours.transcript
    assert spoken(ours) == ["Here is second."]


def test_a_reset_with_summary_keeps_what_the_user_has_said_since_too():
    conversation = resetting(ContextStrategy.RESET_WITH_SUMMARY, "Summarize.")
    outcome = cut(conversation, after=1.0)
    assert "summary of the conversation" in outcome.history[0]["content"]
    assert [m["content"] for m in outcome.history if m["role"] == "user"] == ["Never mind."]


def test_an_interrupted_action_does_not_stop_a_transition():
    """Stock waits for ever for an action that an interruption has swept away."""

    async def go(args, flow_manager):
        return {}, node("second", pre_actions=[{"type": "tts_say", "text": "One moment please."}])

    stock, ours = (
        cut(talk(node("first", function("go", go)), ("go",)), kit, after=1.2)
        for kit in (STOCK, TRANSACTIONAL)
    )
    assert stock.found["node"] == "first"
    assert ours.found["node"] == "second" and spoken(ours) == ["Here is second."]
