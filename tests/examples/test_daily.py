# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The Daily bot up to the door of its room, against a stand-in for Daily's REST interface."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from tests.examples.devtools import ROOT, SETTINGS, free_port, running, until_logged

pytestmark = pytest.mark.timeout(180)

ROOM = "shop-4471"
TOKEN = "meeting-token-of-the-test"
JOIN_SECS = 60
"""The Daily client gives up on a room that does not exist after about 20 s."""


class Daily:
    """Daily's interface for rooms and tokens."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, object]]] = []
        self.url = ""
        self.room_url = "https://turn-acid.daily.invalid/" + ROOM

    async def __aenter__(self) -> "Daily":
        app = web.Application()
        app.router.add_post("/v1/rooms", self._create_room)
        app.router.add_post("/v1/meeting-tokens", self._create_token)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _note(self, request: web.Request) -> dict[str, object]:
        body = await request.json()
        self.requests.append((request.path, request.headers.get("authorization", ""), body))
        return body

    async def _create_room(self, request: web.Request) -> web.Response:
        body = await self._note(request)
        return web.json_response(
            {
                "id": "5e3cf703",
                "name": body["name"],
                "api_created": True,
                "privacy": "public",
                "url": self.room_url,
                "created_at": "2026-01-01T00:00:00.000Z",
                "config": {},
            }
        )

    async def _create_token(self, request: web.Request) -> web.Response:
        await self._note(request)
        return web.json_response({"token": TOKEN})


def test_the_bot_makes_a_room_and_joins_it(tmp_path: Path):
    """All that can be known without an account: the room, the token, and the way in."""
    log = tmp_path / "bot.log"

    async def main() -> None:
        async with Daily() as daily:
            port = free_port()
            # Given the bot, started as a user starts it
            bot = running(
                *("-m", "examples.daily_bot", "-t", "daily", "--port", str(port)),
                ready="Uvicorn running",
                log=log,
                settings={
                    "DAILY_API_KEY": "daily-key",
                    "DAILY_API_URL": daily.url,
                    "OPENAI_API_KEY": "openai-key",
                },
            )
            process = await asyncio.to_thread(bot.__enter__)
            try:
                # when somebody opens its address
                async with aiohttp.ClientSession() as caller:
                    root = await caller.get(f"http://localhost:{port}/", allow_redirects=False)
                    assert root.headers["location"] == "/daily"
                    room = await caller.get(f"http://localhost:{port}/daily", allow_redirects=False)

                # then a room and a token for it were made, and the caller is sent there
                assert room.headers["location"] == daily.room_url
                (rooms, key, made), (tokens, key_again, asked) = daily.requests
                assert (rooms, tokens) == ("/v1/rooms", "/v1/meeting-tokens")
                assert key == key_again == "Bearer daily-key"
                assert made["properties"]["eject_at_room_exp"] is True  # pyright: ignore
                assert asked["properties"]["room_name"] == ROOM  # pyright: ignore
                assert asked["properties"]["is_owner"] is True  # pyright: ignore

                # and the bot, whole, has come to the door: there is no such room behind it
                joining = f"Joining {daily.room_url}"
                refused = f"Error joining {daily.room_url}"
                await asyncio.to_thread(until_logged, log, refused, process, within=JOIN_SECS)
                assert joining in log.read_text(errors="replace")
                assert process.poll() is None

                # and it goes when it is told to
                told = time.monotonic()
            finally:
                await asyncio.to_thread(bot.__exit__, None, None, None)
            assert time.monotonic() - told < 20

    asyncio.run(main())


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({}, ["DAILY_API_KEY", "OPENAI_API_KEY"]),
        ({"DAILY_API_KEY": "key"}, ["OPENAI_API_KEY"]),
        ({"OPENAI_API_KEY": "key"}, ["DAILY_API_KEY"]),
    ],
)
@pytest.mark.parametrize("how", [["-t", "daily"], ["-d"]])
def test_without_a_key_it_says_which_and_offers_the_browser(
    how: list[str], given: dict[str, str], missing: list[str]
):
    """Nobody searches a stack trace for what to set."""
    environment = {n: v for n, v in os.environ.items() if n not in SETTINGS} | given

    told = subprocess.run(
        [sys.executable, "-m", "examples.daily_bot", *how],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert told.returncode == 1
    named = [
        name for name in ("DAILY_API_KEY", "OPENAI_API_KEY") if f"{name} is not set" in told.stderr
    ]
    assert named == missing
    assert "python -m examples.daily_bot -t webrtc" in told.stderr
    assert "Traceback" not in told.stderr
