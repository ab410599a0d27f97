# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Tells clients what becomes of each turn, in RTVI server messages.

Any RTVI client receives them as ``server-message``, with one of these as ``data``. Each replaces
what came before it, so a client that joins late misses nothing.

``turn-acid-state``
    ``epoch``, ``is_over``, ``counts`` (``committed``, ``rolled_back``, ``fenced``: so many since
    the start), ``rounds`` (the last ones, oldest first: ``number``, ``epoch``, ``state``, and
    ``calls`` with ``name``, ``arguments``, ``is_answered``, ``has_side_effects``) and ``fenced``
    (the last ones: ``kind``, ``epoch``, ``reason``).
``turn-acid-history``
    ``messages`` of the next request from position ``start`` on; what stood there is replaced.
"""

import asyncio
import json
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, Final

from pipecat.pipeline.worker import PipelineWorker
from pipecat.services.llm_service import LLMService

from pipecat_turn_acid import (
    RoundState,
    ToolRound,
    TransactionalLLMContext,
    TransactionalLLMContextAggregatorPair,
)
from pipecat_turn_acid.events import RoundStaged, StaleFenced, TurnEvent

STATE: Final = "turn-acid-state"
HISTORY: Final = "turn-acid-history"

_ROUNDS_SHOWN: Final = 30
_FENCED_SHOWN: Final = 10
_MESSAGE_CHARS: Final = 48_000
"""How much of the history goes into one message; a data channel takes no more than 64 KiB."""
_CONTENT_CHARS: Final = 4_000


class TurnWatch:
    """Watches one conversation on behalf of the clients of its pipeline."""

    def __init__(
        self,
        worker: PipelineWorker,
        context: TransactionalLLMContext,
        aggregators: TransactionalLLMContextAggregatorPair,
        llm: LLMService[Any],
    ):
        """Begin to watch.

        Args:
            worker: Runs the pipeline; its RTVI processor sends the messages.
            context: The conversation.
            aggregators: Write the history.
            llm: Makes the requests.
        """
        self._rtvi = worker.rtvi
        self._context = context
        self._llm = llm
        self._rounds: deque[ToolRound] = deque(maxlen=_ROUNDS_SHOWN)
        self._fenced: deque[dict[str, Any]] = deque(maxlen=_FENCED_SHOWN)
        self._ended: Counter[RoundState] = Counter()
        self._fences = 0
        self._told_state: dict[str, Any] = {}
        self._told_history: list[dict[str, Any]] = []
        self._telling: asyncio.Task[None] | None = None
        self._is_stale = False

        context.add_listener(self._on_turn_event)
        self._rtvi.add_event_handler("on_client_ready", self._on_client_ready)
        # Words reach the history without an event of the turn.
        aggregators.user().add_event_handler("on_user_turn_message_added", self._on_text)
        aggregators.assistant().add_event_handler("on_assistant_turn_stopped", self._on_text)

    def _on_turn_event(self, event: TurnEvent) -> None:
        if isinstance(event, RoundStaged):
            if len(self._rounds) == self._rounds.maxlen:
                self._ended[self._rounds[0].state] += 1
            self._rounds.append(event.round)
        elif isinstance(event, StaleFenced):
            self._fences += 1
            what = event.what
            self._fenced.append({"kind": what.kind, "epoch": what.epoch, "reason": what.reason})
        self._tell_soon()

    async def _on_text(self, *_: Any) -> None:
        self._tell_soon()

    async def _on_client_ready(self, _: Any) -> None:
        self._told_state, self._told_history = {}, []
        self._tell_soon()

    def _tell_soon(self) -> None:
        """Tell when whatever happens now has happened; several changes make one message."""
        self._is_stale = True
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell(), name="turn-watch")

    async def _tell(self) -> None:
        while self._is_stale:
            self._is_stale = False
            state = self._state()
            if state != self._told_state:
                self._told_state = state
                await self._rtvi.send_server_message(state)
            await self._tell_history()

    def _state(self) -> dict[str, Any]:
        counts = self._ended + Counter(round.state for round in self._rounds)
        return {
            "type": STATE,
            "epoch": self._context.epoch,
            "is_over": self._context.is_over,
            "counts": {
                "committed": counts[RoundState.COMMITTED],
                "rolled_back": counts[RoundState.ROLLED_BACK],
                "fenced": self._fences,
            },
            "rounds": [_described(round) for round in self._rounds],
            "fenced": list(self._fenced),
        }

    async def _tell_history(self) -> None:
        # The adapter picks and repairs what its service is sent.
        messages = self._llm.get_llm_adapter().get_messages(
            self._context, truncate_large_values=True
        )
        history = [_copied(message) for message in messages if isinstance(message, dict)]
        told = self._told_history
        same = next(
            (at for at, (new, old) in enumerate(zip(history, told, strict=False)) if new != old),
            min(len(history), len(told)),
        )
        if same == len(history) == len(told):
            return
        self._told_history = history
        start, part, size = same, [], 0
        for message in history[same:]:
            length = len(json.dumps(message))
            if part and size + length > _MESSAGE_CHARS:
                await self._send_history(start, part)
                start, part, size = start + len(part), [], 0
            part.append(message)
            size += length
        await self._send_history(start, part)

    async def _send_history(self, start: int, messages: list[dict[str, Any]]) -> None:
        await self._rtvi.send_server_message(
            {"type": HISTORY, "start": start, "messages": messages}
        )


def _copied(message: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a message as it will be sent; one that is too long is shortened."""
    text = json.dumps(message)
    if len(text) <= _MESSAGE_CHARS:
        return json.loads(text)
    content = message.get("content")
    content = content if isinstance(content, str) else json.dumps(content)
    return {"role": message["role"], "content": content[:_CONTENT_CHARS] + "…"}


def _described(round: ToolRound) -> dict[str, Any]:
    return {
        "number": round.number,
        "epoch": round.epoch,
        "state": round.state.value,
        "calls": [
            {
                "name": call.name,
                "arguments": call.arguments,
                "is_answered": call.is_answered,
                "has_side_effects": call.has_side_effects,
            }
            for call in round.calls
        ],
    }
