# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What an application decides about interrupted turns."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

InterruptedText = Literal["discard", "heard"]
LateResult = Literal["deliver", "note", "drop"]
FlowStatePolicy = Literal["rollback", "keep"]

_MARK = "_turn_acid_side_effects"
_HandlerT = TypeVar("_HandlerT", bound=Callable[..., Any])


@dataclass(frozen=True)
class TurnPolicy:
    """How an interrupted turn is remembered.

    Parameters:
        interrupted_text: What becomes of an answer that the user talked over.
            ``"discard"`` reports it to the transcript events as interrupted and
            keeps it out of the history. ``"heard"`` keeps the words that were
            spoken, in their place.
        late_result: What becomes of the result of a tool that outlives a
            barge-in (``cancel_on_interruption=False``) once another turn has
            begun. ``"deliver"`` runs the model on it, as stock Pipecat does.
            ``"note"`` keeps it for the next request and causes no run.
            ``"drop"`` settles the call without its result.
        side_effect_tools: Names of tools that act on the world, beside those
            whose handlers are marked with `side_effects`. When such a call is
            started and then cut, the history says so.
        flow_state: What becomes of ``flow_manager.state`` when a round is dropped
            (`TransactionalFlowManager`). ``"rollback"`` takes back the keys that
            its handlers have written. ``"keep"`` leaves them, as stock Pipecat
            does. Objects in the state that are changed in place stay changed.
    """

    interrupted_text: InterruptedText = "discard"
    late_result: LateResult = "deliver"
    side_effect_tools: frozenset[str] = field(default_factory=frozenset)
    flow_state: FlowStatePolicy = "rollback"

    def __post_init__(self):
        for name, allowed in (
            ("interrupted_text", get_args(InterruptedText)),
            ("late_result", get_args(LateResult)),
            ("flow_state", get_args(FlowStatePolicy)),
        ):
            value = getattr(self, name)
            if value not in allowed:
                choices = ", ".join(repr(choice) for choice in allowed)
                raise ValueError(f"TurnPolicy({name}={value!r}): choose one of {choices}")
        tools: Iterable[str] = self.side_effect_tools
        if isinstance(tools, str):
            raise ValueError(
                f"TurnPolicy(side_effect_tools={tools!r}): pass a set of names, such as {{{tools!r}}}"
            )
        object.__setattr__(self, "side_effect_tools", frozenset(tools))


def side_effects(handler: _HandlerT) -> _HandlerT:
    """Mark a tool handler as acting on the world, such as placing an order.

    A call of a marked tool that was started and then cut by a barge-in stays in
    the history with a result that says so, and a finished call of a cut round
    keeps its result: the model must not repeat blindly what may have happened.

    Works on classic handlers, direct functions and methods, above or below
    ``@tool_options``.

    Args:
        handler: The handler.

    Returns:
        The same handler.
    """
    setattr(handler, _MARK, True)
    return handler


def has_side_effects(handler: Any) -> bool:
    """Whether a handler, or what it wraps, was marked with `side_effects`.

    Args:
        handler: A callable, or one of Pipecat's wrappers around one.
    """
    seen: set[int] = set()
    while handler is not None and id(handler) not in seen:
        if getattr(handler, _MARK, False):
            return True
        seen.add(id(handler))
        handler = (
            getattr(handler, "__wrapped__", None)
            or getattr(handler, "func", None)
            or getattr(handler, "function", None)
        )
    return False
