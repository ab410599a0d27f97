# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The ordering bot of the examples, and a flow by hand on the commit hook."""

import pytest

from examples import flows_demo
from pipecat_turn_acid.testing.conversation import STOCK, TRANSACTIONAL, Conversation
from pipecat_turn_acid.testing.judge import judge
from pipecat_turn_acid.testing.sweep import sweep

python = flows_demo.SHOWS[1]
yaml = flows_demo.SHOWS[2]
hook = flows_demo.SHOWS[3]


@pytest.mark.parametrize("show", (python, yaml), ids=("python", "yaml"))
def test_the_corrected_order_is_the_one_that_is_placed(show):
    stock, ours = (flows_demo.call(show, kit).found for kit in (STOCK, TRANSACTIONAL))
    assert stock["node"] == ours["node"] == "done"
    assert stock["order"]["size"] == "large"
    assert ours["order"]["size"] == "small"


def test_yaml_and_python_nodes_make_the_same_call():
    calls = [flows_demo.call(show, TRANSACTIONAL) for show in (python, yaml)]
    assert flows_demo.report(calls[0]) == flows_demo.report(calls[1])


def test_the_demo_tells_each_call(capsys):
    assert flows_demo.main() == 0
    shown = capsys.readouterr().out
    assert shown.count("=== ") == 7
    assert "A small margherita to Ten Main Street, is that right?" in shown


# --- by hand -----------------------------------------------------------------------------------


def agreed(outcome, faults):
    """What is wrong, the step's messages, functions and instruction included."""
    problems = [str(fault) for fault in faults]
    for request in outcome.requests:
        step = "address" if "delivered" in str(request.messages) else "order"
        offered = {"order": "choose_pizza", "address": "set_address"}[step]
        wanted = {"order": "which pizza", "address": "the address"}[step]
        if request.tools != (offered,):
            problems.append(f"the step is {step}, and {request.tools} is offered")
        if f"find out {wanted}." not in str(request.messages[0]["content"]):
            problems.append(f"the step is {step}, and the instruction is of another")
    return problems


def test_a_flow_by_hand_moves_whole_or_not_at_all():
    conversation = Conversation(
        name="by_hand",
        says=("A large margherita please.",),
        barge_in="No wait, a small one.",
        script=lambda: flows_demo.model,
        prepare=flows_demo.by_hand,
        inspect=lambda bot: bot.flow_manager.step,
        judged=agreed,
    )
    report = sweep(conversation, TRANSACTIONAL, sample=25)
    assert report.clean, str(report)
    assert judge(report.reference) == [] and report.reference.found == "address"
