# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Judge what a conversation left behind.

The rules are those of the contract, read from the outside: the requests that the model got, the
history at rest, the words that were heard, and what the tools saw. A barge-in is known when the bot
takes the user to begin a turn; what happens between the user's first sound and that moment may
count either way.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pipecat.processors.aggregators import async_tool_messages

from pipecat_turn_acid.results import sendable
from pipecat_turn_acid.testing.checks import Rule, check_history, errors
from pipecat_turn_acid.testing.conversation import Mark, Message, Outcome, Request
from pipecat_turn_acid.testing.speech import Voice
from pipecat_turn_acid.testing.tools import Behaviour, ToolRun

_SAME_INSTANT = 1e-6
_TICKS_TO_THE_SERVICE = 3
"""How many ticks a sound takes at least to cancel a tool: input, user aggregator, LLM service."""

_HEARING = 0.15
"""How far the frame about a word and its sound may be apart, in seconds."""


class FaultKind(StrEnum):
    """What can be wrong with an outcome.

    Parameters:
        REFUSED: The model's provider would refuse a request.
        PLACEHOLDER: A result is not there, and a placeholder is.
        HALF_ROUND: A history in which not every call is answered once and at once.
        LEFTOVER: Something that a cut turn had not completed is in the history.
        LOST: Something that was complete is not in the history.
        WRONG_RESULT: A result in the history is not what the tool reported.
        STUCK: Calls count as in progress although nothing is.
        DEAD_TURN: A turn that was cut went on: spoke, called a tool, or asked the model.
        NO_ANSWER: The last turn was not answered, or not to its end.
        MANY_ANSWERS: A turn was answered, or a tool was called, more than once.
        WRONG_ANSWER: The answer is not the one that the user's words ask for.
        USER_WORDS: The user's words are not in the history exactly once and in order.
        NEVER_RESTS: The bot did not come to rest.
        ERROR: The pipeline reported an error.
        FLOW: The flow's node, functions, messages and state do not agree, or are not the right
            ones.
    """

    REFUSED = "refused"
    PLACEHOLDER = "placeholder"
    HALF_ROUND = "half round"
    LEFTOVER = "leftover"
    LOST = "lost"
    WRONG_RESULT = "wrong result"
    STUCK = "stuck"
    DEAD_TURN = "dead turn"
    NO_ANSWER = "no answer"
    MANY_ANSWERS = "many answers"
    WRONG_ANSWER = "wrong answer"
    USER_WORDS = "user words"
    NEVER_RESTS = "never rests"
    ERROR = "error"
    FLOW = "flow"


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong.

    Parameters:
        kind: What kind of thing.
        detail: What exactly, in words.
    """

    kind: FaultKind
    detail: str

    def __str__(self) -> str:
        """Say what is wrong on one line."""
        return f"{self.kind.value}: {self.detail}"


def judge(outcome: Outcome) -> list[Fault]:
    """Find everything that is wrong with an outcome.

    Args:
        outcome: What a run left behind.

    Returns:
        The faults, each once; empty if all is well.
    """
    faults = list(dict.fromkeys(_Judge(outcome).faults()))
    for judged in (outcome.conversation.judged, outcome.kit.judged):
        faults = judged(outcome, faults) if judged else faults
    return faults


def late_answer(fault: Fault) -> int | None:
    """Which request a fault says was answered after its turn.

    Args:
        fault: Any fault.

    Returns:
        The number of the request, from 1; None if the fault is another one.
    """
    matched = re.fullmatch(r"request (\d+) was answered [\d.]+ s after its turn", fault.detail)
    return int(matched[1]) if matched else None


class _Judge:
    def __init__(self, outcome: Outcome):
        self._outcome = outcome
        self._requests = outcome.requests
        self._runs = {run.tool_call_id: run for run in (*outcome.answered, *outcome.runs)}
        self._owners = {
            call_id: number
            for number, request in enumerate(self._requests)
            for call_id, _, _ in request.calls
        }
        tools = outcome.conversation.tools
        self._awaited = {tool.name for tool in tools if tool.cancel_on_interruption}
        self._marked = {tool.name for tool in tools if tool.mark and outcome.kit.transactional}
        self._failing = {tool.name for tool in tools if tool.behaviour is Behaviour.FAILS}

    def faults(self) -> Iterator[Fault]:
        yield from self._judge_histories()
        if self._outcome.conversation.ending and self._outcome.barge_ins:
            yield from self._judge_results()
            yield from self._judge_rest()
            return
        yield from self._judge_rounds()
        yield from self._judge_texts()
        yield from self._judge_user_words()
        yield from self._judge_dead_turns()
        yield from self._judge_answers()
        yield from self._judge_rest()

    # --- when ---

    def _turn_of(self, request: Request) -> int:
        """The turn that a request was made for.

        No words of the user can have come in the instant in which a turn begins, so a request
        of that instant is one of the turn before.
        """
        return sum(mark.at < request.at - _SAME_INSTANT for mark in self._outcome.turns) - 1

    def _end_of(self, turn: int) -> Mark | None:
        """When a turn was cut, or ended because the next one began; None for the last one."""
        turns, stops = self._outcome.turns, self._outcome.stops
        if turn + 1 >= len(turns):
            return None
        asked = stops[turn].tick if 0 <= turn < len(stops) else -1
        cuts = [mark for mark in self._outcome.interruptions if mark.tick > asked]
        return min([turns[turn + 1], *cuts[:1]], key=lambda mark: mark.tick)

    def _first_sound_before(self, mark: Mark) -> Mark:
        """The moment the user made the sound that made the bot begin a turn."""
        return max(
            (sound for sound in self._outcome.barge_ins if sound.tick <= mark.tick),
            key=lambda sound: sound.tick,
            default=mark,
        )

    # --- histories ---

    def _judge_histories(self) -> Iterator[Fault]:
        for number, request in enumerate(self._requests, 1):
            if request.refusal:
                yield Fault(FaultKind.REFUSED, f"request {number}: {request.refusal}")
            yield from self._judge_history(request.messages, f"request {number}")
        yield from self._judge_history(self._outcome.history, "history at rest")

    def _judge_history(self, messages: Sequence[Message], where: str) -> Iterator[Fault]:
        for finding in errors(check_history(list(messages))):
            kind = (
                FaultKind.PLACEHOLDER if finding.rule is Rule.PLACEHOLDER else FaultKind.HALF_ROUND
            )
            yield Fault(kind, f"{where}: {finding.message}")

    # --- rounds ---

    def _judge_rounds(self) -> Iterator[Fault]:
        kept = {
            call["id"]: message
            for message in self._outcome.history
            for call in message.get("tool_calls") or []
        }
        for request in self._requests:
            awaited = [c for c in request.calls if self._is_awaited(c[0], c[1])]
            if not awaited or not request.finished:
                continue
            ids = [call_id for call_id, _, _ in awaited]
            end = self._end_of(self._turn_of(request))
            there = [call_id for call_id in ids if call_id in kept]
            if self._surely_complete(ids, end) and len(there) < len(ids):
                yield Fault(FaultKind.LOST, f"the complete round {ids} is not in the history")
            elif end is None and len(there) < len(ids):
                missing = [call_id for call_id in ids if call_id not in there]
                yield Fault(FaultKind.LOST, f"calls that nobody has cut: {missing}")
            elif end and self._surely_incomplete(ids, end):
                left = [c for c, name, _ in awaited if c in there and name not in self._marked]
                if left:
                    yield Fault(FaultKind.LEFTOVER, f"calls of a round that was cut: {left}")
                for call_id in set(ids).difference(left):
                    yield from self._judge_record(call_id, call_id in kept, end)
        for call_id in kept:
            if call_id not in self._owners:
                yield Fault(FaultKind.LEFTOVER, f"nobody made the call {call_id}")
        yield from self._judge_results()

    def _is_awaited(self, call_id: str, name: str) -> bool:
        """Whether the model waits for a call; False if nobody knows."""
        run = self._runs.get(call_id)
        return not run.outlives if run else name in self._awaited

    def _surely_complete(self, ids: list[str], end: Mark | None) -> bool:
        runs = [self._runs.get(call_id) for call_id in ids]
        if not all(run and run.reported for run in runs):
            return False
        if end is None:
            return True
        before = self._first_sound_before(end).tick
        return all(run and run.ended_tick is not None and run.ended_tick < before for run in runs)

    def _surely_incomplete(self, ids: list[str], end: Mark) -> bool:
        return any(self._was_cut(self._runs.get(call_id), end) for call_id in ids)

    def _was_cut(self, run: ToolRun | None, end: Mark) -> bool:
        """Whether a call had not come to an end of its own when its turn did."""
        if run is None or run.ended is None or run.ended_tick is None:
            return True
        if run.ending == "cancelled":  # by the barge-in, unless it was earlier
            earliest = self._first_sound_before(end).tick + _TICKS_TO_THE_SERVICE
            return run.ended > end.at - _SAME_INSTANT and run.ended_tick >= earliest
        return run.ended_tick > end.tick

    def _judge_record(self, call_id: str, is_kept: bool, end: Mark) -> Iterator[Fault]:
        """Whether the history tells the truth of a call with side effects in a cut round."""
        run = self._runs.get(call_id)
        if run is None or run.name not in self._marked or run.ended_tick is None:
            return
        before = self._first_sound_before(end).tick
        says_cut = any(
            message.get("tool_call_id") == call_id and _tells_of_a_cut(message)
            for message in self._outcome.history
        )
        if run.started_tick < before and not is_kept:
            yield Fault(FaultKind.LOST, f"{call_id} was begun, and the history does not say so")
        elif says_cut and run.reported and run.ended_tick < before:
            yield Fault(FaultKind.WRONG_RESULT, f"{call_id} had reported when it was cut")
        elif is_kept and not says_cut and self._was_cut(run, end):
            yield Fault(FaultKind.WRONG_RESULT, f"{call_id} had not ended when it was cut")

    def _judge_results(self) -> Iterator[Fault]:
        for message in self._outcome.history:
            run = self._runs.get(str(message.get("tool_call_id")))
            if message.get("role") != "tool" or run is None:
                continue
            content = str(message.get("content"))
            if content in ("IN_PROGRESS", "CANCELLED"):
                continue  # reported as a placeholder
            if run.name in self._marked and _tells_of_a_cut(message):
                continue  # judged with its round
            if async_tool_messages.parse_message(dict(message)) is not None:  # pyright: ignore
                continue
            if run.ending == "reported" and not _same(content, run.result):
                yield Fault(
                    FaultKind.WRONG_RESULT,
                    f"{run.tool_call_id} reported {run.result!r}, the history has {content!r}",
                )

    # --- the bot's words ---

    def _judge_texts(self) -> Iterator[Fault]:
        spoken = {_plain(word.utterance) for word in self._outcome.heard if word.request < 0}
        users = 0
        texts: list[tuple[int, str]] = []
        for message in self._outcome.history:
            if message.get("role") == "user":
                users = self._turn_of_words(message, users)
            elif message.get("role") == "assistant" and not message.get("tool_calls"):
                texts.append((users, _plain(str(message.get("content") or ""))))
        for turn, text in texts:
            if text in spoken or any(self._is_heard_part(text, of=one) for one in spoken):
                continue
            if why := self._wrong_with(text, turn):
                yield Fault(FaultKind.LEFTOVER, f"{text!r}: {why}")
        kept = {text for _, text in texts}
        for request in self._requests:
            if not request.finished or self._end_of(self._turn_of(request)):
                continue
            if request.said and _plain(request.said) not in kept:
                yield Fault(FaultKind.LOST, f"the bot said {request.said!r}, the history does not")

    def _is_heard_part(self, text: str, *, of: str) -> bool:
        """Whether a text may be what was heard of something the application had the bot say."""
        return self._outcome.kit.keeps_heard_text and bool(text) and of.startswith(text)

    def _turn_of_words(self, message: Message, before: int) -> int:
        """The turn that a user's message belongs to."""
        content = _plain(str(message.get("content")))
        known = [
            said.recognised if said.recognised is not None else said.begun
            for said in self._outcome.said
            if _plain(said.text) in content
        ]
        turns = [
            sum(mark.at <= at + _SAME_INSTANT for mark in self._outcome.turns) - 1 for at in known
        ]
        return max(turns, default=before)

    def _wrong_with(self, text: str, turn: int) -> str:
        """Why a text must not stand where it stands; empty if it may."""
        reasons = []
        for number, request in enumerate(self._requests):
            said = _plain(request.said)
            if not text or not said.startswith(text):
                continue
            own = self._turn_of(request)
            end = self._end_of(own)
            if own < turn:
                reasons.append("it belongs to an earlier turn")
            elif text == said and request.finished and end is None:
                return ""
            elif end is None:
                reasons.append("it is only a part of what was said")
            else:
                heard = self._words_heard(number, end)
                whole = text == said and request.finished
                if heard < len(text.split()):
                    reasons.append("it was not heard to its end")
                elif whole or self._outcome.kit.keeps_heard_text:
                    return ""
                else:
                    reasons.append("it is a part of an answer that was cut")
        return reasons[-1] if reasons else "the model never said it"

    def _words_heard(self, number: int, end: Mark) -> int:
        """How many words of a reply were heard when a turn ended, one that was due included."""
        begun = [
            word.at
            for word in self._outcome.heard
            if word.request == number and word.at <= end.at + _HEARING
        ]
        due = begun[-1] + self._seconds_per_word if begun else 0.0
        return len(begun) + (begun != [] and due <= end.at + _HEARING)

    @property
    def _seconds_per_word(self) -> float:
        return 0.0 if self._reads else Voice.seconds_per_word

    # --- the user's words ---

    def _judge_user_words(self) -> Iterator[Fault]:
        kept = [
            _plain(str(message.get("content")))
            for message in self._outcome.history
            if message.get("role") == "user"
        ]
        said = [_plain(said.text) for said in self._outcome.said]
        if " ".join(kept) == " ".join(said):
            return
        if self._outcome.muted and all(any(k in s for s in said) for k in kept):
            return
        yield Fault(FaultKind.USER_WORDS, f"the user said {said}, the history has {kept}")

    # --- turns that are over ---

    def _judge_dead_turns(self) -> Iterator[Fault]:
        outcome = self._outcome
        for number, request in enumerate(self._requests, 1):
            turn = self._turn_of(request)
            if turn < 0:
                continue
            begun = outcome.turns[turn].at
            stopped = min(
                (mark.at for mark in outcome.stops if mark.tick > outcome.turns[turn].tick),
                default=None,
            )
            still_open = stopped is None or request.at < stopped - _SAME_INSTANT
            if request.at > begun + _SAME_INSTANT and still_open:
                yield Fault(
                    FaultKind.DEAD_TURN,
                    f"request {number} at {request.at:.3f} s, while the user's turn is open",
                )
            end = self._end_of(turn)
            done = request.finished_at
            if end and request.finished and done is not None and done > end.at + _SAME_INSTANT:
                yield Fault(
                    FaultKind.DEAD_TURN,
                    f"request {number} was answered {done - end.at:.3f} s after its turn",
                )
        for run in outcome.runs:
            owner = self._owners.get(run.tool_call_id)
            if owner is None:
                continue
            end = self._end_of(self._turn_of(self._requests[owner]))
            if end and run.started > end.at + _SAME_INSTANT:
                yield Fault(
                    FaultKind.DEAD_TURN,
                    f"{run.name} {run.tool_call_id} began {run.started - end.at:.3f} s after the "
                    "turn it was called in",
                )
        told = set()
        for word in outcome.heard:
            if word.request < 0 or (word.utterance, word.asked) in told:
                continue
            end = self._end_of(self._turn_of(self._requests[word.request]))
            if end and word.at > end.at + _SAME_INSTANT:
                told.add((word.utterance, word.asked))
                yield Fault(
                    FaultKind.DEAD_TURN,
                    f"{word.utterance!r} was heard {word.at - end.at:.3f} s after its turn",
                )

    # --- answers ---

    def _judge_answers(self) -> Iterator[Fault]:
        outcome = self._outcome
        allowed = 1 + outcome.conversation.extra_answers
        for turn in range(len(outcome.turns)):
            requests = [
                (number, request)
                for number, request in enumerate(self._requests)
                if self._turn_of(request) == turn
            ]
            finals = [(n, r) for n, r in requests if r.final and not self._brings_news(r)]
            if len(finals) > allowed:
                yield Fault(
                    FaultKind.MANY_ANSWERS,
                    f"turn {turn + 1} was answered {len(finals)} times: "
                    + " / ".join(r.said for _, r in finals),
                )
            made = Counter(
                (name, arguments)
                for _, request in requests
                if request.finished
                for _, name, arguments in request.calls
            )
            for (name, arguments), times in made.items():
                if times > allowed:
                    yield Fault(
                        FaultKind.MANY_ANSWERS,
                        f"turn {turn + 1} called {name}({arguments}) {times} times",
                    )
        yield from self._judge_last_answer()

    def _judge_last_answer(self) -> Iterator[Fault]:
        outcome = self._outcome
        last = len(outcome.turns) - 1
        finals = [
            (number, request)
            for number, request in enumerate(self._requests)
            if request.final and self._turn_of(request) == last
        ]
        whole = [request for number, request in finals if self._heard_whole(number, request)]
        if not whole:
            if not finals and self._noise_after_an_answer(last):
                return
            cut = " to its end" if finals else ""
            yield Fault(FaultKind.NO_ANSWER, f"the last turn was never answered{cut}")
            return
        expects = outcome.conversation.expects.casefold()
        if len(outcome.barge_ins) != 1 or outcome.false_start or outcome.muted:
            return
        if not any(expects in _plain(request.said).casefold() for request in whole):
            yield Fault(FaultKind.WRONG_ANSWER, f"{whole[-1].said!r}")

    def _heard_whole(self, number: int, request: Request) -> bool:
        heard = [word.text for word in self._outcome.heard if word.request == number]
        return _plain("".join(heard) if self._reads else " ".join(heard)) == _plain(request.said)

    @property
    def _reads(self) -> bool:
        return self._outcome.conversation.voice == "text"

    def _noise_after_an_answer(self, last: int) -> bool:
        """Whether the last turn was a noise, made when the one before had been answered."""
        if not self._outcome.false_start or last < 1:
            return False
        return any(
            request.final
            and self._turn_of(request) == last - 1
            and self._heard_whole(number, request)
            for number, request in enumerate(self._requests)
        )

    def _brings_news(self, request: Request) -> bool:
        """Whether a request was made to convey a result that came later than its turn."""
        for message in reversed(request.messages):
            if message.get("role") != "developer":
                return False
            if async_tool_messages.parse_message(dict(message)) is not None:  # pyright: ignore
                return True
        return False

    # --- at rest ---

    def _judge_rest(self) -> Iterator[Fault]:
        outcome = self._outcome
        if not outcome.rested:
            yield Fault(FaultKind.NEVER_RESTS, f"still busy at {outcome.seconds:.0f} s")
        elif outcome.in_progress and not any(not run.ending for run in outcome.runs):
            yield Fault(FaultKind.STUCK, "has_function_calls_in_progress is true at rest")
        for error in outcome.errors:
            known = self._failing and "Error executing function call" in error
            if not known and not any(request.refusal for request in self._requests):
                yield Fault(FaultKind.ERROR, error)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _tells_of_a_cut(message: Message) -> bool:
    return "INTERRUPTED" in str(message.get("content"))


def _same(content: str, result: Any) -> bool:
    """Whether a text is what a tool reported, or says why it cannot be."""
    if result is None:
        return content == "COMPLETED"
    try:
        # What no request can hold is spelt otherwise, though not by stock.
        spellings = {_spelt(json.loads(json.dumps(one))) for one in (result, sendable(result))}
    except (TypeError, ValueError, RecursionError):
        return "could not be passed on" in content
    try:
        return _spelt(json.loads(content)) in spellings
    except ValueError:
        return content == result


def _spelt(value: Any) -> str:
    """A value as JSON text. Unlike values, 1 and True differ, and NaN is equal to itself."""
    return json.dumps(value, sort_keys=True)
