# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A headless Chromium, driven through its DevTools protocol, and a bot for it to call."""

import asyncio
import base64
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

ROOT = Path(__file__).resolve().parents[2]
SPEECH = ROOT / "tests" / "fixtures" / "speech"
SETTINGS = (
    "DAILY_API_KEY DAILY_API_URL DAILY_ROOM_URL OPENAI_API_KEY OPENAI_BASE_URL STT TTS".split()
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

# The page asks for a microphone and gets what `window.speak` plays.
MICROPHONE = """
{
  let audio = null, line = null;
  const open = () => {
    if (audio) return;
    audio = new AudioContext();
    line = audio.createMediaStreamDestination();
    const silence = audio.createConstantSource();
    silence.offset.value = 0;
    silence.connect(line);
    silence.start();
  };
  navigator.mediaDevices.getUserMedia = async () => { open(); return line.stream; };
  window.speak = async (wav) => {
    open();
    const bytes = Uint8Array.from(atob(wav), (c) => c.charCodeAt(0));
    const source = audio.createBufferSource();
    source.buffer = await audio.decodeAudioData(bytes.buffer);
    source.connect(line);
    source.start();
    return source.buffer.duration;
  };
}
"""
LOADED = """
new Promise((loaded) => document.readyState === "complete" && location.href !== "about:blank"
  ? loaded() : addEventListener("load", loaded))
"""
NO_MICROPHONE = """
navigator.mediaDevices.getUserMedia = async () => {
  throw new DOMException("Permission denied", "NotAllowedError");
};
"""


def chromium() -> str | None:
    """Find the browser: what ``CHROMIUM`` names, or what is installed."""
    if named := os.environ.get("CHROMIUM"):
        return named
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def hurry(pid: int) -> None:
    """Let a program that has just begun go before what else the machine does, where allowed.

    Speech comes in real time, and is not recognised with pieces missing.
    """
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, -12)


class Page:
    """A page of the browser, and everything it complained about."""

    def __init__(self, connection: aiohttp.ClientWebSocketResponse):
        self._connection = connection
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._reading = asyncio.create_task(self._read())
        self.complaints: list[str] = []

    async def send(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._connection.send_json({"id": number, "method": method, "params": params})
        return await asyncio.wait_for(answer, 30)

    async def run(self, expression: str) -> Any:
        """Evaluate JavaScript and return its value, awaited."""
        answer = await self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(f"{expression!r}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    async def until(self, expression: str, *, within: float = 60) -> Any:
        """Wait until JavaScript is true of the page, looking at each of its changes."""
        watched = f"""new Promise((resolve, reject) => {{
            const look = () => {{
                const value = ({expression});
                if (!value) return;
                seen.disconnect(); clearTimeout(late); resolve(value);
            }};
            const seen = new MutationObserver(look);
            const late = setTimeout(() => {{
                seen.disconnect();
                reject(new Error(`not within {within} s; the page shows: ` + document.body.innerText));
            }}, {within * 1000});
            seen.observe(document, {{subtree: true, childList: true, attributes: true,
                                     characterData: true}});
            look();
        }})"""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        params = {"expression": watched, "awaitPromise": True, "returnByValue": True}
        await self._connection.send_json(
            {"id": number, "method": "Runtime.evaluate", "params": params}
        )
        found = await asyncio.wait_for(answer, within + 10)
        if "exceptionDetails" in found:
            text = found["exceptionDetails"]["exception"].get("description")
            raise AssertionError(f"{expression}: {text}")
        return found["result"].get("value")

    async def text(self, selector: str) -> str:
        return await self.run(f"document.querySelector({json.dumps(selector)}).innerText")

    async def click(self, selector: str) -> None:
        await self.run(f"document.querySelector({json.dumps(selector)}).click()")

    async def speak(self, recording: str) -> float:
        """Say a recording into the microphone; returns at once, with its seconds."""
        wav = base64.b64encode((SPEECH / f"{recording}.wav").read_bytes()).decode()
        return await self.run(f"speak({json.dumps(wav)})")

    async def resize(self, width: int, height: int, *, is_phone: bool = False) -> None:
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=is_phone,
        )

    async def screenshot(self, path: Path) -> None:
        image = await self.send("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(image["data"]))

    async def close(self) -> None:
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading

    async def _read(self) -> None:
        async for message in self._connection:
            event = json.loads(message.data)
            if answer := self._answers.pop(event.get("id", 0), None):
                if "error" in event:
                    answer.set_exception(AssertionError(event["error"]))
                else:
                    answer.set_result(event["result"])
                continue
            params = event.get("params", {})
            match event.get("method"):
                case "Runtime.exceptionThrown":
                    details = params["exceptionDetails"]
                    self.complaints.append(
                        details.get("exception", {}).get("description") or details["text"]
                    )
                case "Runtime.consoleAPICalled" if params["type"] in ("error", "assert"):
                    self.complaints.append(str(params["args"]))
                case "Log.entryAdded" if params["entry"]["level"] == "error":
                    self.complaints.append(str(params["entry"]))


@asynccontextmanager
async def open_page(url: str, *, prelude: str = MICROPHONE) -> AsyncIterator[Page]:
    """Open a page in a browser of its own, with a script that runs before the page's."""
    browser = chromium()
    assert browser, "no Chromium"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            browser,
            "--headless=new",
            "--remote-debugging-port=0",
            f"--user-data-dir={profile}",
            "--no-first-run",
            "--no-sandbox",  # it refuses to run as root with one
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--mute-audio",
            "--autoplay-policy=no-user-gesture-required",
            # Local addresses are hidden from pages that were not granted a microphone.
            "--disable-features=WebRtcHideLocalIpsWithMdns",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        hurry(process.pid)
        try:
            port = await _devtools_port(Path(profile) / "DevToolsActivePort", process)
            async with aiohttp.ClientSession() as http:
                listing = await http.get(f"http://127.0.0.1:{port}/json/list")
                target = next(t for t in await listing.json() if t["type"] == "page")
                async with http.ws_connect(
                    target["webSocketDebuggerUrl"], max_msg_size=0
                ) as connection:
                    page = Page(connection)
                    for domain in ("Page", "Runtime", "Log"):
                        await page.send(f"{domain}.enable")
                    await page.send("Page.addScriptToEvaluateOnNewDocument", source=prelude)
                    await page.send("Page.navigate", url=url)
                    await page.run(LOADED)
                    try:
                        yield page
                    finally:
                        await page.close()
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), 10)
            except TimeoutError:
                process.kill()
                await process.wait()


async def _devtools_port(file: Path, process: asyncio.subprocess.Process) -> int:
    for _ in range(600):
        if process.returncode is not None:
            raise AssertionError(f"Chromium ended with status {process.returncode}")
        with suppress(OSError, IndexError, ValueError):
            return int(file.read_text().split()[0])
        await asyncio.sleep(0.1)
    raise AssertionError("Chromium opened no DevTools port within a minute")


@contextmanager
def running(
    *command: str,
    ready: str,
    log: Path,
    within: float = 120,
    settings: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program as a user would, with these settings, once it says that it is ready."""
    inherited = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=inherited | dict(settings or {}),
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    hurry(process.pid)
    try:
        until_logged(log, ready, process, within=within)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def until_logged(log: Path, text: str, process: subprocess.Popen[bytes], *, within: float) -> None:
    """Wait until a program has written a text."""
    until = time.monotonic() + within
    while text not in log.read_text(errors="replace"):
        assert process.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < until, log.read_text(errors="replace")
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
