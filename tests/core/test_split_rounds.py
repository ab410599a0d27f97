# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A round for a provider that pairs calls and results turn by turn."""

import copy

from pipecat_turn_acid.core.messages import split_rounds

USER = {"role": "user", "content": "Paris and London?"}
ANSWER = {"role": "assistant", "content": "Sunny."}


def call(tool_call_id):
    return {"id": tool_call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}


def calls(*ids, **more):
    return {"role": "assistant", "tool_calls": [call(i) for i in ids], **more}


def result(tool_call_id):
    return {"role": "tool", "content": f"result of {tool_call_id}", "tool_call_id": tool_call_id}


def test_each_call_stands_before_its_own_result():
    """Gemini counts the results that follow a turn with calls."""
    history = [USER, calls("a", "b"), result("a"), result("b"), ANSWER]
    before = copy.deepcopy(history)

    split = split_rounds(history)

    assert split == [USER, calls("a"), result("a"), calls("b"), result("b"), ANSWER]
    assert history == before


def test_what_stands_before_a_round_stands_before_its_first_call():
    """Words beside calls are said once."""
    history = [calls("a", "b", content="One moment."), result("a"), result("b")]

    split = split_rounds(history)

    assert split[0] == calls("a", content="One moment.")
    assert split[2] == calls("b")


def test_a_single_call_stays_as_it_is():
    """What a provider takes already is not copied."""
    history = [USER, calls("a"), result("a"), ANSWER]

    split = split_rounds(history)

    assert all(one is other for one, other in zip(split, history, strict=True))
