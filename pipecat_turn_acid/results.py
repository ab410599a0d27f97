# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""How a tool's result is spelt in the history."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from loguru import logger

from pipecat_turn_acid.core.messages import MAY_HAVE_COMPLETED


def result_content(function_name: str, result: Any) -> str:
    """Spell a tool's result as Pipecat does.

    Args:
        function_name: The tool.
        result: What it reported. Anything that JSON holds is a result, ``[]``
            and ``0`` included; None means that there is none.

    Returns:
        The text that stands in the history.
    """
    if result is None:
        return "COMPLETED"
    return json.dumps(presentable(function_name, result), ensure_ascii=False)


def cut_short(function_name: str, *, timed_out: bool, has_side_effects: bool) -> str:
    """What the model is told of a call that was cancelled, and not by a barge-in.

    Args:
        function_name: The tool.
        timed_out: Whether its deadline has passed; the application has cancelled it otherwise.
        has_side_effects: Whether it may have acted.
    """
    how = "timed out" if timed_out else "was cancelled"
    text = f"The function `{function_name}` {how} and returned no result."
    if has_side_effects:
        text += f" {MAY_HAVE_COMPLETED}"
    return text


def presentable(function_name: str, result: Any) -> Any:
    """A result that a request can hold.

    Args:
        function_name: The tool.
        result: What it reported.

    Returns:
        The result, `sendable`, or a text that says why it is not there.
    """
    try:
        return sendable(result)
    except (TypeError, ValueError, RecursionError) as error:
        logger.error(f"Result of function `{function_name}` is not JSON: {type(error).__name__}")
        return (
            f"The function `{function_name}` completed, but its result of type "
            f"{type(result).__name__} could not be passed on."
        )


def sendable(value: Any) -> Any:
    """Spell what JSON or UTF-8 cannot hold otherwise: it would stand in every request that follows.

    Args:
        value: A value that `json.dumps` takes.

    Returns:
        The same value; with ``"NaN"``, ``"Infinity"`` and ``"-Infinity"`` in place of such
        numbers, and ``?`` in place of half a surrogate pair, if there are any;
        two halves that belong together are the character that they stand for.

    Raises:
        TypeError, ValueError, RecursionError: `json.dumps` does not take it.
    """
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        json.dumps(value)
        return _spelt_otherwise(value)
    return value


_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def _joined(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")


def _spelt_otherwise(value: Any) -> Any:
    match value:
        case str():
            return _PAIR.sub(_joined, value).encode(errors="replace").decode()
        case float() if not math.isfinite(value):
            return json.dumps(value)
        case Mapping():
            return {_spelt_otherwise(key): _spelt_otherwise(one) for key, one in value.items()}
        case list() | tuple():
            return [_spelt_otherwise(one) for one in value]
    return value
