# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""``python -m pipecat_turn_acid sweep``: what it prints, writes and exits with."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser

import pytest

from pipecat_turn_acid.testing import cli
from pipecat_turn_acid.testing.cli import main
from pipecat_turn_acid.testing.conversation import Conversation

ORDER = "pipecat_turn_acid.testing.conversations:order"
TEXT = ["--voice", "text", "--between", "3.2,3.5", "--jobs", "1"]


def test_findings_make_the_exit_status_1(capsys):
    assert main(["sweep", ORDER, "--only-stock", *TEXT]) == 1
    out = capsys.readouterr().out
    assert "order, stock:" in out and "placeholder" in out
    assert f"sweep {ORDER} --voice text --only-stock --replay" in out


def test_no_findings_make_it_0(capsys):
    assert main(["sweep", ORDER, *TEXT]) == 0
    assert "0 damaged" in capsys.readouterr().out


def test_findings_on_the_stock_classes_beside_ours_do_not_count(capsys):
    assert main(["sweep", ORDER, "--stock", *TEXT]) == 0
    out = capsys.readouterr().out
    assert out.index("order, stock:") < out.index("order, transactional:")


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ("no_such_module:order", "no module 'no_such_module'"),
        ("pipecat_turn_acid.testing.conversations:nothing", "has no 'nothing'"),
        ("pipecat_turn_acid.testing.conversations", "not of the form module:name"),
        ("pipecat_turn_acid.testing.speech:SAMPLE_RATE", "is no Conversation, but int"),
    ],
)
def test_a_target_that_is_not_there_is_named(target, named, capsys):
    assert main(["sweep", target]) == 2
    assert named in capsys.readouterr().err


def test_a_replay_shows_the_run_and_its_faults(capsys):
    assert main(["sweep", ORDER, "--only-stock", "--replay", "3.6s"]) == 1
    out = capsys.readouterr().out
    assert "--- the user barges in ---" in out and "FunctionCallInProgressFrame" in out
    assert "stuck: has_function_calls_in_progress is true at rest" in out
    assert main(["sweep", ORDER, "--replay", "200+40"]) == 0
    out = capsys.readouterr().out
    assert out.count("--- the user barges in ---") == 2 and out.endswith("faults:\n  none\n")


def test_several_targets_and_voices_end_in_a_table(capsys):
    targets = [ORDER, "pipecat_turn_acid.testing.conversations:talk"]
    assert main(["sweep", *targets, "--voice", "all", "--stock", "--sample", "2"]) == 0
    table = capsys.readouterr().out.split("\n\n")[-1].splitlines()
    assert (
        table[0] == "| conversation | voice | instants | stock, damaged | transactional, damaged |"
    )
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[2:]]
    assert [row[:2] for row in rows[:-1]] == [
        [name, voice] for name in ("order", "talk") for voice in ("words", "sentences", "text")
    ]
    assert all(row[4] == "0 (0.0%)" for row in rows[:-1])
    assert rows[-1][2] == "24" and rows[-1][4] == "0"


def test_without_a_target_all_of_the_projects_own_is_swept(tmp_path, capsys, monkeypatch):
    own = [target for target, _ in vars(cli)["_OWN"]]
    for target in own:
        module, _, name = target.partition(":")
        assert all(
            isinstance(one, Conversation) for one in vars(importlib.import_module(module))[name]
        )
    assert own[0].endswith("conversations:FIVE")

    monkeypatch.setattr(cli, "_OWN", ((ORDER, "all"),))
    page = tmp_path / "figures.md"
    assert main(["sweep", "--sample", "2", "--jobs", "1", "--markdown", str(page)]) == 0
    capsys.readouterr()
    text = page.read_text()
    for voice in ("words", "sentences", "text"):
        assert f"| order | {voice} | 2 (every tick, sampled to 2) |" in text
    assert "| stock, damaged | transactional, damaged |" in text and "12 conversations" in text


def test_an_instant_that_is_none_is_refused(capsys):
    assert main(["sweep", ORDER, "--replay", "soon"]) == 2
    assert "'soon' is no instant" in capsys.readouterr().err


def test_json_and_html_are_written(tmp_path, capsys):
    files = tmp_path / "found.json", tmp_path / "found.html"
    target = "pipecat_turn_acid.testing.conversations:FIVE"
    arguments = ["sweep", target, "--stock", "--sample", "6", "--jobs", "1", "--voice", "text"]
    assert main([*arguments, "--json", str(files[0]), "--html", str(files[1])]) == 0
    reports = json.loads(files[0].read_text())
    assert [(report["conversation"], report["kit"]) for report in reports] == [
        (name, kit)
        for name in ("order", "parallel", "chain", "talk", "correct")
        for kit in ("stock", "transactional")
    ]
    assert all(report["tried"] == 6 for report in reports)
    page = files[1].read_text()
    assert "http" not in page.replace("https://platform", ""), "the page must need nothing else"
    _Balanced().feed(page)
    for text in ("order", "What is the status of order 4471?", "get_order_status", "by instant"):
        assert text in page
    assert page.index(">stock<") < page.index(">transactional<")


class _Balanced(HTMLParser):
    """Fails on a tag that is closed and not open, or the other way round."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_module_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "pipecat_turn_acid", "sweep", ORDER, "--sample", "2"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "2 instants" in done.stdout


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_ctrl_c_ends_a_sweep_with_a_report_of_what_was_tried():
    arguments = ["sweep", "pipecat_turn_acid.testing.conversations:FIVE", "--jobs", "2"]
    running = subprocess.Popen(
        [sys.executable, "-u", "-m", "pipecat_turn_acid", *arguments, "--sample", "100000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # It is at work once it has processes of its own.
    deadline = time.monotonic() + 60
    while not _children(running.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert "stopped early" in out and "Traceback" not in err
    assert running.returncode == 0
    assert out.count("instants (") == 1


def _children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            return children.read().split()
    except FileNotFoundError:
        return ["unknown"]
