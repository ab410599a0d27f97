# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What the documentation shows runs, what it links to exists, and what it lists is tested."""

import ast
import contextlib
import importlib.util
import inspect
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest

from pipecat_turn_acid.events import StaleKind
from pipecat_turn_acid.testing import virtual_time

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("*.md"))
FENCE = re.compile(
    r"^```python( runs)?\n(.*?)^```\n(?:\n?```text output\n(.*?)^```\n)?", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    runs: bool
    code: str
    output: str | None

    def __str__(self):
        return f"{self.page.name}:{self.line}"

    @property
    def tree(self):
        padded = "\n" * self.line + self.code
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        return compile(padded, str(self.page), "exec", flags)


def blocks(page):
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text[: found.start()].count("\n") + 1, bool(found[1]), found[2], found[3])
        for found in FENCE.finditer(text)
    ]


BLOCKS = [block for page in PAGES for block in blocks(page)]


@pytest.mark.since(1, 13)
@pytest.mark.parametrize("block", [b for b in BLOCKS if b.runs], ids=str)
def test_a_block_that_is_marked_as_running_runs_and_prints_what_the_page_says(
    block, tmp_path, monkeypatch
):
    """In a folder of its own; in virtual time if it awaits anything."""
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()

    async def main():
        await eval(block.tree, {"__name__": "__docs__"})

    with contextlib.redirect_stdout(printed):
        if block.tree.co_flags & inspect.CO_COROUTINE:
            virtual_time.run(main)
        else:
            exec(block.tree, {"__name__": "__docs__"})
    if block.output is not None:
        assert printed.getvalue() == block.output


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_block_is_python_and_imports_what_there_is(block):
    """Blocks that need keys or a microphone do not run here, but their imports are checked."""
    assert block.tree
    for node in ast.walk(ast.parse(block.code)):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        if node.module.split(".")[0] != "pipecat_turn_acid":
            assert importlib.util.find_spec(node.module)
            continue
        assert [n.name for n in node.names if not can_be_imported(node.module, n.name)] == []


def can_be_imported(module: str, name: str) -> bool:
    """Whether ``from module import name`` works, also for a module nobody has imported yet."""
    if hasattr(importlib.import_module(module), name):
        return True
    return importlib.util.find_spec(f"{module}.{name}") is not None


def test_most_blocks_run():
    """A page of examples that nobody runs is a page of guesses."""
    assert sum(block.runs for block in BLOCKS) >= 8


def anchors(page):
    """What GitHub makes of the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), target


def test_the_index_lists_every_page():
    index = (DOCS / "README.md").read_text(encoding="utf-8")

    missing = [p.name for p in PAGES if p.name != "README.md" and f"({p.name})" not in index]
    assert not missing, f"add {missing} to docs/README.md"


def test_every_kind_of_late_work_is_named():
    page = (DOCS / "observing.md").read_text(encoding="utf-8")

    assert [kind for kind in get_args(StaleKind) if f"`{kind}`" not in page] == []


# --- the life of a turn ----------------------------------------------------------------------


def diagrams() -> Any:
    spec = importlib.util.spec_from_file_location("diagrams", DOCS / "diagrams.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_life_of_a_turn_is_what_the_script_writes():
    """The diagrams cannot differ from the tables that are the rules."""
    module = diagrams()

    assert module.main(["--check"]) == 0


def test_the_check_of_the_life_of_a_turn_can_fail(tmp_path):
    module = diagrams()
    page = module.PAGE.read_text(encoding="utf-8")
    module.PAGE = tmp_path / "page.md"
    module.PAGE.write_text(page.replace("staged --> complete", "staged --> fenced"))

    assert module.main(["--check"]) == 1
    assert module.main([]) == 0
    assert module.PAGE.read_text(encoding="utf-8") == page


# --- the differences -------------------------------------------------------------------------


def entries():
    text = (DOCS / "differences.md").read_text(encoding="utf-8")
    return re.findall(r"^- \*\*.*?(?=^- |^#|\Z)", text, re.M | re.S)


def test_every_difference_names_its_rule_and_its_test():
    contract = (DOCS / "contract.md").read_text(encoding="utf-8")
    rules = set(re.findall(r"^### (\d+)\. ", contract, re.M))

    assert len(rules) == 15
    assert len(entries()) > 25
    for entry in entries():
        named = re.search(r"\bRules? ([\d, and]+?)\.\s", entry)
        assert named, entry
        assert set(re.findall(r"\d+", named[1])) <= rules, entry
        assert re.search(r"`test_\w+`", entry), entry


def test_the_list_of_differences_and_its_tests_are_the_same():
    """An entry without a test is a claim, and a test without an entry a surprise."""
    source = (DOCS.parent / "tests" / "test_differences.py").read_text(encoding="utf-8")
    tested = set(re.findall(r"^def (test_\w+)", source, re.M))
    listed = set(re.findall(r"`(test_\w+)`", "".join(entries())))

    assert listed == tested
