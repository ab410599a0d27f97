# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What we lean on behind Pipecat's private names, seam by seam, watched on the stock classes.

Stock bots hold conversations while every method of `SEAMS` is spied on and every attribute is looked
at in an instant that matters. A name that stays and comes to mean something else fails here.
"""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from pipecat.flows import FlowManager
from pipecat.flows.actions import ActionManager
from pipecat.frames.frames import (
    EndFrame,
    FunctionCallResultProperties,
    InterruptionFrame,
    LLMContextFrame,
    LLMMarkerFrame,
    LLMMessagesAppendFrame,
    LLMRunFrame,
    LLMThoughtEndFrame,
    LLMThoughtStartFrame,
    LLMThoughtTextFrame,
    UserImageRawFrame,
    UserImageRequestFrame,
)
from pipecat.processors.aggregators import async_tool_messages
from pipecat.processors.aggregators.llm_response_universal import (
    LLMAssistantAggregator,
    LLMContextAggregator,
    LLMContextAggregatorPair,
    LLMUserAggregator,
)
from pipecat.processors.frame_processor import FrameDirection
from pipecat.services.llm_service import (
    FunctionCallRegistryItem,
    LLMService,
)
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.turns.types import UserTurnSpeculation
from pipecat.turns.user_mute import AlwaysUserMuteStrategy

from pipecat_turn_acid import _compat
from pipecat_turn_acid._compat import DirectFunctionWrapper
from pipecat_turn_acid.testing import conversations, scenarios
from pipecat_turn_acid.testing.conversation import STOCK, At, Conversation, Outcome, play
from pipecat_turn_acid.testing.script import Script

OWNERS: dict[str, type] = {
    owner.__name__: owner
    for owner in (
        LLMService,
        LLMContextAggregator,
        LLMUserAggregator,
        LLMAssistantAggregator,
        FlowManager,
        ActionManager,
    )
}


# --- the spies ---------------------------------------------------------------------------------


@dataclass
class Seen:
    """One call of a private method."""

    seam: str
    arguments: dict[str, Any]
    task: Any
    history: list[Any]
    returned: Any = None


@dataclass
class Case:
    """A conversation that was watched."""

    outcome: Outcome
    seen: list[Seen] = field(default_factory=list)

    def calls(self, seam: str) -> list[Seen]:
        return [one for one in self.seen if one.seam == seam]


def spied(owner: type, part: type, case: Case) -> type:
    """A class whose private methods note that they are called, and do what they did."""

    def spy(name: str) -> Any:
        original: Any = getattr(part, name)
        signature = inspect.signature(original)

        def note(self: Any, args: Any, kwargs: Any) -> Seen:
            arguments = dict(signature.bind(self, *args, **kwargs).arguments)
            del arguments["self"]
            context = getattr(self, "_context", None)
            history = (
                [dict(m) for m in context.get_messages() if isinstance(m, dict)] if context else []
            )
            try:
                task = asyncio.current_task()
            except RuntimeError:
                task = None
            case.seen.append(Seen(f"{owner.__name__}.{name}", arguments, task, history))
            return case.seen[-1]

        async def awaited(self: Any, *args: Any, **kwargs: Any) -> Any:
            seen = note(self, args, kwargs)
            seen.returned = await original(self, *args, **kwargs)
            return seen.returned

        def called(self: Any, *args: Any, **kwargs: Any) -> Any:
            seen = note(self, args, kwargs)
            seen.returned = original(self, *args, **kwargs)
            return seen.returned

        return awaited if inspect.iscoroutinefunction(original) else called

    names = [
        s.name for s in _compat.SEAMS if s.owner == owner.__name__ and s.parameters is not None
    ]
    return type(part.__name__, (part,), {name: spy(name) for name in names})


def watch(conversation: Conversation, instant: At | None = None) -> Case:
    """Play on stock classes that are spied on."""
    case = Case(None)  # pyright: ignore[reportArgumentType]
    base = spied(LLMContextAggregator, LLMUserAggregator, case)
    user = spied(LLMUserAggregator, base, case)
    assistant = spied(LLMAssistantAggregator, LLMAssistantAggregator, case)
    llm = spied(LLMService, OpenAILLMService, case)

    class Pair(LLMContextAggregatorPair):
        def __init__(self, context: Any, **params: Any):
            super().__init__(context)
            self._user = user(context, params=params["user_params"])
            self._assistant = assistant(context, _paired_user_aggregator=self._user)

    case.outcome = play(conversation, STOCK.but(pair=Pair, llm=llm), instant)
    return case


def told(messages: Sequence[Any]) -> Callable[[Any], Any]:
    """Send frames through the pipeline, or to the assistant aggregator."""

    async def tell(bot: Any) -> None:
        for message in messages:
            await bot.aggregators.assistant().queue_frame(message, FrameDirection.DOWNSTREAM)

    return tell


def image_conversation() -> Conversation:
    script = Script()
    script.on(user="Look.").call("look")
    script.on().say("A cat.")

    async def prepare(bot: Any) -> None:
        async def look(params: Any) -> None:
            request = UserImageRequestFrame("user", tool_call_id=params.tool_call_id)
            request.result_callback = params.result_callback
            frame = UserImageRawFrame(
                image=b"\xff\xd8",
                size=(1, 1),
                format="image/jpeg",
                user_id="user",
                request=request,
                append_to_context=True,
            )
            await asyncio.sleep(0.1)
            await bot.aggregators.assistant().queue_frame(frame)

        bot.llm.register_function("look", look)

    return Conversation("image", ("Look.",), "", lambda: script, prepare=prepare, voice="text")


def thinks() -> Conversation:
    async def think(bot: Any) -> None:
        for frame in (
            LLMThoughtStartFrame(append_to_context=True, llm="openai"),
            LLMThoughtTextFrame("Hm."),
            LLMThoughtEndFrame(signature="s"),
            LLMMarkerFrame("◐", append_to_context_immediately=True),
        ):
            await bot.aggregators.assistant().queue_frame(frame)

    return conversations.talk.but(during=((0.5, think),), voice="text")


def speculates() -> Conversation:
    async def speculate(bot: Any) -> None:
        await bot.aggregators.user()._run_speculative_inference(UserTurnSpeculation(text="Refunds"))

    return conversations.talk.but(during=((0.5, speculate),), voice="text")


def updates() -> Conversation:
    """A tool whose result comes with an ``on_context_updated``."""
    script = Script()
    script.on(after_tool="look_up").say("Done.")
    script.on().call("look_up")

    async def prepare(bot: Any) -> None:
        async def look_up(params: Any) -> None:
            async def updated() -> None:
                pass

            properties = FunctionCallResultProperties(on_context_updated=updated)
            await params.result_callback({"ok": True}, properties=properties)

        bot.llm.register_function("look_up", look_up)

    return Conversation("updates", ("Go.",), "", lambda: script, prepare=prepare, voice="text")


def sends(*frames: Any, at: float = 0.5) -> Conversation:
    return conversations.talk.but(during=((at, told(frames)),), voice="text")


async def run_by_hand(bot: Any) -> None:
    await bot.queue(LLMRunFrame())


@cache
def case(name: str) -> Case:
    order = conversations.order
    return {
        "order": lambda: watch(order),
        "cut": lambda: watch(order, At(3.7)),
        "cut in mid-sentence": lambda: watch(order, At(4.2)),
        "parallel": lambda: watch(conversations.parallel),
        "in turn": lambda: watch(scenarios.in_turn),
        "timeout": lambda: watch(scenarios.timeout),
        "outliving": lambda: watch(scenarios.outliving),
        "append": lambda: watch(
            sends(LLMMessagesAppendFrame([{"role": "developer", "content": "Be brief."}]))
        ),
        "run": lambda: watch(conversations.talk.but(during=((0.5, run_by_hand),), voice="text")),
        "image": lambda: watch(image_conversation()),
        "thinks": lambda: watch(thinks()),
        "speculates": lambda: watch(speculates()),
        "updates": lambda: watch(updates()),
        "ends": lambda: watch(scenarios.ends, At(5.0)),
    }[name]()


# --- methods: when they are called, with what ----------------------------------------------------

Check = Callable[[list[Seen], Case], bool]


def ids(seen: Seen) -> list[str]:
    return [item.tool_call_id for item in seen.arguments["runner_items"]]


def frames(calls: list[Seen]) -> list[str]:
    return [type(one.arguments["frame"]).__name__ for one in calls]


CALLED: dict[str, tuple[str, Check]] = {
    "LLMService._run_parallel_function_calls": (
        "parallel",
        lambda calls, _: [ids(one) for one in calls] == [["call_0001", "call_0002"]],
    ),
    "LLMService._run_sequential_function_calls": (
        "in turn",
        lambda calls, _: [ids(one) for one in calls] == [["call_0001", "call_0002"]],
    ),
    "LLMService._run_function_call": (
        "parallel",
        lambda calls, _: len({id(one.task) for one in calls}) == len(calls) == 2,
    ),
    "LLMService._broadcast_function_call_cancelled": (
        "timeout",
        lambda calls, _: (
            [one.arguments.get("run_llm") for one in calls] == [True] * len(calls)
            and len(calls) > 0
        ),
    ),
    "LLMService._handle_interruptions": (
        "cut",
        lambda calls, _: (
            len(calls) == 2 and all(isinstance(o.arguments["_"], InterruptionFrame) for o in calls)
        ),
    ),
    "LLMService._cancel_function_call_tasks": (
        "cut",
        lambda calls, _: (
            [o.arguments["reason"] for o in calls] == ["interruption"] * len(calls)
            and any(o.returned for o in calls)
        ),
    ),
    "LLMContextAggregator._get_context_frame": (
        "order",
        lambda calls, _: (
            len(calls) >= 1 and all(isinstance(one.returned, LLMContextFrame) for one in calls)
        ),
    ),
    "LLMUserAggregator._on_user_turn_started": (
        "cut",
        lambda calls, c: (
            len(calls) == len(c.outcome.turns) == 2
            and all(one.arguments["params"].enable_interruptions for one in calls)
        ),
    ),
    "LLMUserAggregator._on_user_turn_stopped": (
        "cut",
        lambda calls, c: (
            len(calls) == len(c.outcome.stops) == 2
            and not any(one.arguments["params"].confirms_speculation for one in calls)
        ),
    ),
    "LLMUserAggregator._maybe_emit_user_turn_stopped": (
        "ends",
        lambda calls, _: (
            any(one.arguments.get("on_session_end") for one in calls)
            and not all(one.arguments.get("on_session_end") for one in calls)
        ),
    ),
    "LLMUserAggregator._push_aggregation": (
        "cut",
        lambda calls, _: (
            [one.returned for one in calls if one.returned]
            == ["What is the status of order 4471?", "Sorry, I meant order 4472."]
        ),
    ),
    "LLMUserAggregator._run_speculative_inference": (
        "speculates",
        lambda calls, c: (
            [one.arguments["speculation"].text for one in calls] == ["Refunds"]
            and c.outcome.requests[0].asked == "Refunds"
            and not any(m.get("content") == "Refunds" for m in c.outcome.history)
        ),
    ),
    "LLMUserAggregator._handle_llm_run": (
        "run",
        lambda calls, _: frames(calls) == ["LLMRunFrame"],
    ),
    "LLMAssistantAggregator._add_aggregation_to_context": (
        "order",
        lambda calls, _: (
            [one.returned for one in calls if one.returned]
            == ["Let me check 4471 for you.", "Order 4471 has been shipped."]
        ),
    ),
    "LLMAssistantAggregator._handle_function_calls_started": (
        "parallel",
        lambda calls, _: (
            [[f.tool_call_id for f in o.arguments["frame"].function_calls] for o in calls]
            == [["call_0001", "call_0002"]]
        ),
    ),
    "LLMAssistantAggregator._handle_function_call_in_progress": (
        "parallel",
        lambda calls, _: (
            len({one.arguments["frame"].group_id for one in calls}) == 1 and len(calls) == 2
        ),
    ),
    "LLMAssistantAggregator._handle_function_call_result": (
        "order",
        lambda calls, _: (
            [one.arguments["frame"].result for one in calls]
            == [{"order_id": "4471", "status": "shipped"}]
        ),
    ),
    "LLMAssistantAggregator._handle_function_call_cancel": (
        "cut",
        lambda calls, _: [one.arguments["frame"].tool_call_id for one in calls] == ["call_0001"],
    ),
    "LLMAssistantAggregator._handle_llm_messages_append": (
        "append",
        lambda calls, _: frames(calls) == ["LLMMessagesAppendFrame"],
    ),
    "LLMAssistantAggregator._handle_llm_start": (
        "order",
        lambda calls, c: len(calls) == len(c.outcome.requests) == 2,
    ),
    "LLMAssistantAggregator._handle_llm_end": (
        "order",
        # Behind the last word of each response, and before its words are in the history.
        lambda calls, c: (
            len(calls) == len(c.outcome.requests) == 2
            and c.outcome.history[-1]["content"] not in str(calls[-1].history)
        ),
    ),
    "LLMAssistantAggregator._handle_tts_started": (
        "order",
        lambda calls, _: frames(calls) == ["TTSStartedFrame"] * 2,
    ),
    "LLMAssistantAggregator._handle_text": (
        "order",
        lambda calls, _: (
            "TTSTextFrame" in frames(calls)
            and " ".join(
                o.arguments["frame"].text
                for o in calls
                if type(o.arguments["frame"]).__name__ == "TTSTextFrame"
            ).startswith("Let me check 4471")
        ),
    ),
    "LLMAssistantAggregator._handle_marker_frame": (
        "thinks",
        lambda calls, _: frames(calls) == ["LLMMarkerFrame"],
    ),
    "LLMAssistantAggregator._handle_thought_end": (
        "thinks",
        lambda calls, _: frames(calls) == ["LLMThoughtEndFrame"],
    ),
    "LLMAssistantAggregator._reset_thought_aggregation": (
        "thinks",
        lambda calls, _: len(calls) >= 2,
    ),
    "LLMAssistantAggregator._handle_end_or_cancel": (
        "ends",
        lambda calls, _: any(isinstance(one.arguments["frame"], EndFrame) for one in calls),
    ),
    "LLMAssistantAggregator._handle_user_image_frame": (
        "image",
        lambda calls, _: frames(calls) == ["UserImageRawFrame"],
    ),
    "LLMAssistantAggregator._trigger_assistant_turn_stopped": (
        "cut in mid-sentence",
        lambda calls, _: (
            [one.arguments.get("interrupted", False) for one in calls].count(True) >= 1
            and not all(one.arguments.get("interrupted", False) for one in calls)
        ),
    ),
    "LLMAssistantAggregator._maybe_append_image_to_context": (
        "image",
        lambda calls, _: [one.returned for one in calls] == [True],
    ),
    "LLMAssistantAggregator._handle_function_call_finished": (
        "outliving",
        lambda calls, _: (
            len(calls) > 0 and not calls[0].arguments["in_progress_frame"].cancel_on_interruption
        ),
    ),
    "LLMAssistantAggregator._update_function_call_result": (
        "order",
        lambda calls, _: (
            [(o.arguments["tool_call_id"], o.history[-1]["content"]) for o in calls]
            == [("call_0001", "IN_PROGRESS")]
        ),
    ),
    "LLMAssistantAggregator._maybe_push_context": (
        "order",
        lambda calls, _: len(calls) == 1 and calls[0].history[-1]["role"] == "tool",
    ),
    "LLMAssistantAggregator._is_deferred": (
        "outliving",
        lambda calls, _: len(calls) > 0 and all(isinstance(one.returned, bool) for one in calls),
    ),
    "LLMAssistantAggregator._context_updated_task_finished": (
        "updates",
        lambda calls, _: [one.arguments["task"].done() for one in calls] == [True],
    ),
}

if _compat.PIPECAT < (1, 13):
    CALLED["LLMAssistantAggregator._maybe_push_context_after_function_result"] = CALLED.pop(
        "LLMAssistantAggregator._maybe_push_context"
    )
    del CALLED["LLMAssistantAggregator._add_aggregation_to_context"]


@pytest.mark.parametrize("seam", CALLED)
def test_stock_calls_it_when_we_take_it_to(seam):
    name, check = CALLED[seam]
    watched = case(name)
    calls = watched.calls(seam)
    assert check(calls, watched), calls


# --- attributes: what they hold when it matters ---------------------------------------------------


def look(
    conversation: Conversation, seconds: float, at: Callable[[Any], Any], instant: At | None = None
) -> Any:
    """Look at a stock bot in an instant of a conversation."""
    found: list[Any] = []

    async def see(bot: Any) -> None:
        found.append(at(bot))

    play(conversation.but(during=((seconds, see),)), STOCK, instant)
    return found[0]


def assistant_of(bot: Any) -> Any:
    return bot.aggregators.assistant()


SPEAKING = conversations.talk
MUTED = conversations.talk.but(
    user_params=lambda: {"user_mute_strategies": [AlwaysUserMuteStrategy()]}
)

HELD: dict[str, Callable[[], bool]] = {
    "LLMService._functions": lambda: (
        set(look(conversations.order, 0.1, lambda bot: set(bot.llm._functions)))
        == {"get_order_status"}
    ),
    "LLMService._function_call_tasks": lambda: (
        look(
            scenarios.in_turn.but(voice="text"),
            3.8,
            lambda bot: [item.function_name for item in bot.llm._function_call_tasks.values()],
        )
        == ["get_weather"]
    ),
    "LLMService._speculation_gate": lambda: (
        look(conversations.order, 0.1, lambda bot: bot.llm._speculation_gate.is_speculating)
        is False
    ),
    "LLMContextAggregator._aggregation": lambda: (
        look(SPEAKING, 5.0, lambda bot: assistant_of(bot).aggregation_string()).startswith(
            "Refunds take"
        )
        and look(SPEAKING, 5.0, lambda bot: bool(assistant_of(bot)._aggregation))
    ),
    "LLMContextAggregator._context": lambda: look(
        conversations.order, 0.1, lambda bot: assistant_of(bot)._context is bot.context
    ),
    "LLMUserAggregator._user_turn_interrupted_bot": lambda: look(
        SPEAKING, 5.2, lambda bot: bot.aggregators.user()._user_turn_interrupted_bot, At(5.0)
    ),
    "LLMUserAggregator._user_is_muted": lambda: (
        look(MUTED, 5.0, lambda bot: bot.aggregators.user()._user_is_muted) is True
        and look(MUTED, 0.5, lambda bot: bot.aggregators.user()._user_is_muted) is False
    ),
    "LLMUserAggregator._realtime_service_mode": lambda: look(
        SPEAKING, 5.0, lambda bot: not bot.aggregators.user()._realtime_service_mode
    ),
    "LLMAssistantAggregator._realtime_service_mode": lambda: look(
        SPEAKING, 5.0, lambda bot: not assistant_of(bot)._realtime_service_mode
    ),
    "LLMAssistantAggregator._context_push_owed": lambda: (
        look(SPEAKING, 5.0, lambda bot: assistant_of(bot)._context_push_owed) is False
    ),
    "LLMAssistantAggregator._context_updated_tasks": lambda: (
        look(SPEAKING, 5.0, lambda bot: assistant_of(bot)._context_updated_tasks) == set()
    ),
    "LLMAssistantAggregator._function_calls_in_progress": lambda: (
        look(
            conversations.order.but(voice="text"),
            3.6,
            lambda bot: list(assistant_of(bot)._function_calls_in_progress),
        )
        == ["call_0001"]
    ),
    "LLMAssistantAggregator._function_calls_image_results": lambda: (
        look(SPEAKING, 5.0, lambda bot: assistant_of(bot)._function_calls_image_results) == {}
    ),
    "LLMAssistantAggregator._user_speaking": lambda: (
        look(SPEAKING, 0.5, lambda bot: assistant_of(bot)._user_speaking)
        and not look(SPEAKING, 5.0, lambda bot: assistant_of(bot)._user_speaking)
    ),
    "LLMAssistantAggregator._bot_speaking": lambda: (
        look(SPEAKING, 5.0, lambda bot: assistant_of(bot)._bot_speaking)
        and not look(SPEAKING, 0.5, lambda bot: assistant_of(bot)._bot_speaking)
    ),
}

if _compat.PIPECAT < (1, 13):
    del HELD["LLMAssistantAggregator._context_push_owed"]


@pytest.mark.parametrize("seam", HELD)
def test_stock_keeps_in_it_what_we_take_it_to(seam):
    assert HELD[seam]()


# --- the two that are asked and not watched --------------------------------------------------------


def a_service() -> Any:
    from openai import AsyncOpenAI

    class Service(OpenAILLMService):
        def create_client(self, *args: Any, **kwargs: Any) -> Any:
            return AsyncOpenAI(api_key="none", base_url="http://scripted.invalid")

    return Service(api_key="none")


async def handler(params: Any) -> None:
    """Look up."""


async def another(params: Any) -> None:
    """Look up."""


async def test_a_tool_is_async_when_it_was_registered_not_to_be_cancelled(virtual_time):
    service = a_service()
    service.register_function("waits", handler)
    service.register_function("runs on", handler, cancel_on_interruption=False)
    assert [service._function_is_async(n) for n in ("waits", "runs on", "?")] == [
        False,
        True,
        False,
    ]


async def test_advertised_handlers_are_compared_by_identity(virtual_time):
    service = a_service()
    item = FunctionCallRegistryItem("look_up", handler, cancel_on_interruption=True)
    assert not service._advertised_handler_changed(item, handler)
    assert service._advertised_handler_changed(item, another)
    direct = FunctionCallRegistryItem(
        "look_up", DirectFunctionWrapper(handler), cancel_on_interruption=True
    )
    assert not service._advertised_handler_changed(direct, DirectFunctionWrapper(handler))


def test_a_late_result_is_deferred_when_the_user_has_spoken_since():
    calls = case("outliving").calls("LLMAssistantAggregator._handle_function_call_finished")
    call_id = calls[0].arguments["frame"].tool_call_id
    started = [
        m
        for m in calls[0].history
        if m["role"] == "tool" and async_tool_messages.parse_message(m) is not None
    ]
    assert [m["tool_call_id"] for m in started][:1] == [call_id]


# --- every seam, and a seam that is gone -----------------------------------------------------------


@pytest.mark.parametrize("seam", _compat.SEAMS, ids=lambda seam: f"{seam.owner}.{seam.name}")
def test_the_name_is_there_with_the_parameters_we_use(seam):
    problems = _compat.missing_from(OWNERS[seam.owner])
    assert not [p for p in problems if p.startswith(f"{seam.owner}.{seam.name} ")]
    assert seam.why


def test_every_seam_of_the_pair_and_the_service_says_here_what_we_lean_on():
    """A new private name needs a test that notices when it changes its meaning."""
    asked = {"LLMService._function_is_async", "LLMService._advertised_handler_changed"}
    ours = {
        f"{seam.owner}.{seam.name}"
        for seam in _compat.SEAMS
        if seam.owner not in ("FlowManager", "ActionManager")
    }
    assert ours == set(CALLED) | set(HELD) | asked


class Gone:
    pass


class Moved:
    def _handle_text(self, frame: Any, more: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("stand_in", "problem"),
    [
        (Gone, "LLMAssistantAggregator._handle_text is gone (a word arrives)"),
        (Moved, "_handle_text takes ('frame', 'more'), not ('frame',) (a word arrives)"),
        (Gone, "LLMAssistantAggregator._bot_speaking is not set by the constructor"),
    ],
)
def test_a_seam_that_is_missing_is_an_import_error_with_the_way_out(stand_in, problem):
    class Assistant(stand_in):
        def __init__(self) -> None:
            pass

    Assistant.__name__ = "LLMAssistantAggregator"
    with pytest.raises(ImportError) as caught:
        _compat.require(Assistant)
    assert problem in str(caught.value)
    assert "does not know pipecat-ai" in str(caught.value)
    assert "Install a pipecat-ai release that its README lists as tested" in str(caught.value)


@pytest.mark.parametrize("owner", OWNERS.values(), ids=list(OWNERS))
def test_the_installed_pipecat_has_them_all(owner):
    _compat.require(owner)
    assert _compat.missing_from(owner) == []
