# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Puts our page in front of Pipecat's runner. It asks nothing of the internet."""

from pathlib import Path
from typing import Final

from fastapi import FastAPI, HTTPException
from fastapi.responses import FileResponse, RedirectResponse

FILES: Final = {
    "index.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
}
_FOLDER: Final = Path(__file__).parent / "page"
_HEADERS: Final = {
    "content-security-policy": "default-src 'self'; img-src data:; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}


def mount(app: FastAPI, *, opens_room: bool = False) -> None:
    """Serve the page at the root.

    Args:
        app: The runner's application, before the runner adds routes of its own.
        opens_room: Whether the root leads to a Daily room instead.
    """

    @app.get("/", include_in_schema=False, response_model=None)
    async def root() -> FileResponse | RedirectResponse:
        return RedirectResponse("/daily") if opens_room else _file("index.html")

    @app.get("/page/{name}", include_in_schema=False)
    async def part(name: str) -> FileResponse:
        if name not in FILES:
            raise HTTPException(404)
        return _file(name)


def _file(name: str) -> FileResponse:
    return FileResponse(_FOLDER / name, media_type=FILES[name], headers=_HEADERS)
