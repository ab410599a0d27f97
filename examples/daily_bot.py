# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The voice of a shop, in a Daily room or in the browser. Talk over it while a tool runs.

    python -m examples.daily_bot -t webrtc       the browser, no key: everything runs here
    DAILY_API_KEY=... OPENAI_API_KEY=... python -m examples.daily_bot -t daily

Both print an address to open. STT and TTS are `local`, or `openai`; see examples/kit/services.py.
"""

import sys
from typing import Any

from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.evals.transport import EvalTransportParams
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_response_universal import LLMUserAggregatorParams
from pipecat.runner.run import app, main
from pipecat.runner.types import RunnerArguments
from pipecat.runner.utils import create_transport
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.services.stt_service import STTService
from pipecat.services.tts_service import TTSService
from pipecat.transports.base_transport import BaseTransport, TransportParams
from pipecat.transports.daily.transport import DailyParams
from pipecat.workers.runner import WorkerRunner

from examples.kit import launch, page, services
from examples.kit.shop import Shop
from examples.kit.watch import TurnWatch
from pipecat_turn_acid import (
    TransactionalLLMContext,
    TransactionalLLMContextAggregatorPair,
    TransactionalOpenAILLMService,
    TurnPolicy,
    side_effects,
)

INSTRUCTIONS = (
    "You are the voice of a shop. You are heard, not read: answer in one short plain sentence. "
    "For the status of an order say 'Let me check NUMBER for you.' and call lookup_order in the "
    "same response. A booking that was interrupted may have been made: look before you repeat it."
)

POLICY = TurnPolicy(
    interrupted_text="discard",  # or "heard": keep the words that the caller has heard
    late_result="deliver",  # or "note", "drop": for tools with cancel_on_interruption=False
)

TRANSPORTS = {
    "daily": lambda: DailyParams(audio_in_enabled=True, audio_out_enabled=True),
    "webrtc": lambda: TransportParams(audio_in_enabled=True, audio_out_enabled=True),
    "eval": lambda: EvalTransportParams(audio_in_enabled=True, audio_out_enabled=True),
}


def tools(shop: Shop) -> list[Any]:
    async def lookup_order(params: FunctionCallParams, order: str):
        """Look up the status of an order.

        Args:
            order: The order number, four digits.
        """
        await params.result_callback(await shop.order(order))

    @side_effects  # cut by a barge-in, its call stays on record: it may have happened
    async def book_demo(params: FunctionCallParams, time: str):
        """Book a demo, or move it to another time.

        Args:
            time: When, such as "three o'clock".
        """
        await params.result_callback(await shop.book(time))

    async def my_booking(params: FunctionCallParams):
        """Look up which time the demo is booked for."""
        await params.result_callback(await shop.booking())

    return [lookup_order, book_demo, my_booking]


def build(
    transport: BaseTransport,
    *,
    stt: STTService,
    llm: OpenAILLMService,
    tts: TTSService,
    shop: Shop,
    **worker_options: Any,
) -> PipelineWorker:
    context = TransactionalLLMContext(tools=tools(shop), policy=POLICY)
    aggregators = TransactionalLLMContextAggregatorPair(
        context,
        # Smart Turn decides when the caller has finished. A busy machine may recognise late.
        user_params=LLMUserAggregatorParams(
            vad_analyzer=SileroVADAnalyzer(), user_turn_stop_timeout=15.0
        ),
    )
    pipeline = Pipeline(
        [
            transport.input(),
            stt,
            aggregators.user(),
            llm,
            tts,
            transport.output(),
            aggregators.assistant(),
        ]
    )
    worker = PipelineWorker(pipeline, **worker_options)
    TurnWatch(worker, context, aggregators, llm)
    return worker


async def bot(runner_args: RunnerArguments):
    transport = await create_transport(runner_args, TRANSPORTS)
    async with services.endpoint() as at:
        llm = TransactionalOpenAILLMService(
            api_key=at.api_key,
            base_url=at.base_url,
            settings=OpenAILLMService.Settings(system_instruction=INSTRUCTIONS),
        )
        worker = build(
            transport, stt=services.ears(at), llm=llm, tts=services.voice(at), shop=Shop()
        )

        @transport.event_handler("on_client_disconnected")
        async def on_client_disconnected(transport: BaseTransport, client: Any):
            await worker.cancel()

        runner = WorkerRunner(handle_sigint=runner_args.handle_sigint)
        await runner.add_workers(worker)
        await runner.run()


if __name__ == "__main__":
    if problem := launch.missing(sys.argv[1:]):
        sys.exit(problem)
    page.mount(app, opens_room=launch.asks_for_daily(sys.argv[1:]))
    main()
