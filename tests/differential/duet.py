# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Play the same steps on the stock classes and on the drop-ins, and record what can be seen.

A :class:`Step` is what a user, an application or the end of the session does. The model answers
from a list, whatever it is shown, so what differs between two records is due to the classes alone.
"""

import asyncio
import copy
import itertools
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pipecat.frames.frames import (
    BotSpeakingFrame,
    CancelFrame,
    EndFrame,
    Frame,
    FunctionCallResultProperties,
    LLMMessagesAppendFrame,
    LLMMessagesTransformFrame,
    LLMMessagesUpdateFrame,
    LLMRunFrame,
    LLMSetToolsFrame,
    LLMSummarizeContextFrame,
    MetricsFrame,
    OutputAudioRawFrame,
    StartFrame,
    TTSSpeakFrame,
    UserImageRawFrame,
    UserSpeakingFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.llm_service import FunctionCallParams
from pipecat.workers.runner import WorkerRunner

from pipecat_turn_acid import _compat
from pipecat_turn_acid._compat import FunctionSchema, ToolsSchema
from pipecat_turn_acid.testing import virtual_time
from pipecat_turn_acid.testing.conversation import Bot, Conversation, Kit
from pipecat_turn_acid.testing.script import ChatRequest, Reply

ToolKind = Literal["quick", "slow", "silent", "failing", "timing out", "empty", "outliving"]

# --- the steps ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Response:
    """What the model answers once.

    Parameters:
        words: Whether it says something.
        calls: What it calls.
    """

    words: bool = True
    calls: tuple[ToolKind, ...] = ()


@dataclass(frozen=True)
class Step:
    """Something that happens when the bot is at rest, unless ``after`` says otherwise.

    Parameters:
        kind: What happens.
        run: Whether it asks for a run.
        responses: What the model answers to it; a last one with words alone is added.
        after: Seconds after the step before; None for when everything is at rest.
    """

    kind: Literal[
        "user", "append", "update", "transform", "tools", "image", "speak", "run", "summarize"
    ]
    run: bool = False
    responses: tuple[Response, ...] = ()
    after: float | None = None


@dataclass(frozen=True)
class Play:
    """A session.

    Parameters:
        steps: What happens, in order.
        voice: As in ``Conversation``.
        cancelled: Whether the session is cancelled instead of ended.
        tool_changes: Whether the model is told of changes of its tools.
    """

    steps: tuple[Step, ...]
    voice: Literal["text", "words", "sentences"] = "text"
    cancelled: bool = False
    tool_changes: bool = False


# --- what can be seen --------------------------------------------------------------------------


@dataclass
class Record:
    """What could be seen of a session.

    Parameters:
        down: The frames that left the pipeline at its end.
        up: The frames that left the user aggregator against the stream.
        events: What the aggregators and the service reported, in order, each by its source.
        requests: The messages and the tools of each request.
        history: The context's messages at the end.
        rounds: The ids of the calls of each response.
        beside: What marks a message that was added while a round was open.
        errors: What the pipeline reported as errors.
        in_progress: Whether calls counted as in progress at the end.
    """

    down: list[str] = field(default_factory=list)
    up: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    requests: list[tuple[list[Any], tuple[str, ...]]] = field(default_factory=list)
    history: list[Any] = field(default_factory=list)
    rounds: list[tuple[str, ...]] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    in_progress: bool = False


_NOT_SEEN = (
    # Audio and what counts time; a start is not of the conversation.
    BotSpeakingFrame,
    MetricsFrame,
    OutputAudioRawFrame,
    StartFrame,
    UserSpeakingFrame,
)
_SEEN_FIELDS = ("text", "function_name", "tool_call_id", "result", "arguments", "run_llm", "error")


class _Tap(FrameProcessor):
    """Writes down the frames that pass in one direction."""

    def __init__(self, direction: FrameDirection, seen: list[str]):
        super().__init__()
        self._direction = direction
        self._seen = seen

    async def process_frame(self, frame: Frame, direction: FrameDirection):
        await super().process_frame(frame, direction)
        if direction is self._direction and not isinstance(frame, _NOT_SEEN):
            values = [
                f"{name}={getattr(frame, name)!r}" for name in _SEEN_FIELDS if hasattr(frame, name)
            ]
            calls = [call.tool_call_id for call in getattr(frame, "function_calls", None) or []]
            self._seen.append(" ".join([type(frame).__name__, *values, *calls]))
        await self.push_frame(frame, direction)


# --- the tools ---------------------------------------------------------------------------------

_SECONDS: dict[str, float] = {"quick": 0.1, "timing out": 5.0}


def _register_tools(llm: Any, working: Counter[str]) -> list[FunctionSchema]:
    schemas = []
    for kind in ToolKind.__args__:
        name = kind.replace(" ", "_")
        llm.register_function(
            name,
            _handler(kind, working),
            cancel_on_interruption=kind != "outliving",
            timeout_secs=0.4 if kind == "timing out" else None,
        )
        schemas.append(FunctionSchema(name, f"The {kind} one.", {"n": {"type": "integer"}}, ["n"]))
    return schemas


def _handler(kind: ToolKind, working: Counter[str]) -> Any:
    async def handle(params: FunctionCallParams) -> None:
        working[params.tool_call_id] += 1
        try:
            await asyncio.sleep(_SECONDS.get(kind, 0.6))
        finally:
            del working[params.tool_call_id]
        if kind == "failing":
            raise RuntimeError("out of order")
        if kind == "empty":
            await params.result_callback(None)
        elif kind == "silent":
            properties = FunctionCallResultProperties(run_llm=False)
            await params.result_callback({"n": params.arguments["n"]}, properties=properties)
        else:
            await params.result_callback({"n": params.arguments["n"]})

    return handle


# --- the session -------------------------------------------------------------------------------


class _Model:
    """Answers from a list, in order; what the list has not foreseen is answered in words."""

    def __init__(self, play: Play):
        self._replies = iter(
            [
                self._reply(number, *response)
                for number, response in enumerate(
                    response for step in play.steps for response in _responses(step)
                )
            ]
        )
        self._asked = 0

    def __call__(self, request: ChatRequest) -> Reply:
        self._asked += 1
        return next(self._replies, Reply().say(f"Answer {self._asked} was not foreseen."))

    @staticmethod
    def _reply(number: int, words: bool, calls: tuple[ToolKind, ...]) -> Reply:
        reply = Reply()
        if words:
            reply = reply.say(f"This is reply {number}.")
        for n, kind in enumerate(calls):
            reply = reply.call(kind.replace(" ", "_"), {"n": 10 * number + n})
        return reply


def _responses(step: Step) -> list[tuple[bool, tuple[ToolKind, ...]]]:
    """What the model answers to a step, so that no step is answered what another one asks."""
    asks = step.kind in ("user", "run", "summarize") or (
        step.run and step.kind in ("append", "update", "transform", "image")
    )
    if not asks:
        return []
    return [(r.words, r.calls) for r in step.responses] + [(True, ())]


async def _frames(step: Step, number: int, bot: Bot, schemas: list[FunctionSchema]) -> None:
    message: Any = {"role": "developer", "content": f"Note {number}."}
    match step.kind:
        case "user":
            await bot.user.says(f"Say something about {number}.")
        case "append":
            await bot.queue(LLMMessagesAppendFrame([message], run_llm=step.run))
        case "update":
            await bot.queue(LLMMessagesUpdateFrame([message], run_llm=step.run))
        case "transform":
            await bot.queue(LLMMessagesTransformFrame(lambda m: [*m, message], run_llm=step.run))
        case "tools":
            kept = schemas[: 2 + number % 5]
            await bot.queue(LLMSetToolsFrame(tools=ToolsSchema(standard_tools=list(kept))))
        case "image":
            await bot.queue(
                UserImageRawFrame(
                    image=bytes(12),
                    size=(2, 2),
                    format="RGB",
                    text=f"Picture {number}",
                    append_to_context=True,
                    **_of_an_image(step),
                )
            )
        case "speak":
            await bot.queue(TTSSpeakFrame(f"By the way, number {number}."))
        case "run":
            await bot.queue(LLMRunFrame())
        case "summarize":
            await bot.queue(LLMSummarizeContextFrame())


def _of_an_image(step: Step) -> dict[str, Any]:
    """What says whether an image asks for a run, which none does before Pipecat 1.13."""
    return {} if _compat.PIPECAT < (1, 13) else {"run_llm": step.run}


async def _session(play: Play, kit: Kit) -> Record:
    record, working = Record(), Counter[str]()
    conversation = Conversation(
        name="generated",
        says=(),
        barge_in="",
        script=lambda: _Model(play),
        voice=play.voice,
        user_params=lambda: {"add_tool_change_messages": play.tool_changes},
        assemble=lambda bot: _tapped(bot, record),
    )
    bot = Bot(conversation, kit)
    schemas = _register_tools(bot.llm, working)
    bot.context.set_tools(ToolsSchema(standard_tools=list(schemas)))
    last = _listen(bot, record)
    started = asyncio.Event()
    bot.worker.add_event_handler("on_pipeline_started", lambda *_: started.set())
    runner = WorkerRunner(handle_sigint=False, check_dangling_tasks=False, name="runner")
    await runner.add_workers(bot.worker)
    running = asyncio.get_running_loop().create_task(runner.run())
    await started.wait()
    loop = asyncio.get_running_loop()

    async def rest() -> None:
        while True:
            await asyncio.sleep(0.25)
            if loop.time() - last[0] >= 1.5 and not working:
                return

    for number, step in enumerate(play.steps):
        if step.after is None:
            await rest()
        else:
            await asyncio.sleep(step.after)
            record.beside += [f"{word} {number}" for word in ("Note", "Picture", "number")]
        await _frames(step, number, bot, schemas)
    await rest()
    record.in_progress = bot.aggregators.assistant().has_function_calls_in_progress
    await bot.queue(CancelFrame() if play.cancelled else EndFrame())
    await asyncio.wait_for(running, 60)
    record.history = copy.deepcopy(list(bot.context.get_messages()))
    for request in bot.server.requests:
        tools = tuple(t["function"]["name"] for t in request.body.get("tools") or [])
        record.requests.append((copy.deepcopy(request.messages), tools))
        record.rounds.append(tuple(call.id for call in request.calls))
    return record


def _tapped(bot: Bot, record: Record) -> list[FrameProcessor]:
    parts: Sequence[FrameProcessor | None] = (
        bot.transport.input(),
        _Tap(FrameDirection.UPSTREAM, record.up),
        bot.aggregators.user(),
        bot.llm,
        bot.tts,
        bot.transport.output(),
        bot.aggregators.assistant(),
        _Tap(FrameDirection.DOWNSTREAM, record.down),
    )
    return [part for part in parts if part is not None]


def _listen(bot: Bot, record: Record) -> list[float]:
    """Write down events, and when the last frame was seen."""
    loop = asyncio.get_running_loop()
    last = [loop.time()]

    def listen(source: Any, name: str) -> None:
        def handler(_: Any, *args: Any) -> None:
            texts = [getattr(a, "content", None) or _name(a) for a in args]
            record.events.append(" ".join([name, *map(str, texts)]))

        source.add_event_handler(name, handler)

    user, assistant = bot.aggregators.user(), bot.aggregators.assistant()
    for name in (
        "on_user_turn_started",
        "on_user_turn_stopped",
        "on_user_turn_message_added",
        "on_user_turn_inference_triggered",
    ):
        listen(user, name)
    for name in ("on_assistant_turn_started", "on_assistant_turn_stopped", "on_summary_applied"):
        listen(assistant, name)
    listen(bot.llm, "on_function_calls_started")

    def seen(_: Any, frame: Frame) -> None:
        if not isinstance(frame, (OutputAudioRawFrame, MetricsFrame)):
            last[0] = loop.time()

    for processor in bot.processors:
        processor.add_event_handler("on_before_process_frame", seen)
        processor.add_event_handler("on_error", lambda _, e: record.errors.append(str(e.error)))
    return last


def _name(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(_name(v) for v in value)
    return str(getattr(value, "tool_call_id", type(value).__name__))


def perform(play: Play, kit: Kit) -> Record:
    """Play a session to its end, in virtual time.

    Args:
        play: What happens.
        kit: What the bot is built from.
    """
    return virtual_time.run(lambda: _session(play, kit), limit=600)


# --- the differences that are meant ------------------------------------------------------------


def as_meant(record: Record) -> Record:
    """What the drop-ins are meant to show, given what stock shows.

    Each change is an entry of ``docs/differences.md``.

    Args:
        record: What stock showed.
    """
    meant = copy.deepcopy(record)
    meant.history = _messages_as_meant(record.history, record)
    meant.requests = [
        (_messages_as_meant(messages, record), tools) for messages, tools in record.requests
    ]
    return meant


def _messages_as_meant(messages: list[Any], record: Record) -> list[Any]:
    for ids in record.rounds:
        messages = _one_round(messages, ids, record.beside)
    return [_settled(message) for message in messages]


def _one_round(messages: list[Any], ids: Sequence[str], beside: Sequence[str]) -> list[Any]:
    """Rules 3 and 4: calls that outlive the turn, what was added meanwhile, the round as one."""
    calls = {m["tool_calls"][0]["id"]: m for m in messages if m.get("tool_calls")}
    outliving = [i for i in ids if i in calls and "outliving" in json.dumps(calls[i])]
    awaited = [i for i in ids if i in calls and i not in outliving]
    if not awaited:
        return messages
    results = {m["tool_call_id"]: m for m in messages if m.get("role") == "tool"}
    lasting = [m for i in outliving for m in (calls[i], results[i])]
    parts = [m for i in awaited for m in (calls[i], results[i])]
    behind = max(_index(messages, part) for part in [*lasting, *parts]) + 1
    meanwhile = list(
        itertools.takewhile(
            lambda m: any(mark in json.dumps(m) for mark in beside), messages[behind:]
        )
    )
    merged = {
        **calls[awaited[0]],
        "tool_calls": [call for i in awaited for call in calls[i]["tool_calls"]],
    }
    at = min(_index(messages, part) for part in [*lasting, *parts])
    taken = {id(m) for m in [*lasting, *parts, *meanwhile]}
    rest = [m for m in messages[at:] if id(m) not in taken]
    answers = [results[i] for i in awaited]
    return [*messages[:at], *lasting, *meanwhile, merged, *answers, *rest]


def _index(messages: list[Any], message: Any) -> int:
    return next(i for i, m in enumerate(messages) if m is message)


def _settled(message: Any) -> Any:
    """Rule 13: what has no result is answered with a text that says so."""
    if message.get("role") == "tool" and message.get("content") == "CANCELLED":
        text = "The function `timing_out` timed out and returned no result."
        return {**message, "content": json.dumps(text)}
    return message
