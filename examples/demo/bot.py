# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The bot of the demo. It is built twice; the two differ in three classes and in nothing else."""

import asyncio
import copy
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    Frame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    TranscriptionFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.services.tts_service import TTSService
from pipecat.transports.base_transport import BaseTransport

from examples.demo.diary import Diary
from pipecat_turn_acid.testing.script import ChatRequest, Reply, Script

INSTRUCTIONS: Final = (
    "You are the voice of a shop's order line. You are heard, not read: answer in one short plain "
    "sentence. When you are asked for the status of an order, say 'Let me check NUMBER for you.' "
    "and call lookup_order in the same response. Callers read order numbers out in pairs of "
    "digits. Never guess a status."
)

LOOKUP_SECS: Final = 2.0
"""How long the shop's order system takes."""

ORDERS: Final = {
    "4471": {"order": "4471", "status": "delayed", "arrives": "in two weeks"},
    "4472": {"order": "4472", "status": "out for delivery", "arrives": "today"},
}


@dataclass(frozen=True)
class Kit:
    """The classes that make the difference.

    Parameters:
        name: What the kit is called in the report.
        context: Holds the history.
        aggregators: Write the history.
        llm: Asks the model.
    """

    name: str
    context: type[LLMContext]
    aggregators: type[LLMContextAggregatorPair]
    llm: type[OpenAILLMService]


def stock() -> Kit:
    """Pipecat's own classes."""
    return Kit("stock Pipecat", LLMContext, LLMContextAggregatorPair, OpenAILLMService)


def transactional() -> Kit:
    """The drop-ins of this package."""
    from pipecat_turn_acid import (
        TransactionalLLMContext,
        TransactionalLLMContextAggregatorPair,
        TransactionalOpenAILLMService,
    )

    return Kit(
        "transactional",
        TransactionalLLMContext,
        TransactionalLLMContextAggregatorPair,
        TransactionalOpenAILLMService,
    )


@dataclass(frozen=True)
class Model:
    """Which model the bot talks to.

    Parameters:
        name: The model, or None for Pipecat's default.
        api_key: The key.
        base_url: Where it is, or None for OpenAI.
        client: Makes the OpenAI client, or None to let Pipecat make it.
    """

    name: str | None
    api_key: str
    base_url: str | None = None
    client: Callable[[], Any] | None = None


@dataclass
class Bot:
    """A bot that is ready to run.

    Parameters:
        kit: What it is made of.
        pipeline: The pipeline.
        context: Its history.
        aggregators: Who write it.
        diary: What was said and done.
    """

    kit: Kit
    pipeline: Pipeline
    context: LLMContext
    aggregators: LLMContextAggregatorPair
    diary: Diary

    @property
    def calls_in_progress(self) -> bool:
        """Whether the bot believes that a tool is running."""
        return self.aggregators.assistant().has_function_calls_in_progress


def build(
    kit: Kit,
    *,
    model: Model,
    transport: BaseTransport,
    stt: FrameProcessor | None,
    tts: TTSService,
    user_params: LLMUserAggregatorParams,
    diary: Diary,
) -> Bot:
    """Build the bot.

    Args:
        kit: What to make it of.
        model: The model to talk to.
        transport: The line to the caller.
        stt: Speech recognition, or None if the transport brings text.
        tts: The bot's voice.
        user_params: How the caller's turns are detected.
        diary: Where to note what is said and done.
    """

    async def lookup_order(params: FunctionCallParams, order: str):
        """Look up the status of an order.

        Args:
            order: The order number, four digits.
        """
        number = digits(order)
        done = diary.tool_started(f"lookup_order({number})")
        try:
            await asyncio.sleep(LOOKUP_SECS)
        except asyncio.CancelledError:
            done("cancelled")
            raise
        done("answered")
        await params.result_callback(ORDERS.get(number, {"order": number, "status": "unknown"}))

    context = kit.context(tools=[lookup_order])
    aggregators = kit.aggregators(context, user_params=user_params)
    llm = _observed(kit.llm, model, diary)
    heard, answering, playing = _taps(diary)
    pipeline = Pipeline(
        [
            transport.input(),
            *([stt] if stt else []),
            heard,
            aggregators.user(),
            llm,
            answering,
            tts,
            transport.output(),
            playing,
            aggregators.assistant(),
        ]
    )
    return Bot(kit, pipeline, context, aggregators, diary)


def script() -> Script:
    """What the scripted model answers. It goes by the history that it is shown, as a model does."""
    answers = Script(otherwise=Reply().say("Which order do you mean?"))
    answers.on(user=lambda said: bool(digits(said))).say(
        lambda request: f"Let me check {digits(request.user)} for you."
    ).call("lookup_order", lambda request: {"order": digits(request.user)})
    answers.on(after_tool="lookup_order").say(_status)
    return answers


def _status(request: ChatRequest) -> str:
    found = request.result("lookup_order")
    if "arrives" not in found:
        return f"I cannot find order {found['order']}."
    return f"Order {found['order']} is {found['status']} and arrives {found['arrives']}."


def digits(text: str) -> str:
    """Return the first number of four digits in a text, however the digits are grouped."""
    joined = re.sub(r"(?<=\d)[\s,.-]+(?=\d)", "", text)
    found = re.search(r"\d{4}", joined)
    return found.group() if found else ""


def _observed(llm_class: type[OpenAILLMService], model: Model, diary: Diary) -> OpenAILLMService:
    """Make the service with a note of each request, through the hooks Pipecat has for it."""

    class Observed(llm_class):
        def build_chat_completion_params(self, params_from_context: Any) -> dict[str, Any]:
            params = super().build_chat_completion_params(params_from_context)
            diary.request(copy.deepcopy(list(params["messages"])))
            return params

        def create_client(self, *args: Any, **kwargs: Any) -> Any:
            return model.client() if model.client else super().create_client(*args, **kwargs)

    Observed.__name__ = Observed.__qualname__ = llm_class.__name__
    settings = OpenAILLMService.Settings(system_instruction=INSTRUCTIONS)
    if model.name:
        settings.model = model.name
    return Observed(api_key=model.api_key, base_url=model.base_url, settings=settings)


class _Tap(FrameProcessor):
    """Shows every frame that passes to somebody, and changes nothing."""

    def __init__(self, see: Callable[[Frame], None]):
        super().__init__()
        self._see = see

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if direction is FrameDirection.DOWNSTREAM:
            self._see(frame)
        await self.push_frame(frame, direction)


def _taps(diary: Diary) -> tuple[_Tap, _Tap, _Tap]:
    """Listen behind the recogniser, behind the model, and behind the loudspeaker."""

    def heard(frame: Frame) -> None:
        if isinstance(frame, TranscriptionFrame):
            diary.heard(frame.text.strip())

    def answering(frame: Frame) -> None:
        if isinstance(frame, (LLMFullResponseEndFrame, InterruptionFrame)):
            diary.answered()

    def playing(frame: Frame) -> None:
        if isinstance(frame, BotStartedSpeakingFrame):
            diary.bot_started()
        elif isinstance(frame, TTSTextFrame):
            diary.bot_said(frame.text.strip())
        elif isinstance(frame, InterruptionFrame):
            diary.bot_stopped(cut=True)
        elif isinstance(frame, BotStoppedSpeakingFrame):
            diary.bot_stopped(cut=False)

    return _Tap(heard), _Tap(answering), _Tap(playing)
