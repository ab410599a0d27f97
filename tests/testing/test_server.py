# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The scripted server, behind the real ``openai`` client and Pipecat's real OpenAI service.

What does not depend on time is shown on both fronts: in process, in virtual time, and over TCP.
"""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import openai
import pytest
from openai import AsyncOpenAI
from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    FunctionCallResultFrame,
    FunctionCallsStartedFrame,
    InterruptionFrame,
    LLMContextFrame,
    LLMTextFrame,
    StartFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameDirection
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.tests.utils import QueuedFrameProcessor
from pipecat.workers.runner import WorkerRunner

from pipecat_turn_acid._compat import FunctionSchema, ToolsSchema
from pipecat_turn_acid.testing import virtual_time
from pipecat_turn_acid.testing.checks import Rule
from pipecat_turn_acid.testing.http import ConnectionDroppedError, HttpRequest, HttpResponse
from pipecat_turn_acid.testing.script import ChatRequest, Reply, Script, UnscriptedRequestError
from pipecat_turn_acid.testing.server import Outcome, ScriptedChatServer
from pipecat_turn_acid.testing.wire import SentCall

QUESTION: Any = {"role": "user", "content": "What is the status of order 4471?"}
ORPHANED: list[Any] = [
    QUESTION,
    {
        "role": "assistant",
        "tool_calls": [
            {
                "id": "call_abc",
                "type": "function",
                "function": {"name": "get_order_status", "arguments": "{}"},
            }
        ],
    },
    {"role": "user", "content": "Sorry, I meant order 4472."},
]
REFUSAL = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: call_abc"
)

Scenario: TypeAlias = Callable[[ScriptedChatServer, AsyncOpenAI], Awaitable[None]]
Front: TypeAlias = Callable[[ScriptedChatServer, Scenario], None]


def in_process(server: ScriptedChatServer, scenario: Scenario) -> None:
    async def main() -> None:
        async with server.client(max_retries=0) as client:
            await scenario(server, client)

    virtual_time.run(main)


def over_tcp(server: ScriptedChatServer, scenario: Scenario) -> None:
    async def main() -> None:
        async with (
            server.serve() as base_url,
            AsyncOpenAI(api_key="scripted", base_url=base_url, max_retries=0) as client,
        ):
            await scenario(server, client)

    asyncio.run(main())


@pytest.fixture(params=[in_process, over_tcp], ids=["in_process", "over_tcp"])
def front(request: pytest.FixtureRequest) -> Front:
    return request.param


def serving(*replies: Reply, **options: Any) -> ScriptedChatServer:
    return ScriptedChatServer(replies, **{"latency": 0.02, "pace": 0.01, **options})


async def stream(client: AsyncOpenAI, messages: Any = (QUESTION,), **options: Any) -> Any:
    return await client.chat.completions.create(
        model="gpt-4.1", messages=list(messages), stream=True, **options
    )


async def read(response: Any) -> tuple[str, list[dict[str, Any]], str | None]:
    """The words, the calls and the finish reason of a streamed response."""
    text, calls, finish = "", [], None
    async for chunk in response:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
            for piece in choice.delta.tool_calls or []:
                if piece.index == len(calls):
                    calls.append({"id": piece.id, "name": piece.function.name, "arguments": ""})
                calls[piece.index]["arguments"] += piece.function.arguments
    return text, calls, finish


# --- answers -----------------------------------------------------------------------------------


def test_words_are_streamed_one_by_one(front: Front):
    server = serving(Reply().say("Let me check 4471 for you."))

    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        pieces = [
            chunk.choices[0].delta.content
            async for chunk in await stream(client)
            if chunk.choices[0].delta.content
        ]
        assert pieces == ["Let", " me", " check", " 4471", " for", " you."]
        [record] = server.requests
        assert (record.outcome, record.status) == (Outcome.FINISHED, 200)
        assert record.text == "Let me check 4471 for you."
        assert record.messages == [QUESTION]

    front(server, scenario)


def test_the_words_come_when_the_script_says():
    """Virtual time makes the moments exact."""
    server = ScriptedChatServer(
        [Reply().delay(1.0).say("a b").delay(5.0).say("c d", pace=0.5)], latency=0.2, pace=0.02
    )

    async def main() -> None:
        loop = asyncio.get_running_loop()
        start, heard = loop.time(), []
        async for chunk in await stream(server.client()):
            if chunk.choices[0].delta.content:
                heard.append((chunk.choices[0].delta.content, round(loop.time() - start, 6)))
        assert heard == [("a", 1.2), (" b", 1.22), ("c", 6.72), (" d", 7.22)]

    virtual_time.run(main)


def test_calls_are_streamed_in_pieces_and_have_ids_of_their_own(front: Front):
    reply = Reply().say("One moment.").call("status", {"order_id": "4471"}).call("stock", {})
    server = serving(reply, reply)

    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        text, calls, finish = await read(await stream(client))
        assert (text, finish) == ("One moment.", "tool_calls")
        assert calls == [
            {"id": "call_0001", "name": "status", "arguments": '{"order_id": "4471"}'},
            {"id": "call_0002", "name": "stock", "arguments": "{}"},
        ]
        _, more, _ = await read(await stream(client))
        assert [call["id"] for call in more] == ["call_0003", "call_0004"]
        assert server.requests[0].calls == [
            SentCall("call_0001", "status", '{"order_id": "4471"}'),
            SentCall("call_0002", "stock", "{}"),
        ]

    front(server, scenario)


def test_a_call_may_be_given_an_id_and_arguments_that_are_not_json(front: Front):
    server = serving(Reply().call("status", '{"order_id": ', id="status"))

    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        _, calls, _ = await read(await stream(client))
        assert calls == [{"id": "status", "name": "status", "arguments": '{"order_id": '}]

    front(server, scenario)


def test_usage_is_sent_when_it_is_asked_for(front: Front):
    server = serving(Reply().say("Hello."), Reply().say("Hello."))

    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        asked = await stream(client, stream_options={"include_usage": True})
        usages = [chunk.usage async for chunk in asked]
        assert usages[-1].total_tokens == usages[-1].prompt_tokens + usages[-1].completion_tokens
        assert not any(usages[:-1])
        assert not any([chunk.usage async for chunk in await stream(client)])

    front(server, scenario)


def test_an_answer_need_not_be_streamed(front: Front):
    server = serving(Reply().say("One moment.").call("status", {"order_id": "4471"}))

    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        answer = await client.chat.completions.create(model="gpt-4.1", messages=[QUESTION])  # type: ignore[list-item]
        message = answer.choices[0].message
        assert message.content == "One moment."
        assert message.tool_calls is not None
        assert message.tool_calls[0].function.arguments == '{"order_id": "4471"}'  # type: ignore[union-attr]
        assert answer.choices[0].finish_reason == "tool_calls"
        assert server.requests[0].outcome is Outcome.FINISHED
        assert server.requests[0].calls[0].name == "status"

    front(server, scenario)


def test_a_truncated_answer_says_so(front: Front):
    server = serving(
        Reply().call("status", {"order_id": "4471"}).truncate(0.5).say("never"),
        Reply().say("one two three four").truncate(0.5),
        Reply().say("bad").finish("content_filter"),
    )

    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        text, [call], finish = await read(await stream(client))
        assert (text, call["arguments"], finish) == ("", '{"order_id', "length")
        assert await read(await stream(client)) == ("one two t", [], "length")
        assert await read(await stream(client)) == ("bad", [], "content_filter")

    front(server, scenario)


def test_a_script_may_be_a_coroutine_function(front: Front):
    async def script(request: ChatRequest) -> Reply:
        await asyncio.sleep(0.01)
        return Reply().say(f"{request.number}: {request.user}")

    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        text, _, _ = await read(await stream(client))
        assert text == "1: What is the status of order 4471?"

    front(ScriptedChatServer(script, latency=0), scenario)


# --- strictness --------------------------------------------------------------------------------


def test_a_history_that_openai_would_refuse_is_refused_in_its_words(front: Front):
    server = serving(Reply().say("never"))

    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        with pytest.raises(openai.BadRequestError) as caught:
            await stream(client, ORPHANED)
        assert caught.value.body == {
            "message": REFUSAL,
            "type": "invalid_request_error",
            "param": "messages.[2].role",
            "code": None,
        }
        [record] = server.requests
        assert (record.status, record.outcome) == (400, Outcome.REFUSED)
        assert [finding.rule for finding in record.findings] == [Rule.ORPHAN_CALL]

    front(server, scenario)


def test_strictness_can_be_switched_off_and_what_was_wrong_is_still_logged(front: Front):
    server = serving(Reply().say("Hm."), strict=False)

    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        assert (await read(await stream(client, ORPHANED)))[0] == "Hm."
        [record] = server.requests
        assert (record.status, record.outcome) == (200, Outcome.FINISHED)
        assert [finding.message for finding in record.findings] == [REFUSAL]

    front(server, scenario)


def test_a_body_that_is_not_json_is_refused(front: Front):
    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        with pytest.raises(openai.BadRequestError, match="could not parse the JSON body"):
            await client.post("/chat/completions", content=b"{", cast_to=object)
        assert server.requests == []

    front(serving(), scenario)


def test_models_are_listed_and_other_paths_are_not_found(front: Front):
    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        assert [model.id for model in (await client.models.list()).data] == ["gpt-4.1"]
        with pytest.raises(openai.NotFoundError, match=r"Invalid URL \(POST /v1/embeddings\)"):
            await client.embeddings.create(model="gpt-4.1", input="x")

    front(serving(), scenario)


# --- faults ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (400, openai.BadRequestError, "The request could not be processed."),
        (429, openai.RateLimitError, "Rate limit reached"),
        (500, openai.InternalServerError, "The server had an error"),
    ],
)
def test_an_error_is_answered_as_openai_would(
    front: Front, status: int, error: type[openai.APIStatusError], words: str
):
    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        with pytest.raises(error, match=words) as caught:
            await stream(client)
        assert caught.value.status_code == status
        [record] = server.requests
        assert (record.status, record.outcome) == (status, Outcome.FAILED)

    front(serving(Reply().error(status)), scenario)


def test_the_client_tries_again_when_it_was_told_to():
    server = serving(Reply().error(429, retry_after=3.0), Reply().say("Hello."))

    async def main() -> None:
        assert (await read(await stream(server.client())))[0] == "Hello."
        first, second = server.requests
        assert second.received_at - first.received_at == pytest.approx(3.02)

    virtual_time.run(main)


def test_the_client_does_not_try_again_when_it_was_told_not_to():
    server = serving(Reply().error(500, "Out of order.", code="broken", retry_after=None))

    async def main() -> None:
        with pytest.raises(openai.InternalServerError, match=r"Out of order\.") as caught:
            await stream(server.client())
        assert (caught.value.code, len(server.requests)) == ("broken", 1)

    virtual_time.run(main)


def test_an_error_in_mid_answer_is_an_event(front: Front):
    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        with pytest.raises(openai.APIError, match="The server had an error"):
            await read(await stream(client))
        [record] = server.requests
        assert (record.status, record.outcome, record.text) == (200, Outcome.FAILED, "Let me")

    front(serving(Reply().say("Let me").error(500)), scenario)


def test_a_malformed_event_reaches_the_client(front: Front):
    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        with pytest.raises(json.JSONDecodeError):
            await read(await stream(client))

    front(serving(Reply().say("Let me").malformed()), scenario)


def test_the_server_can_drop_the_connection_before_the_answer(front: Front):
    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        with pytest.raises(openai.APIConnectionError):
            await stream(client)
        [record] = server.requests
        assert (record.status, record.outcome) == (0, Outcome.DROPPED)

    front(serving(Reply().disconnect()), scenario)


def test_the_server_can_drop_the_connection_in_mid_answer(front: Front):
    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        response, heard = await stream(client), ""
        with pytest.raises(openai.APIConnectionError):
            async for chunk in response:
                heard += chunk.choices[0].delta.content or ""
        [record] = server.requests
        assert (heard, record.text, record.outcome) == ("Let me", "Let me", Outcome.DROPPED)

    front(serving(Reply().say("Let me").delay(0.05).disconnect()), scenario)


def test_a_stalled_answer_runs_into_the_clients_timeout():
    server = serving(Reply().say("Let me").stall())

    async def main() -> None:
        loop = asyncio.get_running_loop()
        response = await stream(server.client(timeout=7.0))
        with pytest.raises(openai.APITimeoutError):
            await read(response)
        assert loop.time() - server.requests[0].received_at == pytest.approx(7.03)
        assert server.requests[0].outcome is Outcome.DISCONNECTED

    virtual_time.run(main)


def test_a_server_that_never_begins_runs_into_the_clients_timeout(front: Front):
    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        with pytest.raises(openai.APITimeoutError):
            await stream(client, timeout=0.2)
        record = await server.requests[0].settled()
        assert (record.outcome, record.chunks) == (Outcome.DISCONNECTED, 0)

    front(serving(Reply().stall()), scenario)


def test_a_script_that_fails_is_seen_by_the_test(front: Front):
    """The client sees a 500, and does not try again."""
    script = Script()
    script.on(user="weather").say("Sunny.")

    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        with pytest.raises(openai.InternalServerError, match="no rule fits request 1"):
            await stream(client.with_options(max_retries=2))
        assert [record.outcome for record in server.requests] == [Outcome.BROKEN]
        with pytest.raises(UnscriptedRequestError, match="no rule fits request 1"):
            server.raise_for_script()

    front(ScriptedChatServer(script, latency=0), scenario)


# --- clients that leave ------------------------------------------------------------------------


def test_a_client_that_leaves_in_mid_answer_is_noticed(front: Front):
    """A barge-in closes the stream; the server knows how much was sent by then."""

    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        async def listen() -> None:
            async with await stream(client) as response:
                async for chunk in response:
                    if chunk.choices[0].delta.content == " c":
                        heard.set()

        heard = asyncio.Event()
        listening = asyncio.create_task(listen())
        await heard.wait()
        listening.cancel()
        record = await server.requests[0].settled()
        assert (record.outcome, record.text) == (Outcome.DISCONNECTED, "a b c")
        assert record.chunks == 4

    front(serving(Reply().say("a b c").delay(60.0).say("d")), scenario)


def test_a_client_that_leaves_before_the_answer_is_noticed(front: Front):
    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        asking = asyncio.create_task(stream(client))
        record = await server.received(1)
        assert record.outcome is Outcome.OPEN
        asking.cancel()
        await record.settled()
        assert (record.outcome, record.status, record.chunks) == (Outcome.DISCONNECTED, 0, 0)

    front(serving(Reply().delay(60.0).say("never")), scenario)


def test_a_client_that_closes_at_once_is_noticed(front: Front):
    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        response = await stream(client)
        await response.close()
        record = await server.requests[0].settled()
        assert record.outcome is Outcome.DISCONNECTED

    front(serving(Reply().say("a").delay(60.0).say("b")), scenario)


def test_a_server_that_is_closed_breaks_its_answers_off():
    server = serving(Reply().say("a").stall())

    async def main() -> None:
        response = await stream(server.client())
        await server.aclose()
        with pytest.raises(openai.APIConnectionError):
            await read(response)
        assert server.requests[0].outcome is not Outcome.FINISHED

    virtual_time.run(main)


def test_a_slow_client_does_not_slow_the_server_down():
    """The answer is sent when it is ready, and waits where the client will find it."""
    server = serving(Reply().say("a b c d"), latency=0.0, pace=1.0)

    async def main() -> None:
        response = await stream(server.client())
        await asyncio.sleep(60)
        assert server.requests[0].finished_at == server.requests[0].received_at + 3.0
        assert (await read(response))[0] == "a b c d"

    virtual_time.run(main)


def test_nothing_is_left_running(front: Front):
    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        before = asyncio.all_tasks()
        await read(await stream(client))
        response = await stream(client)
        await response.close()
        await server.requests[1].settled()
        left = await stream(client)
        await server.aclose()
        await left.close()
        await asyncio.sleep(0)
        started = asyncio.all_tasks() - before
        assert {task for task in started if task.get_name() == "scripted-chat-server"} == set()

    reply = Reply().say("a").delay(0.05).say("b")
    front(serving(reply, reply, reply), scenario)


# --- fronts ------------------------------------------------------------------------------------


def test_the_same_run_takes_the_same_ticks():
    """Down to the loop's passes: what the sweep counts in."""

    def trace() -> list[Any]:
        server = serving(Reply().say("Let me check.").call("status", {"order_id": "4471"}))
        seen: list[Any] = []

        async def main() -> None:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, virtual_time.VirtualTimeLoop)
            async for chunk in await stream(server.client()):
                seen.append((loop.ticks, loop.elapsed, chunk.to_json()))

        virtual_time.run(main)
        return seen

    assert len(trace()) > 5
    assert trace() == trace()


def test_in_process_there_is_no_thread_and_no_socket(monkeypatch: pytest.MonkeyPatch):
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a socket")

    async def main() -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
        monkeypatch.setattr(socket.socket, "connect", refuse)
        threads = threading.active_count()
        assert (await read(await stream(server.client())))[0] == "Hello."
        assert threading.active_count() == threads

    server = serving(Reply().say("Hello."))
    asyncio.run(main())


def test_a_port_that_is_taken_is_named():
    async def main() -> None:
        async with serving().serve() as base_url:
            port = int(base_url.split(":")[2].split("/")[0])
            with pytest.raises(OSError, match=str(port)):
                async with serving().serve(port=port):
                    pass

    asyncio.run(main())


def test_closing_does_not_wait_for_answers_that_never_end():
    async def main() -> None:
        server = serving(Reply().say("a").stall())
        async with server.serve() as base_url:
            client = AsyncOpenAI(api_key="scripted", base_url=base_url)
            response = await stream(client)
            loop = asyncio.get_running_loop()
            leaving = loop.time()
        assert loop.time() - leaving < 2.0
        assert server.requests[0].outcome is Outcome.DISCONNECTED
        await response.close()
        await client.close()

    asyncio.run(main())


def test_other_paths_can_be_served(front: Front):
    """The seam for speech and transcription."""

    async def speech(request: HttpRequest) -> HttpResponse:
        async def audio() -> AsyncGenerator[bytes, None]:
            for word in json.loads(request.body)["input"].split():
                yield word.encode()
                await asyncio.sleep(0.01)

        return HttpResponse(200, {"content-type": "audio/wav"}, audio())

    async def transcription(request: HttpRequest) -> HttpResponse:
        if b"drop" in request.body:
            raise ConnectionDroppedError
        assert request.headers["content-type"].startswith("multipart/form-data")
        return HttpResponse(200, {"content-type": "application/json"}, b'{"text": "Hello."}')

    async def scenario(server: ScriptedChatServer, client: AsyncOpenAI) -> None:
        server.route("POST", "/v1/audio/speech", speech)
        server.route("POST", "/v1/audio/transcriptions", transcription)
        spoken = await client.audio.speech.create(model="tts", voice="alloy", input="one two")
        assert spoken.content == b"onetwo"
        heard = await client.audio.transcriptions.create(model="stt", file=("a.wav", b"RIFF"))
        assert heard.text == "Hello."
        with pytest.raises(openai.APIConnectionError):
            await client.audio.transcriptions.create(model="stt", file=("a.wav", b"drop"))

    front(serving(), scenario)


# --- Pipecat's own service ---------------------------------------------------------------------

STATUS = FunctionSchema(
    name="get_order_status",
    description="Look an order up.",
    properties={"order_id": {"type": "string"}},
    required=["order_id"],
)

FrameT = TypeVar("FrameT", bound=Frame)


class Running:
    """A pipeline with nothing but the service in it."""

    def __init__(
        self, worker: PipelineWorker, down: asyncio.Queue[Frame], up: asyncio.Queue[Frame]
    ):
        self.worker, self._down, self._up = worker, down, up
        self.said = ""

    async def ask(self, *messages: Any, **options: Any) -> None:
        await self.worker.queue_frame(LLMContextFrame(LLMContext(list(messages), **options)))

    async def comes_out(self, kind: type[FrameT]) -> FrameT:
        while True:
            frame = await self._down.get()
            if isinstance(frame, LLMTextFrame):
                self.said += frame.text
            if isinstance(frame, kind):
                return frame

    async def goes_up(self, kind: type[FrameT]) -> FrameT:
        while not isinstance(frame := await self._up.get(), kind):
            pass
        return frame


@asynccontextmanager
async def running(service: OpenAILLMService) -> AsyncIterator[Running]:
    down: asyncio.Queue[Frame] = asyncio.Queue()
    up: asyncio.Queue[Frame] = asyncio.Queue()
    source = QueuedFrameProcessor(queue=up, queue_direction=FrameDirection.UPSTREAM)
    sink = QueuedFrameProcessor(
        queue=down, queue_direction=FrameDirection.DOWNSTREAM, ignore_start=False
    )
    worker = PipelineWorker(Pipeline([source, service, sink]), cancel_on_idle_timeout=False)
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    pipeline = Running(worker, down, up)
    run = asyncio.create_task(runner.run())
    await pipeline.comes_out(StartFrame)
    yield pipeline
    await worker.queue_frame(EndFrame())
    await run


@pytest.fixture(params=["in_process", "over_tcp"])
def with_service(request: pytest.FixtureRequest) -> Any:
    """Run a scenario with Pipecat's service, on either front."""

    def run(
        server: ScriptedChatServer, scenario: Callable[[OpenAILLMService], Awaitable[None]]
    ) -> None:
        async def main() -> None:
            if request.param == "in_process":
                await scenario(server.service(OpenAILLMService))
            else:
                async with server.serve() as base_url:
                    await scenario(OpenAILLMService(api_key="scripted", base_url=base_url))

        if request.param == "in_process":
            virtual_time.run(main)
        else:
            asyncio.run(main())

    return run


def order_script() -> Script:
    script = Script()
    script.on(user="4471").say("Let me check 4471 for you.").call(
        "get_order_status", {"order_id": "4471"}
    )
    script.on(after_tool="get_order_status").say(
        lambda request: f"It is {request.result('get_order_status')['status']}."
    )
    return script


def test_pipecats_service_speaks_and_calls(with_service: Any):
    server = ScriptedChatServer(order_script(), latency=0.02, pace=0.005)

    async def scenario(service: OpenAILLMService) -> None:
        called: asyncio.Future[FunctionCallParams] = asyncio.Future()

        async def get_order_status(params: FunctionCallParams) -> None:
            called.set_result(params)
            await params.result_callback({"status": "shipped"})

        service.register_function("get_order_status", get_order_status)
        async with running(service) as pipeline:
            await pipeline.ask(QUESTION, tools=ToolsSchema(standard_tools=[STATUS]))
            started = await pipeline.comes_out(FunctionCallsStartedFrame)
            answered = await pipeline.comes_out(FunctionCallResultFrame)
        assert pipeline.said == "Let me check 4471 for you."
        assert [call.tool_call_id for call in started.function_calls] == ["call_0001"]
        assert (await called).arguments == {"order_id": "4471"}
        assert answered.result == {"status": "shipped"}
        [record] = server.requests
        assert record.outcome is Outcome.FINISHED
        assert [tool["function"]["name"] for tool in record.body["tools"]] == ["get_order_status"]

    with_service(server, scenario)


def test_a_barge_in_cuts_pipecats_request_and_the_server_knows_where(with_service: Any):
    server = ScriptedChatServer(
        [Reply().say("Let me check").delay(60.0).say("never")], latency=0.02, pace=0.005
    )

    async def scenario(service: OpenAILLMService) -> None:
        async with running(service) as pipeline:
            await pipeline.ask(QUESTION)
            while pipeline.said != "Let me check":
                await pipeline.comes_out(LLMTextFrame)
            await pipeline.worker.queue_frame(InterruptionFrame())
            record = await server.requests[0].settled()
        assert (record.outcome, record.text) == (Outcome.DISCONNECTED, "Let me check")

    with_service(server, scenario)


def test_pipecat_reports_a_refusal_in_openais_words(with_service: Any):
    server = ScriptedChatServer(order_script(), latency=0.0)

    async def scenario(service: OpenAILLMService) -> None:
        async with running(service) as pipeline:
            await pipeline.ask(*ORPHANED)
            assert REFUSAL in (await pipeline.goes_up(ErrorFrame)).error

    with_service(server, scenario)


def test_pipecats_inference_out_of_band_is_answered(with_service: Any):
    server = ScriptedChatServer(
        [Reply().say("The user asks for order 4471.")], latency=0.0, pace=0.001
    )

    async def scenario(service: OpenAILLMService) -> None:
        summary = await service.run_inference(LLMContext([QUESTION]))
        assert summary == "The user asks for order 4471."
        assert server.requests[0].body["stream"] is False

    with_service(server, scenario)


def test_a_service_in_process_is_the_class_it_was_made_of():
    service = serving().service(OpenAILLMService, settings=OpenAILLMService.Settings(model="m"))

    assert isinstance(service, OpenAILLMService)
    assert type(service).__name__ == "OpenAILLMService"
    assert type(service).process_frame is OpenAILLMService.process_frame
