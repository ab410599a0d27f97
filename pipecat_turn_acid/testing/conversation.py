# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Play a conversation with a whole bot, in virtual time, and keep all that happened.

A :class:`Conversation` says what the user says, how the model answers and what the tools do. A
:class:`Kit` says which classes the bot is built from. :func:`play` builds the bot, lets the user
speak, barges in where it is told to, waits until everything is at rest, and returns the
:class:`Outcome`. The same arguments give the same outcome, every time.
"""

import asyncio
import copy
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from openai import AsyncOpenAI
from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    InterruptionFrame,
    OutputAudioRawFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_response_universal import LLMUserAggregatorParams
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.workers.runner import WorkerRunner

from pipecat_turn_acid._compat import ToolsSchema
from pipecat_turn_acid.testing import _compat, virtual_time
from pipecat_turn_acid.testing.script import Answerer, ChatRequest
from pipecat_turn_acid.testing.server import RequestRecord, ScriptedChatServer
from pipecat_turn_acid.testing.speech import (
    Heard,
    Said,
    ScriptedHttpTTSService,
    ScriptedTransport,
    ScriptedTTSService,
    User,
    Voice,
)
from pipecat_turn_acid.testing.tools import Tool, Toolbox, ToolRun

Message = Mapping[str, Any]


@dataclass(frozen=True)
class Tick:
    """An instant, counted in passes of the event loop.

    Parameters:
        number: The pass.
    """

    number: int

    def __str__(self) -> str:
        """Name the instant."""
        return f"tick {self.number}"


@dataclass(frozen=True)
class At:
    """An instant, in virtual seconds since the start of the run.

    Parameters:
        seconds: The seconds.
    """

    seconds: float

    def __str__(self) -> str:
        """Name the instant."""
        return f"{self.seconds:.3f} s"


@dataclass(frozen=True)
class After:
    """An instant counted from the first barge-in.

    Parameters:
        ticks: Passes of the event loop after it.
        seconds: Virtual seconds after it; counts only without ticks.
    """

    ticks: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        """Name the instant."""
        return f"{self.ticks} ticks later" if self.ticks else f"{self.seconds:.3f} s later"


Instant = Tick | At


# --- the description ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Conversation:
    """What is said, by whom, and with which bot.

    Parameters:
        name: A short name.
        says: What the user says, each when the bot has finished with what came before.
        barge_in: What the user says when barging in.
        script: Returns a fresh model for each run.
        tools: What the bot can do.
        expects: What the answer to the barge-in must contain, if it is given at all; checked
            without regard to case.
        extra_answers: How many answers more than one a turn may get, for what the bot is told
            to say beside answering.
        second_barge_in: What the user says when barging in once more.
        cue: What else happens in the instant of a barge-in, before the user is heard.
        ending: End the session instead of barging in: ``end`` lets it end by itself, ``cancel``
            ends it at once.
        system: The system message.
        voice: ``words`` for a voice with word timestamps, ``sentences`` for one without, ``text``
            for a bot that writes.
        llm: Keyword arguments for the LLM service.
        user_params: Returns keyword arguments for the user aggregator's parameters.
        assemble: Returns the processors of the pipeline, in order, from the parts of the bot; it
            may replace the parts. None for the usual pipeline.
        prepare: Called with the bot before it starts, for flows and the like.
        inspect: Called with the bot at rest; what it returns is kept in ``Outcome.found``.
        judged: Called with the outcome and the faults that were found in it; returns the faults
            that count, its own included.
        during: What else happens: pairs of virtual seconds and a function of the bot.
        quiet: Seconds without any frame after which the bot is at rest.
        limit: Virtual seconds after which the bot counts as never at rest.
    """

    name: str
    says: tuple[str, ...]
    barge_in: str
    script: Callable[[], Answerer]
    tools: tuple[Tool, ...] = ()
    expects: str = ""
    extra_answers: int = 0
    second_barge_in: str = "Hello? Are you there?"
    cue: "Callable[[Bot], Awaitable[None]] | None" = None
    ending: Literal["", "end", "cancel"] = ""
    system: str = "You are a helpful assistant on the telephone."
    voice: Literal["words", "sentences", "text"] = "words"
    llm: Mapping[str, Any] = field(default_factory=dict[str, Any])
    user_params: Callable[[], Mapping[str, Any]] = dict
    assemble: "Callable[[Bot], Sequence[FrameProcessor]] | None" = None
    prepare: "Callable[[Bot], Awaitable[None]] | None" = None
    inspect: "Callable[[Bot], Any] | None" = None
    judged: "Callable[[Outcome, list[Any]], list[Any]] | None" = None
    during: "tuple[tuple[float, Callable[[Bot], Awaitable[None]]], ...]" = ()
    quiet: float = 2.0
    limit: float = 90.0

    def but(self, **changes: Any) -> "Conversation":
        """Return a conversation that differs in some parts.

        Args:
            **changes: The parts.
        """
        return replace(self, **changes)


@dataclass(frozen=True)
class Kit:
    """Which classes a bot is built from.

    Parameters:
        name: A short name.
        transactional: Whether what is not replaced comes from ``pipecat_turn_acid``.
        policy: The ``TurnPolicy``, for constructors that take one.
        replaced: Classes that take the place of the usual ones, by the name of the part:
            ``context``, ``pair``, ``llm``, ``flow_manager``; also ``server`` and ``connect``, for
            another protocol, see :mod:`pipecat_turn_acid.testing.providers`.
        judged: As in `Conversation`; for faults that come with one of the parts.
    """

    name: str
    transactional: bool
    policy: Any = None
    replaced: Mapping[str, Any] = field(default_factory=dict[str, Any])
    judged: "Callable[[Outcome, list[Any]], list[Any]] | None" = None

    def but(self, name: str | None = None, *, policy: Any = None, **replaced: Any) -> "Kit":
        """Return a kit that differs in some parts.

        Args:
            name: Its name; the same if None.
            policy: Its policy; the same if None.
            **replaced: Classes by the name of the part.
        """
        return replace(
            self,
            name=name or self.name,
            policy=policy if policy is not None else self.policy,
            replaced={**self.replaced, **replaced},
        )

    @property
    def keeps_heard_text(self) -> bool:
        """Whether the heard part of an interrupted answer stays in the history."""
        if not self.transactional:
            return True
        return getattr(self.policy, "interrupted_text", "discard") == "heard"

    def part(self, name: str) -> Any:
        """Return the class for a part of the bot; imported when it is first asked for.

        Args:
            name: ``context``, ``pair``, ``llm`` or ``flow_manager``.
        """
        if name in self.replaced:
            return self.replaced[name]
        if self.transactional:
            import pipecat_turn_acid

            return getattr(pipecat_turn_acid, _TRANSACTIONAL[name])
        module, attribute = _STOCK[name]
        return getattr(__import__(module, fromlist=[attribute]), attribute)

    def make(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Make a part of the bot, with the kit's policy if its constructor takes one.

        Args:
            name: The name of the part.
            *args: For the constructor.
            **kwargs: For the constructor.
        """
        part = self.part(name)
        if self.policy is not None and "policy" in inspect.signature(part).parameters:
            kwargs["policy"] = self.policy
        return part(*args, **kwargs)


_STOCK = {
    "context": ("pipecat.processors.aggregators.llm_context", "LLMContext"),
    "pair": ("pipecat.processors.aggregators.llm_response_universal", "LLMContextAggregatorPair"),
    "llm": ("pipecat.services.openai.llm", "OpenAILLMService"),
    "flow_manager": ("pipecat.flows", "FlowManager"),
}
_TRANSACTIONAL = {
    "context": "TransactionalLLMContext",
    "pair": "TransactionalLLMContextAggregatorPair",
    "llm": "TransactionalOpenAILLMService",
    "flow_manager": "TransactionalFlowManager",
}

STOCK = Kit("stock", transactional=False)
"""Pipecat's own classes."""

TRANSACTIONAL = Kit("transactional", transactional=True)
"""The drop-ins."""


# --- the outcome -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mark:
    """A moment of a run.

    Parameters:
        at: Virtual seconds since the start of the run.
        tick: The pass of the event loop.
    """

    at: float
    tick: int


@dataclass(frozen=True)
class Request:
    """One request to the model.

    Parameters:
        at: When it arrived, in virtual seconds since the start of the run.
        messages: The history it showed.
        tools: The names of the functions it offered.
        status: The HTTP status of the answer; 0 if the client left before it.
        fate: What became of it, in the server's words: ``finished``, ``disconnected``, ...
        refusal: What OpenAI would have refused it for; empty if nothing.
        said: The words that were sent.
        calls: The calls that were sent: id, name, arguments as JSON text.
        sent_at: When each piece of the reply was sent.
        finished_at: When the server had sent all or knew that it could not; None if it never did.
    """

    at: float
    messages: tuple[Message, ...]
    tools: tuple[str, ...]
    status: int
    fate: str
    refusal: str
    said: str
    calls: tuple[tuple[str, str, str], ...]
    sent_at: tuple[float, ...]
    finished_at: float | None

    @property
    def finished(self) -> bool:
        """Whether the whole reply was sent."""
        return self.fate == "finished"

    @property
    def final(self) -> bool:
        """Whether the whole reply was sent, and calls nothing: it answers the user."""
        return self.finished and not self.calls

    @property
    def last_user(self) -> int:
        """The position of the user's last message; -1 if there is none."""
        found = [i for i, m in enumerate(self.messages) if m.get("role") == "user"]
        return found[-1] if found else -1

    @property
    def asked(self) -> str:
        """What the user said last."""
        return str(self.messages[self.last_user]["content"]) if self.last_user >= 0 else ""


@dataclass(frozen=True)
class Word:
    """A word that the user really heard, or read.

    Parameters:
        text: The word.
        at: When it began, in virtual seconds since the start of the run.
        utterance: The sentence it is from.
        asked: When the voice was asked for that sentence.
        request: The index of the request whose reply it is from, -1 if it is from none.
    """

    text: str
    at: float
    utterance: str
    asked: float
    request: int


@dataclass(frozen=True)
class Event:
    """Something an aggregator reported.

    Parameters:
        at: When, in virtual seconds since the start of the run.
        tick: In which tick.
        name: The name of the event.
        detail: What came with it.
    """

    at: float
    tick: int
    name: str
    detail: str


@dataclass
class Outcome:
    """All that a run left behind.

    Parameters:
        conversation: What was played.
        kit: What the bot was built from.
        barge_ins: The moments in which the user barged in, as they came.
        false_start: Whether the barge-ins were noises without words.
        turns: The moments in which the bot took the user to begin a turn.
        interruptions: The moments in which an interruption reached the first processor.
        stops: The moments in which it took the user to end one.
        said: What the user said, in the order it was begun.
        muted: Whether the user was muted at any time while speaking.
        requests: The requests to the model.
        history: The context's messages at rest.
        specific: What stands between them for one provider alone, such as its signatures.
        heard: The words that were played, in order.
        runs: The calls of tools, as the tools saw them.
        answered: The calls that the service answered in a tool's place.
        events: What the aggregators reported.
        errors: The errors that reached the ends of the pipeline.
        in_progress: ``has_function_calls_in_progress`` at rest.
        found: What ``Conversation.inspect`` returned.
        rested: Whether the bot came to rest at all.
        first: The moment from which on a barge-in makes sense.
        last: The moment of the last activity.
        ticks: How many ticks the run took.
        seconds: How much virtual time it took.
        tick_times: The virtual seconds at which each tick began, tick 0 included.
        trace: What every processor handled, if a trace was asked for.
    """

    conversation: Conversation
    kit: Kit
    barge_ins: list[Mark] = field(default_factory=list)
    false_start: bool = False
    turns: list[Mark] = field(default_factory=list)
    interruptions: list[Mark] = field(default_factory=list)
    stops: list[Mark] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    muted: bool = False
    requests: list[Request] = field(default_factory=list)
    history: list[Message] = field(default_factory=list)
    specific: list[Any] = field(default_factory=list)
    heard: list[Word] = field(default_factory=list)
    runs: list[ToolRun] = field(default_factory=list)
    answered: list[ToolRun] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    in_progress: bool = False
    found: Any = None
    rested: bool = True
    first: Mark = Mark(0.0, 0)
    last: Mark = Mark(0.0, 0)
    ticks: int = 0
    seconds: float = 0.0
    tick_times: Sequence[float] = field(default=(), repr=False)
    trace: list[str] = field(default_factory=list)

    @property
    def transcript(self) -> str:
        """The history as lines of text, the way it is shown to people."""
        return "\n".join(describe_message(message) for message in self.history)


def describe_message(message: Message) -> str:
    """Return one message of a history as one line.

    Args:
        message: The message.
    """
    role = message.get("role", "?")
    if calls := message.get("tool_calls"):
        named = ", ".join(
            f"{c['function']['name']}({c['function']['arguments']}) [{c['id']}]" for c in calls
        )
        return f"{role:<9} calls {named}"
    answered = f" [{message['tool_call_id']}]" if "tool_call_id" in message else ""
    return f"{role:<9} {message.get('content')}{answered}"


# --- the bot -----------------------------------------------------------------------------------


class Bot:
    """A whole bot with a user before it. Built inside a run.

    Attributes:
        conversation: What is played.
        kit: What it is built from.
        server: The scripted model's server.
        toolbox: The tools and what they did.
        transport: Its loudspeakers and microphone.
        user: The user.
        context: The context.
        aggregators: The pair of aggregators.
        llm: The LLM service.
        tts: The voice; None for a bot that writes.
        worker: The pipeline worker.
        flow_manager: Left to ``Conversation.prepare``.
    """

    def __init__(self, conversation: Conversation, kit: Kit):
        """Build a bot.

        Args:
            conversation: What is played.
            kit: What it is built from.
        """
        self.conversation = conversation
        self.kit = kit
        self.server = kit.replaced.get("server", ScriptedChatServer)(conversation.script())
        self.toolbox = Toolbox(conversation.tools, self._now)
        voice = Voice()
        self.transport = ScriptedTransport(voice=voice, audio=conversation.voice != "text")
        self.user = User(self.transport.input())
        self.context = kit.make("context", **_tools(conversation.tools))
        params: dict[str, Any] = {
            "user_turn_strategies": UserTurnStrategies(stop=[SpeechTimeoutUserTurnStopStrategy()]),
            **conversation.user_params(),
        }
        self.aggregators = kit.make(
            "pair", self.context, user_params=LLMUserAggregatorParams(**params)
        )
        self.llm = kit.replaced.get("connect", connected_llm)(kit, self.server, conversation)
        self.toolbox.register(self.llm, marks=kit.transactional)
        self.tts = {
            "words": lambda: ScriptedTTSService(voice=voice),
            "sentences": lambda: ScriptedHttpTTSService(voice=voice),
            "text": lambda: None,
        }[conversation.voice]()
        self.flow_manager: Any = None
        self.processors = list((conversation.assemble or usual_pipeline)(self))
        self.worker = PipelineWorker(
            Pipeline(self.processors),
            params=PipelineParams(audio_out_sample_rate=8000),
            clock=virtual_time.VirtualClock(),
            enable_rtvi=False,
            enable_turn_tracking=False,
            idle_timeout_secs=None,
            name="bot",
        )

    async def queue(self, *frames: Frame) -> None:
        """Send frames into the pipeline from its beginning.

        Args:
            *frames: The frames.
        """
        await self.worker.queue_frames(list(frames))

    @staticmethod
    def _now() -> tuple[float, int]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual_time.VirtualTimeLoop)
        return loop.elapsed, loop.ticks


def usual_pipeline(bot: Bot) -> list[FrameProcessor]:
    """Return the processors of a plain bot, in order.

    Args:
        bot: The bot.
    """
    parts = [
        bot.transport.input(),
        bot.aggregators.user(),
        bot.llm,
        bot.tts,
        bot.transport.output(),
        bot.aggregators.assistant(),
    ]
    return [part for part in parts if part is not None]


def _tools(tools: tuple[Tool, ...]) -> dict[str, Any]:
    if not tools:
        return {}
    return {"tools": ToolsSchema(standard_tools=[tool.schema for tool in tools])}


def connected_llm(kit: Kit, server: ScriptedChatServer, conversation: Conversation) -> Any:
    """Make the LLM service with a client that leads to the server, and with no other.

    Args:
        kit: What the bot is built from.
        server: The model's server.
        conversation: What is played.
    """
    plain = kit.part("llm")

    class Connected(plain):
        def create_client(self, *args: Any, **kwargs: Any) -> AsyncOpenAI:
            return server.client()

    Connected.__name__ = plain.__name__
    options = {
        "settings": plain.Settings(system_instruction=conversation.system),
        **conversation.llm,
    }
    return kit.but(llm=Connected).make("llm", api_key="scripted", **options)


# --- the play ----------------------------------------------------------------------------------


def play(
    conversation: Conversation,
    kit: Kit = STOCK,
    barge_in: Instant | None = None,
    *,
    second: Instant | After | None = None,
    false_start: bool = False,
    trace: bool = False,
) -> Outcome:
    """Play a conversation to its end in virtual time.

    Args:
        conversation: What is played.
        kit: What the bot is built from.
        barge_in: When the user barges in; never if None.
        second: When the user barges in once more.
        false_start: Make noises instead of words when barging in.
        trace: Record what every processor handles. It changes nothing else.

    Returns:
        What the run left behind.
    """
    stage = _Stage(conversation, kit, false_start, trace)

    def place(loop: virtual_time.VirtualTimeLoop) -> None:
        def once_more() -> None:
            stage.barge_in(conversation.second_barge_in)

        def first() -> None:
            stage.barge_in(conversation.barge_in)
            if isinstance(second, After):
                if second.ticks:
                    loop.at_tick(loop.ticks + second.ticks, once_more)
                else:
                    loop.at_elapsed(loop.elapsed + second.seconds, once_more)

        for instant, callback in ((barge_in, first), (second, once_more)):
            if isinstance(instant, Tick):
                loop.at_tick(instant.number, callback)
            elif isinstance(instant, At):
                loop.at_elapsed(instant.seconds, callback)

    with _compat.quiet_logging():
        return virtual_time.run(stage.play, prepare=place)


class _Stage:
    """One run: the bot, the user's cues, and the record of what happens."""

    def __init__(self, conversation: Conversation, kit: Kit, false_start: bool, trace: bool):
        self.conversation = conversation
        self.outcome = Outcome(conversation, kit, false_start=false_start)
        self._trace = trace
        self._bot: Bot | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._muted = False
        self._over = False
        self._interrupted = -1.0

    @property
    def bot(self) -> Bot:
        assert self._bot is not None
        return self._bot

    def mark(self) -> Mark:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual_time.VirtualTimeLoop)
        return Mark(loop.elapsed, loop.ticks)

    def barge_in(self, text: str) -> None:
        """Let the user speak, now, if the bot is still there."""
        if self._over:
            return
        now = self.mark()
        self.outcome.barge_ins.append(now)
        if self._trace:
            self.outcome.trace.append(f"{now.tick:>6} {now.at:>8.3f}  --- the user barges in ---")
        self._cue(self._barge_in(self.bot, text))

    async def _barge_in(self, bot: Bot, text: str) -> None:
        if self.conversation.cue:
            await self.conversation.cue(bot)
        if self.conversation.ending == "end":
            await bot.queue(EndFrame())
        elif self.conversation.ending == "cancel":
            await bot.worker.cancel()
        elif self.outcome.false_start:
            await bot.user.coughs()
        else:
            await bot.user.says(text)

    def _cue(self, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def play(self) -> Outcome:
        conversation, outcome = self.conversation, self.outcome
        bot = self._bot = Bot(conversation, outcome.kit)
        self._observe(bot)
        if conversation.prepare:
            await conversation.prepare(bot)
        started = asyncio.Event()
        bot.worker.add_event_handler("on_pipeline_started", lambda *_: started.set())
        runner = WorkerRunner(handle_sigint=False, check_dangling_tasks=False, name="runner")
        await runner.add_workers(bot.worker)
        running = asyncio.get_running_loop().create_task(runner.run())
        await started.wait()
        for seconds, action in conversation.during:
            self._cue(_later(seconds, action, bot))
        for number, text in enumerate(conversation.says):
            if bot.worker.has_finished():
                break
            await bot.user.says(text)
            if not number:
                outcome.first = self.mark()
            await self._rest()
        self._over = True
        self._keep(bot)
        await runner.cancel()
        await running
        return outcome

    async def _rest(self) -> None:
        conversation, outcome = self.conversation, self.outcome
        while True:
            await asyncio.sleep(conversation.quiet / 4)
            now = self.mark()
            listening = len(outcome.turns) > len(outcome.stops)
            if self.bot.worker.has_finished():
                return
            if listening or self.bot.user.speaking or self.bot.toolbox.working:
                outcome.last = now
            if now.at - outcome.last.at >= conversation.quiet:
                return
            if now.at > conversation.limit:
                outcome.rested = False
                return

    def _keep(self, bot: Bot) -> None:
        outcome = self.outcome
        messages = copy.deepcopy(list(bot.context.get_messages()))
        outcome.history = [m for m in messages if isinstance(m, dict)]
        outcome.specific = [m.message for m in messages if not isinstance(m, dict)]
        outcome.in_progress = bot.aggregators.assistant().has_function_calls_in_progress
        outcome.said = [
            Said(
                said.text,
                _since_start(said.begun),
                None if said.recognised is None else _since_start(said.recognised),
            )
            for said in bot.user.said
        ]
        outcome.runs = bot.toolbox.runs
        outcome.answered = bot.toolbox.answered
        if self.conversation.inspect:
            outcome.found = self.conversation.inspect(bot)
        outcome.requests = [_request(record) for record in bot.server.requests]
        outcome.heard = _words(bot.transport.heard, outcome.requests)
        now = self.mark()
        outcome.ticks, outcome.seconds = now.tick, now.at
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual_time.VirtualTimeLoop)
        outcome.tick_times = loop.tick_times

    # --- what is recorded ---

    def _observe(self, bot: Bot) -> None:
        for processor in bot.processors:
            # These handlers run in place, so they take no tick.
            processor.add_event_handler("on_before_process_frame", self._sees)
            processor.add_event_handler("on_error", self._fails)
        bot.llm.add_event_handler("on_before_push_frame", self._overhears)
        user, assistant = bot.aggregators.user(), bot.aggregators.assistant()
        user.add_event_handler("on_user_turn_started", self._turn_started)
        user.add_event_handler("on_user_turn_stopped", self._turn_stopped)
        user.add_event_handler("on_user_mute_started", self._mute_started)
        user.add_event_handler("on_user_mute_stopped", self._mute_stopped)
        names = ["on_assistant_turn_started", "on_assistant_turn_stopped"]
        if bot.kit.transactional:
            names += [
                "on_turn_started",
                "on_round_committed",
                "on_round_rolled_back",
                "on_stale_fenced",
            ]
        for name in names:
            assistant.add_event_handler(name, self._reports(name))

    def _sees(self, processor: FrameProcessor, frame: Frame) -> None:
        if self._over:
            return
        self.outcome.last = now = self.mark()
        if isinstance(frame, InterruptionFrame) and now.at > self._interrupted:
            # Its copies are seen in the same instant, by one processor after the other.
            self._interrupted = now.at
            self.outcome.interruptions.append(now)
        if self._muted and self.bot.user.speaking:
            self.outcome.muted = True
        if self._trace and not isinstance(frame, OutputAudioRawFrame):
            self.outcome.trace.append(
                f"{now.tick:>6} {now.at:>8.3f}  {processor.name:<34} {describe_frame(frame)}"
            )

    def _overhears(self, _: FrameProcessor, frame: Frame) -> None:
        self.bot.toolbox.overhear(frame)

    def _fails(self, processor: FrameProcessor, error: ErrorFrame) -> None:
        self.outcome.errors.append(f"{processor.name}: {error.error}")

    def _turn_started(self, *_: Any) -> None:
        self.outcome.turns.append(self.mark())

    def _turn_stopped(self, *_: Any) -> None:
        self.outcome.stops.append(self.mark())

    def _mute_started(self, *_: Any) -> None:
        self._muted = True

    def _mute_stopped(self, *_: Any) -> None:
        self._muted = False

    def _reports(self, name: str) -> Callable[..., None]:
        def report(_: Any, *args: Any) -> None:
            now = self.mark()
            detail = ", ".join(str(arg) for arg in args)
            self.outcome.events.append(Event(now.at, now.tick, name, detail))
            if self._trace:
                self.outcome.trace.append(f"{now.tick:>6} {now.at:>8.3f}  event {name} {detail}")

        return report


def _since_start(seconds: float) -> float:
    return round(seconds - virtual_time.START, 9)


def _request(record: RequestRecord) -> Request:
    return Request(
        at=_since_start(record.received_at),
        messages=tuple(copy.deepcopy(record.messages)),
        tools=tuple(ChatRequest(record.body).tools),
        status=record.status,
        fate=record.outcome.value,
        refusal=record.findings[0].message if record.findings else "",
        said=record.text,
        calls=tuple((call.id, call.name, call.arguments) for call in record.calls),
        sent_at=tuple(map(_since_start, record.sent_at)),
        finished_at=None if record.finished_at is None else _since_start(record.finished_at),
    )


def _words(heard: list[Heard], requests: list[Request]) -> list[Word]:
    words = []
    for one in heard:
        at, asked = _since_start(one.at), _since_start(one.utterance.at)
        text = one.utterance.text or one.word
        found = [i for i, r in enumerate(requests) if r.at <= asked and text.strip() in r.said]
        words.append(Word(one.word, at, text, asked, found[-1] if found else -1))
    return words


async def _later(seconds: float, action: Callable[[Bot], Awaitable[None]], bot: Bot) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, virtual_time.VirtualTimeLoop)
    await asyncio.sleep(max(0.0, seconds - loop.elapsed))
    await action(bot)


def describe_frame(frame: Frame) -> str:
    """Return what matters of a frame on one line.

    Args:
        frame: The frame.
    """
    parts = [type(frame).__name__]
    for name in ("text", "function_name", "tool_call_id", "result", "error"):
        if value := getattr(frame, name, None):
            parts.append(f"{name}={value!r}")
    if calls := getattr(frame, "function_calls", None):
        parts.append(" ".join(f"{c.function_name}[{c.tool_call_id}]" for c in calls))
    if context := getattr(frame, "context", None):
        parts.append(f"{len(context.get_messages())} messages")
    return " ".join(parts)
