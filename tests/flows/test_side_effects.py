# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A step that has side effects stays on record when its response is cut, and moves nothing."""

from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, At, play
from pipecat_turn_acid.testing.flow_conversations import append_marked, quick_edge_marked
from pipecat_turn_acid.testing.judge import judge


def cut(conversation, seconds, **kwargs):
    """Barge in some seconds after the first function began."""
    begun = play(conversation, TRANSACTIONAL).runs[0].started
    return play(conversation, TRANSACTIONAL, At(begun + seconds), **kwargs)


def said_to_have_moved_nothing(outcome):
    return [
        message["content"].split()[2]
        for message in outcome.history
        if "has not moved the conversation" in str(message.get("content"))
    ]


def test_a_step_that_has_reported_beside_one_that_is_cut_is_said_to_have_moved_nothing():
    """The record tells that it was done; without a word the model would take the step for made."""
    outcome = cut(quick_edge_marked, 0.5, false_start=True)

    kept, *_ = [m for m in outcome.history if m["role"] == "tool"]
    assert kept["content"] == '{"size": "large", "by": "choose_size"}'
    assert said_to_have_moved_nothing(outcome) == [kept["tool_call_id"]]
    assert outcome.found.node == "confirm" and outcome.found.entries == ["order", "confirm"]
    assert judge(outcome) == []


def test_a_step_that_is_cut_itself_leaves_its_record_alone():
    """The record says already that nobody knows what came of it."""
    outcome = cut(append_marked, 0.4)

    kept, *_ = [m for m in outcome.history if m["role"] == "tool"]
    assert "may have completed" in kept["content"]
    assert said_to_have_moved_nothing(outcome) == []
    assert outcome.found.state["size"] == "small"
    assert outcome.found.entries == ["order", "confirm"]
    assert judge(outcome) == []
