# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Pipecat's evals as the outside witness: they see the bot as any client sees it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pipecat.evals.results import EvalScriptResult
from pipecat.evals.scenario import EvalScenarioFile, EvalScriptScenario
from pipecat.evals.session import EvalSession, EvalSessionParams

from tests.examples.devtools import ROOT, free_port, running

pytestmark = pytest.mark.timeout(300)

SCENARIOS = EvalScenarioFile.load(ROOT / "examples" / "evals" / "interrupted.yaml")


@contextmanager
def bot(folder: Path, settings: dict[str, str] | None = None) -> Iterator[str]:
    port = free_port()
    command = ("-m", "examples.daily_bot", "-t", "webrtc", "--port", str(port))
    log = folder / "bot.log"
    with running(*command, ready="Uvicorn running", log=log, settings=settings):
        yield f"ws://localhost:{port}/ws"


def judge(name: str, bot_url: str, folder: Path) -> EvalScriptResult:
    params = EvalSessionParams(connect_timeout_s=30, cache_dir=str(folder))

    async def main() -> EvalScriptResult:
        scenario = SCENARIOS[name]
        assert isinstance(scenario, EvalScriptScenario)
        return await EvalSession.from_scenario(scenario, bot_url, params=params).run()

    return asyncio.run(main())


@pytest.fixture(scope="module")
def bot_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with bot(tmp_path_factory.mktemp("bot")) as url:
        yield url


@pytest.mark.parametrize("name", [scenario.name for scenario in SCENARIOS])
def test_the_bot_passes_pipecats_own_evals(name: str, bot_url: str, tmp_path: Path):
    """Somebody else's harness says so: the tool is cut, and the right order is answered once."""
    result = judge(name, bot_url, tmp_path)

    assert result.passed, result


def test_the_bot_passes_them_with_speech_over_http(tmp_path: Path):
    """The same bot hears and speaks through OpenAI's endpoints, which the scripted server has."""
    with bot(tmp_path, {"STT": "openai", "TTS": "openai"}) as url:
        result = judge("interrupted/audio", url, tmp_path)

    assert result.passed, result
