# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What the history says of a result that came after its turn was over.

The payloads have the shape of Pipecat's async-tool messages, so that everything
that reads those reads these.
"""

import json
from typing import Any, Final

from pipecat_turn_acid.core.messages import MAY_HAVE_COMPLETED

_NOTE: Final = (
    "This tool call ended after the conversation had moved on. Use what came of it if it is of "
    "use; there is no need to mention it."
)
_DROPPED: Final = (
    "This tool call ended after the conversation had moved on, and what came of it was not kept. "
)
_AGAIN: Final = "Call the tool again if its result is needed."


def note_message(tool_call_id: str, result: str) -> Any:
    """A developer message that keeps a late result without an order to convey it.

    Args:
        tool_call_id: The call.
        result: The result as JSON text.
    """
    return {"role": "developer", "content": _payload(tool_call_id, _NOTE, result)}


def dropped_content(tool_call_id: str, *, has_side_effects: bool) -> str:
    """What replaces the notice that a tool is still running, once its result was dropped.

    Args:
        tool_call_id: The call.
        has_side_effects: Whether it may have acted.
    """
    advice = MAY_HAVE_COMPLETED if has_side_effects else _AGAIN
    return _payload(tool_call_id, _DROPPED + advice, "DROPPED")


def _payload(tool_call_id: str, description: str, result: str) -> str:
    return json.dumps(
        {
            "type": "async_tool",
            "status": "finished",
            "tool_call_id": tool_call_id,
            "description": description,
            "result": result,
        },
        ensure_ascii=False,
    )
