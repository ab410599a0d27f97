# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Pipecat's evals as the outside witness: they see the bot as any client sees it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pipecat.evals.scenario import EvalScenarioFile
from pipecat.evals.session import EvalSession, EvalSessionParams

from tests.examples.devtools import ROOT, free_port, running

pytestmark = pytest.mark.timeout(300)

SCENARIOS = EvalScenarioFile.load(ROOT / "examples" / "evals" / "interrupted.yaml")


@pytest.fixture(scope="module")
def bot_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    log = tmp_path_factory.mktemp("bot") / "bot.log"
    command = ("-m", "examples.daily_bot", "-t", "webrtc", "--port", str(port))
    with running(*command, ready="Uvicorn running", log=log):
        yield f"ws://localhost:{port}/ws"


@pytest.mark.parametrize("name", [scenario.name for scenario in SCENARIOS])
def test_the_bot_passes_pipecats_own_evals(name: str, bot_url: str, tmp_path: Path):
    """Somebody else's harness says so: the tool is cut, and the right order is answered once."""
    params = EvalSessionParams(connect_timeout_s=30, cache_dir=str(tmp_path))

    async def main():
        return await EvalSession.from_scenario(SCENARIOS[name], bot_url, params=params).run()

    result = asyncio.run(main())

    assert result.passed, result
