# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What a turn journal records, how long it keeps it, and how it shows it."""

import asyncio
import gc
import json
import re
import weakref
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair

from pipecat_turn_acid import (
    TransactionalLLMContext,
    TransactionalLLMContextAggregatorPair,
    TurnJournal,
)
from pipecat_turn_acid.journal import JournalEvent
from pipecat_turn_acid.testing import conversations
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, At, play, usual_pipeline

SECRET = "the caller's card number"


def call(tool_call_id, name="get_order_status", arguments='{"order_id": "4471"}'):
    return {
        "id": tool_call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def watched(*, limit=10_000, tool_names=False):
    """A context and the journal that watches it."""
    context, journal = TransactionalLLMContext(), TurnJournal(limit, tool_names=tool_names)
    journal.watch(context)
    return context, journal


def events(journal):
    return [(entry.event.value, entry.epoch, entry.round) for entry in journal.entries]


def setting_up(prepare):
    """The usual pipeline of a bot, once ``prepare`` has seen to it."""

    def assemble(bot):
        prepare(bot)
        return usual_pipeline(bot)

    return assemble


def recorded(conversation, barge_in=None, *, kit=TRANSACTIONAL, target="aggregators"):
    """Play a conversation and return the journal of it."""
    journal = TurnJournal(tool_names=True)

    def watch(bot):
        journal.watch(getattr(bot, target))

    play(conversation.but(assemble=setting_up(watch)), kit, barge_in)
    return journal


# --- collecting ------------------------------------------------------------------------------


def test_a_round_is_recorded_when_it_is_staged_and_when_it_is_committed():
    context, journal = watched()
    context.begin_turn()
    context.stage_assistant_tool_calls([call("call_1")])
    context.stage_tool_result("call_1", "shipped")
    context.commit()

    assert events(journal) == [
        ("turn ended", 0, None),
        ("turn started", 1, None),
        ("round staged", 1, 1),
        ("round committed", 1, 1),
    ]
    staged, committed = journal.entries[2:]
    assert staged.calls[0].id == "call_1"
    assert staged.calls[0].arguments == len('{"order_id": "4471"}')
    assert staged.calls[0].result is None
    assert committed.calls[0].result == len("shipped")


def test_a_round_that_is_cut_is_recorded_as_rolled_back_and_its_result_as_fenced():
    """The two facts that one looks for after a barge-in."""
    context, journal = watched()
    cut = context.begin_turn()
    context.stage_assistant_tool_calls([call("call_1")])
    context.end_turn()
    context.stage_tool_result("call_1", "shipped", epoch=cut)

    assert events(journal)[3:] == [
        ("round rolled back", 1, 1),
        ("turn ended", 1, None),
        ("fenced", 1, None),
    ]
    assert journal.entries[-1].what == "result"
    assert journal.entries[-1].tool_call_id == "call_1"
    assert journal.entries[3].is_late


def test_who_ended_a_turn_is_recorded():
    """A barge-in and the turn that follows another are not the same."""
    context, journal = watched()
    context.begin_turn()
    context.begin_turn()
    context.end_turn()

    ended = [(e.epoch, e.what) for e in journal.entries if e.event is JournalEvent.TURN_ENDED]
    assert ended == [
        (0, "the next turn took over"),
        (1, "the next turn took over"),
        (2, "the user took the floor"),
    ]


def test_a_late_result_is_filed_under_the_turn_that_asked_for_it():
    """Not under the turn in which it happens to arrive."""
    context, journal = watched()
    asked = context.begin_turn()
    context.stage_assistant_tool_calls([call("call_1")])
    context.begin_turn()
    context.stage_tool_result("call_1", "shipped", epoch=asked)

    assert context.epoch == asked + 1
    assert journal.entries[-1].event is JournalEvent.FENCED
    assert journal.entries[-1].epoch == asked


def test_a_repaired_request_is_recorded_for_each_call_that_had_come_apart():
    journal = TurnJournal()

    def load_a_damaged_history(bot):
        bot.context.add_messages(
            [
                {"role": "assistant", "tool_calls": [call("call_a")]},
                {"role": "tool", "tool_call_id": "call_b", "content": "x"},
            ]
        )
        journal.watch(bot.context)

    play(conversations.talk.but(assemble=setting_up(load_a_damaged_history)), TRANSACTIONAL)

    repaired = [e for e in journal.entries if e.event is JournalEvent.REPAIRED]
    assert [(e.what, e.tool_call_id) for e in repaired] == [
        ("call without a result", "call_a"),
        ("result without a call", "call_b"),
    ]


def test_a_failing_commit_hook_is_recorded_with_the_type_of_its_error_only():
    """An error's text may quote what the caller said."""
    context, journal = watched()

    def hook(round):
        raise ValueError(SECRET)

    context.on_round_committed(hook)
    context.begin_turn()
    context.stage_assistant_tool_calls([call("call_1")])
    context.stage_tool_result("call_1", "shipped")
    context.commit()
    asyncio.run(context.run_commit_hooks())

    assert journal.entries[-1].event is JournalEvent.HOOK_FAILED
    assert journal.entries[-1].what == "ValueError"
    assert SECRET not in journal.table()


def test_a_pair_adds_the_responses_and_where_they_were_cut():
    journal = recorded(conversations.order, At(3.45))

    first = [name for name, epoch, _ in events(journal) if epoch == 1]
    assert first[:6] == [
        "turn started",
        "response started",
        "round staged",
        "response cut",
        "round rolled back",
        "turn ended",
    ]
    second = [name for name, epoch, _ in events(journal) if epoch == 2 and name != "fenced"]
    assert second == [
        "turn started",
        "response started",
        "round staged",
        "response ended",
        "round committed",
        "response started",
        "response ended",
    ]


def test_a_bare_context_leaves_the_responses_out():
    journal = recorded(conversations.order, target="context")

    names = {entry.event.value for entry in journal.entries}
    assert "round committed" in names
    assert not {name for name in names if name.startswith("response")}


def test_watching_the_pair_after_the_context_adds_the_responses_and_doubles_nothing():
    journal = TurnJournal()

    def watch(bot):
        for target in (bot.context, bot.aggregators, bot.aggregators.assistant()):
            journal.watch(target)

    play(conversations.order.but(assemble=setting_up(watch)), TRANSACTIONAL)

    names = [entry.event.value for entry in journal.entries]
    assert names.count("round committed") == 1
    assert names.count("response started") == names.count("response ended") == 2
    assert {entry.conversation for entry in journal.entries} == {1}


def test_a_journal_changes_nothing_of_what_it_watches():
    """Looking must not move the instant of anything."""
    with_journal = {}

    def watch(bot):
        TurnJournal().watch(bot.aggregators)

    def do_not(bot):
        pass

    for prepare in (watch, do_not):
        outcome = play(
            conversations.chain.but(assemble=setting_up(prepare)),
            TRANSACTIONAL,
            At(4.0),
            trace=True,
        )
        with_journal[prepare] = (outcome.trace, outcome.history, outcome.ticks, outcome.events)
    assert with_journal[watch] == with_journal[do_not]


def test_what_is_not_watched_any_more_is_not_recorded():
    context, journal = TransactionalLLMContext(), TurnJournal()
    stop = journal.watch(context)
    context.begin_turn()
    stop()
    context.begin_turn()

    assert events(journal)[-1] == ("turn started", 1, None)

    journal.watch(context)
    context.begin_turn()
    assert events(journal)[-1] == ("turn started", 3, None)


def test_conversations_of_one_journal_are_told_apart():
    """Two calls at the same time have turns of the same number."""
    journal, one, other = TurnJournal(), TransactionalLLMContext(), TransactionalLLMContext()
    journal.watch(one)
    journal.watch(other)
    one.begin_turn()
    other.begin_turn()

    started = [e for e in journal.entries if e.event is JournalEvent.TURN_STARTED]
    assert [(entry.conversation, entry.epoch) for entry in started] == [(1, 1), (2, 1)]
    assert "Conversation 2, turn 1" in journal.html()
    assert journal.table().splitlines()[0].split()[0] == "conv"


@pytest.mark.parametrize(
    "target",
    (
        pytest.param(LLMContext(), id="context"),
        pytest.param(LLMContextAggregatorPair(LLMContext()), id="pair"),
        pytest.param(LLMContextAggregatorPair(LLMContext()).user(), id="aggregator"),
        pytest.param("context", id="text"),
    ),
)
def test_what_has_no_turns_cannot_be_watched_and_the_error_says_what_can(target):
    with pytest.raises(TypeError, match="TransactionalLLMContext"):
        TurnJournal().watch(target)


def test_each_part_of_a_pair_leads_to_its_conversation():
    pair = TransactionalLLMContextAggregatorPair(TransactionalLLMContext())
    for target in (pair, pair.user(), pair.assistant()):
        journal = TurnJournal()
        journal.watch(target)
        context = pair.user().context
        assert isinstance(context, TransactionalLLMContext)
        epoch = context.begin_turn()
        assert events(journal)[-1] == ("turn started", epoch, None)


# --- time ------------------------------------------------------------------------------------


async def test_time_is_that_of_the_running_loop_counted_from_the_first_entry(virtual_time):
    """In virtual time a journal is the same on every run."""
    context, journal = watched()
    await asyncio.sleep(5)
    context.end_turn()
    await asyncio.sleep(2.5)
    context.begin_turn()

    assert [entry.at for entry in journal.entries] == [0.0, 2.5]
    assert journal.began_at is not None
    assert journal.began_at.isoformat() == "2026-01-01T00:00:05+00:00"


def test_the_same_conversation_gives_the_same_journal():
    once, twice = (recorded(conversations.chain, At(4.0)) for _ in range(2))

    assert once.json_lines() == twice.json_lines()
    assert once.html() == twice.html()


def test_without_a_loop_time_goes_on():
    """A context is used by hand in scripts and tests that have no loop."""
    context, journal = watched()
    context.end_turn()
    context.begin_turn()

    first, second = journal.entries
    assert 0.0 == first.at <= second.at < 60


# --- memory ----------------------------------------------------------------------------------


def test_a_journal_keeps_its_limit_and_counts_what_it_dropped():
    context, journal = watched(limit=4)
    for _ in range(50):
        context.begin_turn()

    assert [entry.epoch for entry in journal.entries] == [48, 49, 49, 50]
    assert journal.dropped == 96
    assert "96 older entries" in journal.table()
    assert "96 older entries" in journal.html()


def test_a_journal_keeps_no_conversation_in_memory():
    """One journal may watch a server's calls for months."""
    context, journal = watched()
    context.begin_turn()
    gone = weakref.ref(context)
    del context
    gc.collect()

    assert gone() is None
    assert events(journal)[-1] == ("turn started", 1, None)
    other = TransactionalLLMContext()
    journal.watch(other)
    other.begin_turn()
    assert journal.entries[-1].conversation == 2


def test_a_journal_holds_no_round():
    """Rounds hold texts, which would stay in memory as long as the journal."""
    context, journal = watched()
    context.begin_turn()
    round = weakref.ref(context.stage_assistant_tool_calls([call("call_1")]))
    context.rollback()
    for number in range(600):  # until the context itself has forgotten it
        context.stage_assistant_tool_calls([call(f"later_{number}")])
        context.rollback()
    gc.collect()

    assert round() is None
    assert events(journal)[2] == ("round staged", 1, 1)


def test_an_entry_is_bounded_however_large_a_round_and_its_ids_are():
    context, journal = watched()
    context.begin_turn()
    context.stage_assistant_tool_calls([call(f"{n:04}" + "x" * 10_000) for n in range(1000)])

    entry = journal.entries[-1]
    assert entry.call_count == 1000
    assert len(entry.calls) == 16
    assert {len(note.id) for note in entry.calls} == {64}
    assert "984 more" in journal.table()


@pytest.mark.parametrize("limit", (0, -1))
def test_a_journal_that_could_keep_nothing_is_refused(limit):
    with pytest.raises(ValueError, match=f"limit={limit}"):
        TurnJournal(limit)


def test_a_cleared_journal_starts_anew_and_still_watches():
    context, journal = watched(limit=1)
    context.begin_turn()
    context.begin_turn()
    journal.clear()

    assert journal.entries == () and journal.dropped == 0 and journal.began_at is None
    context.end_turn()
    assert [(entry.at, entry.epoch) for entry in journal.entries] == [(0.0, 2)]


# --- privacy ---------------------------------------------------------------------------------


def test_no_text_of_a_message_an_argument_or_a_result_gets_into_a_journal():
    context, journal = watched(tool_names=True)
    context.begin_turn()
    context.add_message({"role": "user", "content": SECRET})
    context.stage_assistant_tool_calls([call("call_1", arguments=json.dumps({"x": SECRET}))])
    context.stage_tool_result("call_1", SECRET)
    context.commit()

    for shown in (journal.table(), journal.json_lines(), journal.html(), repr(journal.entries)):
        assert SECRET not in shown
        assert "card number" not in shown


def test_tool_names_are_kept_only_on_request():
    for tool_names in (False, True):
        context, journal = watched(tool_names=tool_names)
        context.begin_turn()
        context.stage_assistant_tool_calls([call("call_1", name="charge_card")])

        for shown in (journal.table(), journal.json_lines(), journal.html()):
            assert ("charge_card" in shown) is tool_names


# --- the table and the lines -----------------------------------------------------------------


def test_the_table_has_one_line_for_each_entry():
    context, journal = watched()
    context.begin_turn()
    context.stage_assistant_tool_calls([call("call_1"), call("call_2")])
    context.stage_tool_result("call_2", [])
    context.end_turn()

    lines = str(journal).splitlines()
    assert lines[0].split() == ["time", "turn", "round", "event", "details"]
    assert len(lines) == 1 + len(journal.entries)
    assert lines[4].split(maxsplit=3)[1:3] == ["1", "1"]
    assert lines[4].endswith("round rolled back  [call_1], [call_2] answered; late")


def test_an_id_cannot_forge_a_line_of_the_table():
    """Ids come from the provider, and a model may choose them."""
    context, journal = watched(tool_names=True)
    context.begin_turn()
    forged = "x\n     0.000      9      9  round committed\r\x1b[2J\u202e\ud800"
    context.stage_assistant_tool_calls([call(forged, name=forged)])

    lines = journal.table().splitlines()
    assert len(lines) == 4
    assert lines[3].isprintable()
    journal.html().encode()
    journal.json_lines().encode()


def test_json_lines_hold_every_entry_and_only_what_applies(tmp_path):
    context, journal = watched()
    context.begin_turn()
    context.stage_assistant_tool_calls([call("call_1")])
    context.end_turn()
    journal.write_json_lines(tmp_path / "journal.jsonl")

    text = (tmp_path / "journal.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert len(lines) == len(journal.entries)
    assert lines[1] | {"at": 0} == {
        "at": 0,
        "event": "turn started",
        "conversation": 1,
        "epoch": 1,
    }
    assert lines[3] | {"at": 0} == {
        "at": 0,
        "event": "round rolled back",
        "conversation": 1,
        "epoch": 1,
        "round": 1,
        "calls": [
            {
                "id": "call_1",
                "arguments": 20,
                "result": None,
                "outlives_turn": False,
                "has_side_effects": False,
            }
        ],
        "call_count": 1,
        "is_late": True,
    }


# --- the page --------------------------------------------------------------------------------


class Page(HTMLParser):
    """Checks that a page nests as it should, and keeps its elements and its text."""

    VOID = {"meta", "input"}

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", "".join(self.texts))

    def with_class(self, name):
        return [a for _, a in self.elements if name in (a.get("class") or "").split()]


def lanes(page):
    """The HTML of each turn's lane."""
    body = page.split('<ol class="lanes">')[1].split("</section>")[0]
    return re.split(r'<li class="lane', body)[1:]


def test_the_page_shows_turns_as_lanes_and_what_became_of_each_round(tmp_path):
    journal = recorded(conversations.order, At(3.45))
    journal.write_html(tmp_path / "call.html", title="A call")
    text = (tmp_path / "call.html").read_text(encoding="utf-8")
    page = Page(text)

    first, second = lanes(text)
    assert "Turn 1" in first and "Turn 2" in second
    assert "bar rolled-back" in first and "bar committed" not in first
    assert "bar committed" in second and "bar rolled-back" not in second
    assert "response cut" in first and "response cut" not in second
    assert "remarkable" in first.split(">")[0]
    assert "A call" in page.text
    assert "Round 1 ✕ rolled back, 3.260 to 3.450 s, 1 call: get_order_status" in page.text


def test_a_call_that_outlives_its_turn_ends_in_the_lane_of_that_turn():
    slow = replace(conversations.order.tools[0], cancel_on_interruption=False, seconds=9.0)
    journal = recorded(conversations.order.but(tools=(slow,)), At(6.0))

    first = lanes(journal.html())[0]
    assert "Turn 1" in first
    assert "bar committed" in first
    assert "not all had reported when the turn was over" in first


def test_every_bar_lies_within_its_lane():
    slow = replace(conversations.order.tools[0], cancel_on_interruption=False, seconds=9.0)
    journal = recorded(conversations.order.but(tools=(slow,)), At(6.0))
    bars = re.findall(r'class="bar [^"]+" style="left:([\d.]+)%;width:([\d.]+)%"', journal.html())

    assert bars
    for left, width in bars:
        assert 0 <= float(left) <= float(left) + float(width) <= 100.001


def test_the_page_needs_nothing_from_elsewhere_and_runs_no_script():
    """It can be mailed, archived, and opened where nothing may be loaded."""
    text = recorded(conversations.order, At(3.45)).html()
    page = Page(text)

    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "link", "img", "iframe", "object"}
    assert not [a for _, a in page.elements if {"src", "href"} & set(a)]
    assert not [name for _, a in page.elements for name in a if name.startswith("on")]
    assert "url(" not in text and "@import" not in text


def test_what_a_model_or_a_provider_chose_stays_text_on_the_page():
    forged = "</code><script>alert(1)</script>\"'&"
    context, journal = watched(tool_names=True)
    context.begin_turn()
    context.stage_assistant_tool_calls([call(forged, name=forged)])
    context.end_turn()
    page = Page(journal.html(title=forged))

    assert "script" not in {tag for tag, _ in page.elements}
    assert page.text.count("</code><script>alert(1)</script>\"'&") >= 3


def test_the_page_can_be_used_with_a_keyboard_and_a_screen_reader():
    page = Page(recorded(conversations.order, At(3.45)).html())

    assert ("html", {"lang": "en"}) in page.elements
    focusable = [a for _, a in page.elements if "tabindex" in a]
    assert focusable and all(a["role"] == "region" and a["aria-label"] for a in focusable)
    assert all("scope" in a for tag, a in page.elements if tag == "th")
    assert all(a["aria-hidden"] == "true" for a in page.with_class("rail"))
    headings = [tag for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert headings[:3] == ["h1", "h2", "h2"] and set(headings[3:]) == {"h2", "h3"}
    for _, attributes in page.elements:
        if named := attributes.get("aria-labelledby"):
            assert named in [a.get("id") for _, a in page.elements]


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def test_text_and_bars_stand_out_in_light_and_in_dark():
    """4.5 to 1 for text, 3 to 1 for drawings: WCAG 2.1, level AA."""
    style = TurnJournal().html().split("<style>")[1].split("</style>")[0]
    light, dark = re.findall(r":root \{([^}]*--ink[^}]*)\}", style)
    for palette in (light, dark):
        colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", palette))
        for ground in (colours["paper"], colours["panel"]):
            for text in (
                "ink",
                "soft",
                "committed",
                "rolled-back",
                "outliving",
                "staged",
                "fenced",
            ):
                assert contrast(colours[text], ground) >= 4.5, (text, ground)
            assert contrast(colours["response"], ground) >= 3


def test_an_empty_journal_and_one_that_lost_its_beginning_have_a_page():
    assert "0 entries" in Page(TurnJournal().html()).text

    context, journal = watched(limit=1)
    context.begin_turn()
    context.stage_assistant_tool_calls([call("call_1")])
    context.stage_tool_result("call_1", "shipped")
    context.commit()
    page = Page(journal.html())
    assert "began before the oldest entry" in page.text
    assert page.with_class("committed")


def test_a_journal_at_its_limit_has_a_page_of_a_size_that_opens():
    context, journal = watched(limit=10_000)
    for number in range(2_500):
        context.begin_turn()
        context.stage_assistant_tool_calls([call(f"call_{number}")])
        context.stage_tool_result(f"call_{number}", "shipped")
        context.commit()

    page = journal.html()
    assert len(journal.entries) == 10_000
    assert len(lanes(page)) == 2_500
    assert len(page) < 10_000_000
