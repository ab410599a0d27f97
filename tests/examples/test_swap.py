# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The two swap examples: the same bot but for the diff that the documentation shows."""

import asyncio
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pipecat.evals.scenario import EvalScenarioFile
from pipecat.evals.session import EvalSession, EvalSessionParams

from examples.kit import model
from pipecat_turn_acid.testing.checks import Rule, check_history
from pipecat_turn_acid.testing.script import ChatRequest
from tests.examples.devtools import ROOT, free_port, running

pytestmark = pytest.mark.timeout(180)

CONVERSATION = """
name: swap
scenarios:
  - name: corrected
    turns:
      - user: "What is the status of order 4471?"
        expect:
          - event: function_call
      - user: "Sorry, I meant order 4472."
        send_after: { event: function_call, delay_ms: 500 }
        expect:
          - event: llm_response
            text_contains: "Order 4472 is out for delivery"
"""


def swap_diff_tool() -> ModuleType:
    spec = spec_from_file_location("swap_diff", ROOT / "docs" / "swap_diff.py")
    assert spec and spec.loader
    tool = module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def test_the_documented_diff_is_the_diff():
    """A reader copies it; `python docs/swap_diff.py --write` brings it up to date."""
    tool = swap_diff_tool()

    assert tool.swap_diff()
    assert tool.shown((ROOT / "docs" / "examples.md").read_text()) == tool.swap_diff()


def test_the_diff_is_three_names_and_their_imports():
    """Migrating is one search and replace, and nothing else."""
    changed = [
        text
        for text in swap_diff_tool().swap_diff().splitlines()
        if text[:1] in "+-" and text[:3] not in ("+++", "---")
    ]
    put_in = [
        text[1:].strip()
        for text in changed
        if text.startswith("+") and "(" in text and "import" not in text
    ]

    assert put_in == [
        "context = TransactionalLLMContext(tools=[lookup_order])",
        "aggregators = TransactionalLLMContextAggregatorPair(",
        "TransactionalOpenAILLMService(),",
    ]


def requests_of(bot: str, folder: Path) -> list[list[dict[str, Any]]]:
    """Run a bot against a strict server, correct it while its tool runs, and see its requests."""
    (folder / "swap.yaml").write_text(CONVERSATION)
    (scenario,) = EvalScenarioFile.load(folder / "swap.yaml")

    async def main() -> list[list[dict[str, Any]]]:
        server = model.server()
        port = free_port()
        async with server.serve() as base_url:
            process = running(
                *(bot, "-t", "webrtc", "--port", str(port)),
                ready="Uvicorn running",
                log=folder / "bot.log",
                settings={"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "scripted"},
            )
            await asyncio.to_thread(process.__enter__)
            try:
                params = EvalSessionParams(connect_timeout_s=30)
                result = await EvalSession.from_scenario(
                    scenario, f"ws://localhost:{port}/ws", params=params
                ).run()
            finally:
                await asyncio.to_thread(process.__exit__, None, None, None)
        assert result.passed, result
        return [ChatRequest(record.body).messages for record in server.requests]

    return asyncio.run(main())


@pytest.mark.since(1, 13)  # Evals join a bot that runs already.
def test_the_stock_bot_shows_the_model_a_placeholder(tmp_path: Path):
    """What the swap is for: for stock Pipecat the call that was cut is there for good."""
    requests = requests_of("examples/swap_stock.py", tmp_path)

    found = {finding.rule for finding in check_history(requests[-1])}
    assert Rule.PLACEHOLDER in found


@pytest.mark.since(1, 13)  # Evals join a bot that runs already.
def test_the_transactional_bot_shows_the_model_whole_rounds_only(tmp_path: Path):
    """After the swap every request is as if the call that was cut had never been made."""
    requests = requests_of("examples/swap.py", tmp_path)

    assert [finding for request in requests for finding in check_history(request)] == []
    calls = [c["function"]["arguments"] for m in requests[-1] for c in m.get("tool_calls", [])]
    assert calls == ['{"order": "4472"}']
