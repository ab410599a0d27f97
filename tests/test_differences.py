# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Every intended difference from stock Pipecat, on the stock classes and on ours.

Each test is named by an entry of ``docs/differences.md``. What an entry says of stock Pipecat is
asserted on the stock classes, so that it stays true.
"""

import asyncio
import copy
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from pipecat.frames.frames import (
    EndFrame,
    FunctionCallResultProperties,
    InterruptionFrame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMMarkerFrame,
    LLMMessagesAppendFrame,
    LLMMessagesUpdateFrame,
    LLMRunFrame,
    LLMSummarizeContextFrame,
    LLMThoughtEndFrame,
    LLMThoughtStartFrame,
    LLMThoughtTextFrame,
    TTSTextFrame,
    UserImageRawFrame,
    UserImageRequestFrame,
)
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameDirection

from pipecat_turn_acid import (
    TransactionalLLMContext,
    TransactionalLLMContextAggregatorPair,
    TurnPolicy,
    side_effects,
)
from pipecat_turn_acid.core import InvalidMessageError
from pipecat_turn_acid.testing import conversations, scenarios
from pipecat_turn_acid.testing.checks import check_history, check_request
from pipecat_turn_acid.testing.conversation import (
    STOCK,
    TRANSACTIONAL,
    At,
    Conversation,
    Tick,
    describe_message,
    play,
    usual_pipeline,
)
from pipecat_turn_acid.testing.script import Script
from pipecat_turn_acid.testing.tools import Behaviour, Tool

KITS = (STOCK, TRANSACTIONAL)
LOOK_UP = (Tool("look_up", seconds=0.5),)


def setting_up(prepare):
    """The usual pipeline of a bot, once ``prepare`` has seen to it."""

    def assemble(bot):
        prepare(bot)
        return usual_pipeline(bot)

    return assemble


def one_call(*replies, tools=LOOK_UP, **changes):
    """A conversation that is written: one response with calls, then an answer."""
    script = Script()
    script.on(after_tool=tuple({name for name, _ in replies}), state=None).say("Here you are.")
    rule = script.on(user=re.compile("Look it up|Start again"))
    for name, arguments in replies:
        rule = rule.call(name, arguments)
    script.on().say("All right.")
    conversation = Conversation(
        name="one_call",
        says=("Look it up.",),
        barge_in="Never mind.",
        script=lambda: script,
        tools=tools,
        voice="text",
    )
    return conversation.but(**changes)


def looked_up(result=None, *, properties=None, times=(0.5,), **changes):
    """A conversation whose tool reports ``result``; one call for each time it takes."""
    tools = tuple(Tool(f"look_up_{n}", seconds=t) for n, t in enumerate(times))

    def prepare(bot):
        for n, tool in enumerate(tools):

            async def handle(params, tool=tool, n=n):
                run = bot.toolbox.begin(tool, params.tool_call_id, params.arguments)
                await asyncio.sleep(tool.duration({}))
                bot.toolbox.end(run, "reported", result)
                asked = properties[n] if properties else None
                await params.result_callback(result, properties=asked)

            bot.llm.register_function(tool.name, handle)

    calls = [(tool.name, {}) for tool in tools]
    return one_call(*calls, tools=tools, assemble=setting_up(prepare), **changes)


def contents(outcome, role="tool"):
    return [m["content"] for m in outcome.history if m["role"] == role and "content" in m]


def shown_at(seconds):
    """A list that grows by what the history shows at a moment, and what happens then."""
    shown = []

    async def look(bot):
        shown.append([describe_message(m) for m in bot.context.get_messages()])

    return shown, (seconds, look)


def lines(outcome):
    return [describe_message(message) for message in outcome.history]


# --- the history -----------------------------------------------------------------------------


def test_a_summary_leaves_a_round_whole():
    """Stock keeps the last messages, and with them two of the three calls of a response."""

    async def summarize(bot):
        await bot.queue(LLMSummarizeContextFrame())

    names = ("look_up_0", "look_up_1", "look_up_2")
    script = Script()
    script.on(user=re.compile("Conversation history")).say("The user wants to look things up.")
    script.on(after_tool=names, state=None).say("Here you are.")
    rule = script.on()
    for name in names:
        rule = rule.call(name)
    conversation = one_call(
        tools=tuple(map(Tool, names)), script=lambda: script, during=((4.0, summarize),)
    )
    left = []
    for kit in KITS:
        first, *rest = play(conversation, kit).history
        assert "summary" in first["content"]
        left.append(sum(len(message.get("tool_calls", ())) for message in rest))

    assert left == [2, 3]


def test_a_call_is_in_the_history_once_its_round_is_complete_and_not_before():
    """No request, no summary and no tool ever sees half of a round."""
    now = {}
    for kit in KITS:
        shown, look = shown_at(2.4)
        play(looked_up("x", times=(0.3, 0.9), during=(look,)), kit)
        now[kit.name] = shown[0]

    assert now["stock"] == [
        "user      Look it up.",
        "assistant calls look_up_0({}) [call_0001]",
        'tool      "x" [call_0001]',
        "assistant calls look_up_1({}) [call_0002]",
        "tool      IN_PROGRESS [call_0002]",
    ]
    assert now["transactional"] == ["user      Look it up."]


def test_the_calls_of_one_response_stand_in_one_message():
    """As the model made them; some providers refuse anything else."""
    stock, ours = (play(looked_up("x", times=(0.6, 0.3)), kit) for kit in KITS)

    assert [line for line in lines(stock) if "calls" in line] == [
        "assistant calls look_up_0({}) [call_0001]",
        "assistant calls look_up_1({}) [call_0002]",
    ]
    assert lines(ours)[1:4] == [
        "assistant calls look_up_0({}) [call_0001], look_up_1({}) [call_0002]",
        'tool      "x" [call_0001]',
        'tool      "x" [call_0002]',
    ]


def test_a_message_that_is_added_while_a_call_runs_stands_before_the_call():
    """A round is contiguous, so it stands where it was completed."""

    async def add(bot):
        await bot.queue(LLMMessagesAppendFrame([{"role": "developer", "content": "Be brief."}]))

    stock, ours = (play(looked_up("x", during=((2.0, add),)), kit) for kit in KITS)

    assert [m["role"] for m in stock.history[1:4]] == ["assistant", "tool", "developer"]
    assert [m["role"] for m in ours.history[1:4]] == ["developer", "assistant", "tool"]


def test_a_history_that_is_replaced_while_a_call_runs_gets_the_whole_round():
    """In stock the result finds no place, and the model calls the tool again."""

    async def replace_history(bot):
        await bot.queue(LLMMessagesUpdateFrame([{"role": "user", "content": "Start again."}]))

    stock, ours = (play(looked_up("x", during=((2.0, replace_history),)), kit) for kit in KITS)

    assert "call_0001" not in stock.transcript
    assert len(stock.runs) == 2 and len(ours.runs) == 1
    assert lines(ours)[:3] == [
        "user      Start again.",
        "assistant calls look_up_0({}) [call_0001]",
        'tool      "x" [call_0001]',
    ]


@pytest.mark.parametrize("result", ([], {}, 0, "", False), ids=repr)
def test_an_empty_result_is_kept_and_shown_to_the_model(result):
    """ "Nothing found" is an answer."""
    stock, ours = (play(looked_up(result), kit) for kit in KITS)

    assert contents(stock) == ["COMPLETED"]
    assert len(stock.requests) == 1
    assert [json.loads(content) for content in contents(ours)] == [result]
    assert len(ours.requests) == 2


def test_an_empty_result_of_a_call_that_outlives_its_turn_is_kept_too():
    tools = (Tool("look_up", result=[], seconds=0.5, cancel_on_interruption=False),)
    stock, ours = (play(one_call(("look_up", {}), tools=tools), kit) for kit in KITS)

    assert contents(stock) == ["COMPLETED"] and len(stock.requests) == 1
    assert contents(ours) == ["[]"] and len(ours.requests) == 2


def test_a_result_of_none_is_a_call_without_result_and_asks_for_no_run_as_in_stock():
    for kit in KITS:
        outcome = play(looked_up(None), kit)
        assert contents(outcome) == ["COMPLETED"]
        assert len(outcome.requests) == 1


def test_a_result_that_json_cannot_hold_is_answered_with_a_text_that_says_so():
    stock, ours = (play(looked_up({1, 2}), kit) for kit in KITS)

    assert contents(stock) == ["IN_PROGRESS"]
    assert stock.errors
    assert "result of type set could not be passed on" in contents(ours)[0]
    assert len(ours.requests) == 2 and not ours.errors


def test_a_call_that_times_out_is_answered_with_a_text_that_says_so():
    slow = Tool("look_up", seconds=30.0, timeout=0.5)
    stock, ours = (play(one_call(("look_up", {}), tools=(slow,)), kit) for kit in KITS)

    assert contents(stock) == ["CANCELLED"]
    assert contents(ours) == ['"The function `look_up` timed out and returned no result."']
    assert len(ours.requests) == 2


def test_a_call_with_side_effects_that_outlives_its_turn_and_times_out_may_have_completed():
    """Stock has the model tell the user that it was not done."""
    slow = Tool("look_up", (), 30.0, timeout=0.5, cancel_on_interruption=False, mark=side_effects)
    stock, ours = (play(one_call(("look_up", {}), tools=(slow,)), kit) for kit in KITS)
    told = [str(outcome.history) for outcome in (stock, ours)]

    assert "did not complete" in told[0] and "may have completed" not in told[0]
    assert "did not complete" not in told[1] and "It may have completed." in told[1]


def test_a_deadline_that_passes_while_the_words_before_the_call_are_said_is_kept():
    """In stock the cancellation overtakes the call, which then runs for ever."""
    stock, ours = (play(scenarios.timeout, kit) for kit in KITS)

    assert contents(stock) == ["IN_PROGRESS"] and stock.in_progress
    assert "timed out" in contents(ours)[0] and not ours.in_progress


@pytest.mark.since(1, 13)
def test_a_call_that_the_application_cancels_is_answered_with_a_text_that_says_so():
    async def cancel(bot):
        await bot.llm.cancel_function_calls()

    slow = Tool("look_up", seconds=30.0)
    conversation = one_call(("look_up", {}), tools=(slow,), during=((2.5, cancel),), limit=12.0)
    stock, ours = (play(conversation, kit) for kit in KITS)

    assert contents(stock) == ["CANCELLED"]
    assert contents(ours) == ['"The function `look_up` was cancelled and returned no result."']


def test_a_tool_that_ends_without_reporting_is_answered_with_a_text_that_says_so():
    silent = Tool("look_up", seconds=0.5, behaviour=Behaviour.NEVER_REPORTS)
    stock, ours = (play(one_call(("look_up", {}), tools=(silent,)), kit) for kit in KITS)

    assert contents(stock) == ["IN_PROGRESS"] and stock.in_progress
    assert contents(ours) == ['"The function `look_up` ended without reporting a result."']
    assert not ours.in_progress and len(ours.requests) == 2


def test_a_call_whose_arguments_are_not_json_is_answered_with_a_text_that_says_so():
    conversation = one_call(("look_up", '{"order": '), ("look_up", {}))
    stock, ours = (play(conversation, kit) for kit in KITS)

    assert contents(stock) == ['{"ok": true}']
    answer, good = contents(ours)
    assert "JSON" in answer and answer.endswith('so it was not called."')
    assert good == '{"ok": true}'


def test_a_call_whose_arguments_are_no_object_is_answered_with_a_text_that_says_so():
    """A tool takes an object, and so do the providers that are shown the call again."""
    stock, ours = (play(one_call(("look_up", "[4471]")), kit) for kit in KITS)

    assert "look_up([4471])" in lines(stock)[1] and stock.errors
    assert "look_up({})" in lines(ours)[1] and not ours.errors
    assert contents(ours)[0].endswith('so it was not called."')
    assert not ours.runs and len(ours.requests) == 2


def test_what_cannot_be_sent_is_sent_in_another_spelling():
    """Half a character, or a number that JSON does not know, would stand in every request."""
    stock, ours = (play(looked_up({"name": "M\ud83d", "price": float("nan")}), k) for k in KITS)

    assert stock.errors and len(stock.requests) == 1
    assert json.loads(contents(ours)[0]) == {"name": "M?", "price": "NaN"}
    assert len(ours.requests) == 2 and not ours.errors


def test_an_id_that_the_provider_uses_twice_is_made_unique():
    """The second call's result would stand for both."""
    script = Script()
    script.on(after_tool="look_up").say("Here you are.")
    script.on(user="first").call("look_up", {"n": "1"}, id="call_x")
    script.on(user="second").call("look_up", {"n": "2"}, id="call_x")
    conversation = Conversation(
        name="twice",
        says=("The first one.", "The second one."),
        barge_in="Never mind.",
        script=lambda: script,
        tools=(Tool("look_up", ("n",), result=lambda arguments: arguments["n"]),),
        voice="text",
    )
    stock, ours = (play(conversation, kit) for kit in KITS)

    assert contents(stock) == ['"2"', '"2"']
    assert contents(ours) == ['"1"', '"2"']
    ids = [m["tool_call_id"] for m in ours.history if m["role"] == "tool"]
    assert ids == ["call_x", "call_x-2"]


def test_a_history_with_an_orphan_is_sent_repaired():
    """One half of a call, from a store or a summary, has every request refused."""
    orphan = {
        "role": "assistant",
        "tool_calls": [
            {
                "id": "call_lost",
                "type": "function",
                "function": {"name": "look_up", "arguments": "{}"},
            }
        ],
    }

    def load(bot):
        bot.context.add_message(orphan)

    conversation = conversations.talk.but(assemble=setting_up(load), voice="text")
    stock, ours = (play(conversation, kit) for kit in KITS)

    assert stock.requests[0].status == 400
    assert ours.requests[0].status == 200
    assert not check_request(ours.requests[0].messages)
    assert orphan in ours.history


@pytest.mark.parametrize("add", ("add_message", "add_messages", "set_messages"))
def test_what_is_no_message_is_refused_where_it_is_added(add):
    """And not by the provider, at the next request."""
    wrong = "Hello" if add == "add_message" else ["Hello"]
    getattr(LLMContext(), add)(wrong)
    context = TransactionalLLMContext()

    with pytest.raises(InvalidMessageError, match="pass a dict"):
        getattr(context, add)(wrong)
    assert context.messages == []


def test_a_copy_of_a_context_has_neither_what_is_staged_nor_who_listens():
    """A copy is another conversation."""
    context = TransactionalLLMContext([{"role": "user", "content": "Hello"}])
    heard = []
    context.add_listener(heard.append)
    context.stage_assistant_tool_calls(
        [{"id": "call_1", "function": {"name": "look_up", "arguments": "{}"}}]
    )
    for duplicate in (copy.copy(context), copy.deepcopy(context)):
        before = len(heard)
        assert duplicate.messages == context.messages and not duplicate.staged
        duplicate.begin_turn()
        assert len(heard) == before


# --- what an interruption leaves -------------------------------------------------------------


def test_an_interrupted_round_leaves_no_message():
    stock, ours = (play(conversations.order, kit, At(4.0)) for kit in KITS)

    assert {"IN_PROGRESS", "CANCELLED"} & {str(c) for c in contents(stock)}
    assert stock.in_progress
    assert check_history(stock.history)
    assert not any("4471" in line and "calls" in line for line in lines(ours))
    assert not ours.in_progress
    assert not check_history(ours.history)


def test_the_words_of_an_interrupted_answer_are_not_remembered():
    stock, ours = (play(conversations.talk, kit, At(5.0)) for kit in KITS)

    assert "Refunds take fourteen days. You get an email" in contents(stock, "assistant")
    assert not any("Refunds" in content for content in contents(ours, "assistant"))
    for outcome in (stock, ours):
        stopped = [e.detail for e in outcome.events if e.name == "on_assistant_turn_stopped"]
        assert "interrupted=True" in stopped[0] and "Refunds take" in stopped[0]


@pytest.mark.since(1, 13)
def test_words_before_an_image_that_came_in_the_middle_are_not_remembered_either():
    """Pipecat writes them down when the image comes."""

    async def show(bot):
        image = UserImageRawFrame(
            image=bytes(12), size=(2, 2), format="RGB", append_to_context=True, run_llm=False
        )
        await bot.queue(image)

    conversation = conversations.talk.but(during=((5.0, show),))
    stock, ours = (play(conversation, kit, At(5.6)) for kit in KITS)

    answer = "We are open from nine to five."
    before = "Refunds take fourteen days. You get an email"
    assert contents(stock, "assistant") == [before, "when the", answer]
    assert contents(ours, "assistant") == [answer]


def test_with_interrupted_text_heard_they_are_remembered_as_in_stock():
    heard = TRANSACTIONAL.but(policy=TurnPolicy(interrupted_text="heard"))
    stock, ours = (play(conversations.talk, kit, At(5.0)) for kit in (STOCK, heard))

    assert ours.history == stock.history


@pytest.mark.parametrize(
    "straggler",
    (
        lambda: [TTSTextFrame("Straggler", "word")],
        lambda: [LLMMarkerFrame("Straggler", append_to_context_immediately=True)],
        lambda: [
            LLMThoughtStartFrame(append_to_context=True, llm="openai"),
            LLMThoughtTextFrame("Straggler"),
            LLMThoughtEndFrame(),
        ],
    ),
    ids=("word", "marker", "thought"),
)
def test_what_comes_after_the_interruption_is_in_no_later_message(straggler):
    """A word that was on its way when the user barged in is not said in the next turn."""

    async def straggle(bot):
        for frame in straggler():
            await bot.aggregators.assistant().queue_frame(frame, FrameDirection.DOWNSTREAM)

    for kit in KITS:
        shown = []

        async def look(bot, shown=shown):
            shown.append(repr(bot.context.get_messages()))

        conversation = conversations.talk.but(during=((5.5, straggle), (9.5, look)))
        outcome = play(conversation, kit, At(5.0))
        shown.append(repr(outcome.history))
        assert any("Straggler" in history for history in shown) is (kit is STOCK)


def test_an_image_that_comes_for_a_cut_call_is_not_remembered():
    """Nobody has asked for it in the turn that it would land in."""
    for kit in KITS:
        tasks = []

        def prepare(bot, tasks=tasks):
            async def look(params):
                request = UserImageRequestFrame(user_id="user", tool_call_id=params.tool_call_id)
                image = UserImageRawFrame(
                    image=b"\x00" * 12, size=(2, 2), format="RGB", append_to_context=True
                )
                image.request = request

                async def arrive():
                    await asyncio.sleep(4.0)
                    await bot.aggregators.assistant().queue_frame(image, FrameDirection.DOWNSTREAM)

                tasks.append(asyncio.create_task(arrive()))
                await asyncio.sleep(30.0)

            bot.llm.register_function("look_up", look)

        outcome = play(one_call(("look_up", {}), assemble=setting_up(prepare)), kit, At(3.0))
        remembered = any(isinstance(content, list) for content in contents(outcome, "user"))
        assert remembered is (kit is STOCK)


def test_what_a_cut_call_still_asks_for_reaches_nobody():
    """Nobody cancels what a tool has asked of others."""
    news: Any = {"role": "developer", "content": "The order is late, say so."}
    pushing = set()

    def prepare(bot):
        async def look_up(params):
            async def push():
                await asyncio.sleep(3.0)
                await params.llm.push_frame(LLMMessagesAppendFrame([news], run_llm=True))

            pushing.add(asyncio.create_task(push()))
            await asyncio.sleep(30.0)

        bot.llm.register_function("look_up", look_up)

    conversation = one_call(("look_up", {}), assemble=setting_up(prepare), limit=12.0)
    stock, ours = (play(conversation, kit, At(3.0)) for kit in KITS)

    assert news in stock.history
    assert news not in ours.history and contents(ours, "assistant") == ["All right."]


def test_a_cut_call_with_side_effects_stays_on_record():
    """The booking may have been made; the model must check before it repeats it."""
    tools = (replace(conversations.correct.tools[0], mark=side_effects),)
    conversation = conversations.correct.but(tools=tools, voice="text")
    stock, ours = (play(conversation, kit, At(2.6)) for kit in KITS)

    assert contents(stock)[0] == "CANCELLED"
    assert "INTERRUPTED" in contents(ours)[0] and "may have completed" in contents(ours)[0]
    assert "3pm" in ours.transcript.split("INTERRUPTED")[0]
    assert not check_history(ours.history)


@pytest.mark.parametrize("kit", KITS, ids=lambda kit: kit.name)
def test_the_end_of_a_session_leaves_no_half_round(kit):
    """What is stored of a call can be loaded and continued."""

    async def hang_up(bot):
        await bot.queue(EndFrame())

    conversation = looked_up("x", times=(0.2, 5.0), during=((2.5, hang_up),), limit=20.0)
    outcome = play(conversation, kit)

    assert bool(check_history(outcome.history)) is (kit is STOCK)
    assert outcome.in_progress is (kit is STOCK)

    slow = replace(scenarios.outliving.tools[0], seconds=60.0)
    conversation = scenarios.outliving.but(tools=(slow,), during=((4.0, hang_up),), limit=20.0)
    assert play(conversation, kit).in_progress is (kit is STOCK)


def test_an_interruption_does_not_wait_for_a_tool_that_does_not_stop():
    """The voice falls silent when the user speaks, whatever a tool does."""
    stubborn = replace(
        conversations.order.tools[0], seconds=3.0, behaviour=Behaviour.IGNORES_CANCELLATION
    )
    conversation = conversations.order.but(tools=(stubborn,))
    last = {}
    for kit in KITS:
        outcome = play(conversation, kit, At(4.0))
        killed = [word.at for word in outcome.heard if word.request == 0]
        last[kit.name] = max(killed) - 4.0

    assert last["transactional"] < 0.1
    assert last["stock"] > last["transactional"]


def with_a_late_copy():
    """A conversation in which an interruption of the last turn comes again, and who got it."""
    got = []

    async def come_again(bot):
        old = next(frame for frame in got if isinstance(frame, InterruptionFrame))
        got.clear()
        await bot.llm.queue_frame(old, FrameDirection.DOWNSTREAM)

    def prepare(bot):
        def note(_, frame):
            if isinstance(frame, InterruptionFrame):
                got.append(frame)

        bot.aggregators.assistant().add_event_handler("on_before_process_frame", note)

    return got, conversations.talk.but(assemble=setting_up(prepare), during=((9.0, come_again),))


def test_a_late_copy_of_an_interruption_is_not_passed_on():
    """It would cut the answer to what the user has said since."""
    for kit in KITS:
        got, conversation = with_a_late_copy()
        outcome = play(conversation, kit, At(5.0))
        answered = "We are open from nine to five." in contents(outcome, "assistant")
        assert bool(got) is (kit is STOCK)
        assert answered is (kit is TRANSACTIONAL)


# --- runs ------------------------------------------------------------------------------------


def test_a_round_causes_one_run_with_group_parallel_tools_off_too():
    """Each run would show the model calls whose results are not there yet."""
    conversation = looked_up("x", times=(0.3, 0.6), llm={"group_parallel_tools": False})
    stock, ours = (play(conversation, kit) for kit in KITS)

    assert len(stock.requests) == 3
    assert len(ours.requests) == 2


@pytest.mark.parametrize(
    "first, last, stock_runs, our_runs",
    ((True, None, 2, 1), (None, False, 0, 1), (False, True, 1, 1), (False, False, 0, 0)),
)
def test_a_round_runs_if_any_of_its_results_asks_for_it(first, last, stock_runs, our_runs):
    """In stock, the result that comes last decides for all, and others may run before it."""
    asked = [FunctionCallResultProperties(run_llm=run_llm) for run_llm in (first, last)]
    conversation = looked_up("x", properties=asked, times=(0.3, 0.6))
    stock, ours = (play(conversation, kit) for kit in KITS)

    assert len(stock.requests) - 1 == stock_runs
    assert len(ours.requests) - 1 == our_runs


@pytest.mark.parametrize(
    "frame",
    (
        lambda: LLMRunFrame(),
        lambda: LLMMessagesAppendFrame([{"role": "developer", "content": "x"}], run_llm=True),
    ),
    ids=("LLMRunFrame", "LLMMessagesAppendFrame"),
)
def test_a_run_that_is_asked_for_while_a_call_runs_is_made_with_the_rounds_own(frame):
    async def ask(bot):
        await bot.queue(frame())

    conversation = looked_up("x", during=((2.0, ask),))
    stock, ours = (play(conversation, kit) for kit in KITS)

    assert [r.status for r in stock.requests] == [200] * 3
    assert len(ours.requests) == 2
    assert contents(ours, "assistant")[-1] == "Here you are."


def test_a_run_that_is_asked_for_while_the_user_has_the_floor_waits_for_the_turns_end():
    async def ask(bot):
        await bot.queue(LLMRunFrame())

    conversation = conversations.talk.but(during=((1.0, ask),), voice="text")
    stock, ours = (play(conversation, kit) for kit in KITS)

    assert [r.last_user for r in stock.requests] == [-1, 2]
    assert [r.last_user for r in ours.requests] == [1]


def test_a_run_that_waited_for_a_user_who_said_nothing_is_made_by_itself():
    """A cough must not swallow the answer."""
    # Without Pipecat's prompt for users who were not understood, which runs the model anyway.
    quiet = conversations.order.but(user_params=lambda: {"empty_user_turn": None})
    stock, ours = (play(quiet, kit, At(4.9), false_start=True) for kit in KITS)

    assert len(stock.requests) == 1
    assert len(ours.requests) == 2
    assert contents(ours, "assistant") == ["Order 4471 has been shipped."]


def test_a_user_who_said_nothing_and_cut_a_bot_that_was_thinking_again_is_asked_to_repeat():
    """Stock takes a bot that runs on a tool's result for one that waits, and stays silent."""
    stock, ours = (play(conversations.order, kit, At(5.6), false_start=True) for kit in KITS)

    assert len(stock.requests) == 2
    assert len(ours.requests) == 3
    assert "ask them to repeat" in contents(ours, "developer")[0]


def test_a_run_that_is_asked_for_before_a_call_that_outlives_its_turn_is_written_waits_for_it():
    """The model would not find the call in the history, and would make it again."""

    async def ask(bot):
        await bot.queue(LLMRunFrame())

    conversation = scenarios.outliving.but(during=((3.6, ask),))
    stock, ours = (play(conversation, kit) for kit in KITS)

    assert len(stock.runs) == 2
    assert len(ours.runs) == 1


def test_a_run_of_a_turn_that_is_over_is_not_made_and_has_no_frames():
    """What was asked for by a turn that the user has cut never reaches the model."""
    for kit in KITS:
        seen = []

        async def ask_late(bot, seen=seen):
            frame = LLMContextFrame(context=bot.context)
            frame.metadata["turn_epoch"] = 1
            seen.clear()
            await bot.llm.queue_frame(frame, FrameDirection.DOWNSTREAM)

        def prepare(bot, seen=seen):
            bot.aggregators.assistant().add_event_handler(
                "on_before_process_frame", lambda _, frame: seen.append(type(frame))
            )

        conversation = conversations.talk.but(
            assemble=setting_up(prepare), during=((6.5, ask_late),), voice="text"
        )
        outcome = play(conversation, kit, At(2.1))

        ran = {LLMFullResponseStartFrame, LLMFullResponseEndFrame} <= set(seen)
        assert ran is (kit is STOCK)
        assert len(outcome.requests) == (3 if kit is STOCK else 2)


def test_the_second_round_of_a_turn_that_is_over_is_not_run():
    """In stock, the killed turn goes on after the correction, and there are two answers."""
    reference = play(conversations.chain, STOCK)
    asked_again = reference.requests[1].at
    ticks = [n for n, at in enumerate(reference.tick_times) if abs(at - asked_again) < 1e-6][::3]

    def answers(kit, tick):
        outcome = play(conversations.chain, kit, Tick(tick))
        asked = [r for r in outcome.requests if r.asked == conversations.chain.barge_in]
        return sum(request.final for request in asked)

    assert max(answers(STOCK, tick) for tick in ticks) == 2
    assert {answers(TRANSACTIONAL, tick) for tick in ticks} == {1}


# --- callbacks and frames --------------------------------------------------------------------


def test_on_context_updated_is_called_once_the_whole_round_is_in_the_history():
    seen = {}
    for kit in KITS:
        shown = []
        tools = (Tool("quick", seconds=0.2), Tool("slow", seconds=0.8))

        def prepare(bot, shown=shown):
            async def quick(params):
                async def updated():
                    shown.append([describe_message(m) for m in bot.context.get_messages()])

                await asyncio.sleep(0.2)
                properties = FunctionCallResultProperties(on_context_updated=updated)
                await params.result_callback("q", properties=properties)

            bot.llm.register_function("quick", quick)

        play(one_call(("quick", {}), ("slow", {}), tools=tools, assemble=setting_up(prepare)), kit)
        seen[kit.name] = shown[0]

    assert "tool      IN_PROGRESS [call_0002]" in seen["stock"]
    assert seen["transactional"][-2:] == [
        'tool      "q" [call_0001]',
        'tool      {"ok": true} [call_0002]',
    ]


def test_on_context_updated_of_a_round_that_was_rolled_back_is_not_called():
    called = {kit.name: [] for kit in KITS}
    for kit in KITS:
        tools = (Tool("quick", seconds=0.2), Tool("slow", seconds=5.0))

        def prepare(bot, kit=kit):
            async def quick(params):
                async def updated():
                    called[kit.name].append(True)

                properties = FunctionCallResultProperties(on_context_updated=updated)
                await params.result_callback("q", properties=properties)

            bot.llm.register_function("quick", quick)

        conversation = one_call(
            ("quick", {}), ("slow", {}), tools=tools, assemble=setting_up(prepare)
        )
        play(conversation, kit, At(3.0))

    assert called == {"stock": [True], "transactional": []}


def test_an_image_that_a_call_has_fetched_stands_behind_the_whole_round():
    """Between a call and its result it would have the request refused."""
    roles = {}
    for kit in KITS:
        tools = (Tool("look", seconds=0.2), Tool("slow", seconds=0.8))

        def prepare(bot):
            async def look(params):
                request = UserImageRequestFrame(
                    user_id="user",
                    tool_call_id=params.tool_call_id,
                    function_name="look",
                    result_callback=params.result_callback,
                )
                image = UserImageRawFrame(
                    image=b"\x00" * 12, size=(2, 2), format="RGB", append_to_context=True
                )
                image.request = request
                await asyncio.sleep(0.2)
                await bot.aggregators.assistant().queue_frame(image, FrameDirection.DOWNSTREAM)

            bot.llm.register_function("look", look)

        outcome = play(
            one_call(("look", {}), ("slow", {}), tools=tools, assemble=setting_up(prepare)), kit
        )
        roles[kit.name] = [m["role"] for m in outcome.history]

    assert roles["stock"][:6] == ["user", "assistant", "tool", "assistant", "tool", "user"]
    assert roles["transactional"][:5] == ["user", "assistant", "tool", "tool", "user"]


def test_frames_carry_the_turn_that_they_belong_to():
    """In the metadata, which stock Pipecat passes on and does not read."""
    for kit in KITS:
        epochs = []

        def prepare(bot, epochs=epochs):
            def note(_, frame):
                if isinstance(frame, LLMContextFrame):
                    epochs.append(frame.metadata.get("turn_epoch"))

            bot.llm.add_event_handler("on_before_process_frame", note)

        play(conversations.order.but(assemble=setting_up(prepare), voice="text"), kit)
        assert epochs == ([None, None] if kit is STOCK else [1, 1])


def test_a_pair_on_a_plain_context_works_as_stock_and_refuses_a_policy():
    """A policy that can have no effect is a mistake."""
    plain = TRANSACTIONAL.but(context=LLMContext)
    assert (
        play(conversations.order, plain).history
        == play(conversations.order, STOCK.but(llm=plain.part("llm"))).history
    )

    with pytest.raises(ValueError, match="TransactionalLLMContext"):
        TransactionalLLMContextAggregatorPair(LLMContext(), policy=TurnPolicy())
    LLMContextAggregatorPair(TransactionalLLMContext())  # stock aggregators take ours as any
