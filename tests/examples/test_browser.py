# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The browser bot as a person meets it: a real browser, a microphone, and talking over a tool.

``SCREENSHOTS=docs/images`` keeps what the browser showed.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from examples.kit.model import order_in
from pipecat_turn_acid.testing.checks import check_request, errors
from tests.examples.devtools import (
    MICROPHONE,
    NO_MICROPHONE,
    ROOT,
    Page,
    chromium,
    free_port,
    open_page,
    running,
)

pytestmark = pytest.mark.timeout(600)

READY = "document.querySelector('#status').dataset.state === 'ready'"
STILL = {"name": "prefers-reduced-motion", "value": "reduce"}
RUNNING = "[...document.querySelectorAll('#rounds > [data-state=staged]')].some(r => {what})"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bot without a key, started once; every call has a session of its own."""
    if chromium() is None:
        message = "no Chromium: apt-get install chromium, or name one in the variable CHROMIUM"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    port = free_port()
    log = tmp_path_factory.mktemp("bot") / "bot.log"
    command = ("-m", "examples.daily_bot", "-t", "webrtc", "--port", str(port))
    with running(*command, ready="Uvicorn running", log=log):
        yield f"http://localhost:{port}/"
        complaints = re.findall(r"^.*\| ERROR .*$", log.read_text(errors="replace"), re.MULTILINE)
    assert complaints == []


def visit(
    address: str, visitor: Callable[[Page], Awaitable[None]], prelude: str = MICROPHONE
) -> None:
    async def main() -> None:
        async with open_page(address, prelude=prelude) as page:
            await visitor(page)
            # A bot whose caller just disappears waits for a while, and its runner waits for it.
            await page.click("#connect")
            await page.until("document.querySelector('#status').dataset.state === 'idle'")
            await page.send("Page.navigate", url="about:blank")
            assert page.complaints == []

    asyncio.run(main())


async def keep_screenshots(page: Page, name: str) -> None:
    if folder := os.environ.get("SCREENSHOTS"):
        await page.resize(1280, 860)
        await page.screenshot(ROOT / folder / f"{name}.png")
        await page.resize(390, 844, is_phone=True)
        await page.screenshot(ROOT / folder / f"{name}-phone.png")
        await page.resize(1280, 860)


async def connect(page: Page) -> None:
    await page.resize(1280, 860)
    await page.send("Emulation.setEmulatedMedia", features=[STILL])
    await page.click("#connect")
    await page.until(READY)


async def counts(page: Page) -> dict[str, int]:
    names = ("staged", "committed", "rolled-back")
    return {name: int(await page.text(f"#{name}")) for name in names}


async def heard(page: Page, times: int) -> None:
    await page.until(f"document.querySelectorAll('#talk .you').length >= {times}")


async def said(page: Page, text: str, times: int = 1) -> None:
    """Wait until the bot has said something to its end, so often."""
    line = f"e.textContent.includes({text!r}) && !e.querySelector('.unsaid').textContent"
    await page.until(
        f"[...document.querySelectorAll('#talk .bot:not(.cut)')].filter(e => {line}).length"
        f" >= {times}"
    )


async def remembered(page: Page, text: str) -> None:
    line = f"e.textContent.includes({text!r})"
    await page.until(f"[...document.querySelectorAll('#history > li')].some(e => {line})")


async def history(page: Page) -> list[dict[str, Any]]:
    """The history as the bot told it over RTVI, which the page keeps."""
    return await page.run("window.turnAcid.history")


def test_talking_over_a_tool_rolls_its_round_back(address: str):
    """What a person decides by: I correct the number, and hear about the right order."""

    async def visitor(page: Page) -> None:
        # Given a caller whose order is being looked up
        await connect(page)
        await page.speak("order-ask")
        await page.until(RUNNING.format(what="r.textContent.includes('4471')"))
        await keep_screenshots(page, "staged")

        # when the caller corrects the number
        await page.speak("order-correct")

        # then one round is rolled back, and the right order is answered and remembered
        await said(page, "Order 4472 is out for delivery and arrives today.")
        await remembered(page, "Order 4472 is out for delivery and arrives today.")
        assert await counts(page) == {"staged": 0, "committed": 1, "rolled-back": 1}
        states = "[...document.querySelectorAll('#rounds > li')].map(r => r.dataset.state)"
        assert await page.run(states) == ["committed", "rolled back"]
        shown = await page.text("#history")
        assert "4471" not in shown.replace("What is the status of order 4471?", "")
        assert await page.run("document.querySelector('#problem').hidden")
        await keep_screenshots(page, "rolled-back")

    visit(address, visitor)


def test_ten_interruptions_leave_a_history_that_reads_right(address: str):
    """Callers interrupt all the time; the tenth time must be as clean as the first."""

    async def visitor(page: Page) -> None:
        # Given five times: an order, corrected while it is looked up, and the answer cut off too
        await connect(page)
        for time in range(1, 6):
            await page.speak("order-ask")
            await page.until(RUNNING.format(what="r.textContent.includes('4471')"))
            await page.speak("order-correct")
            await page.until(
                "[...document.querySelectorAll('#talk .bot .said')]"
                f".filter(e => e.textContent.startsWith('Order 4472')).length >= {time}"
            )
            if time == 5:
                break
        # when the caller cuts the last answer, and lets the bot finish at last
        await page.speak("refunds-never-mind")
        await said(page, "We are open from nine to six on every day but Sunday.")
        await remembered(page, "We are open from nine to six on every day but Sunday.")

        # then every cut call is gone, every other stands whole, and the server refused nothing
        assert await counts(page) == {"staged": 0, "committed": 5, "rolled-back": 5}
        kept = await history(page)
        assert errors(check_request({"model": "gpt-4.1", "messages": kept})) == []
        asked = [m["content"] for m in kept if m["role"] == "user"]
        assert [order_in(words) for words in asked] == ["4471", "4472"] * 5 + [""]
        assert "store hours" in asked[-1]
        calls = [c["function"]["arguments"] for m in kept for c in m.get("tool_calls", [])]
        assert len(calls) == 5 and all("4472" in call for call in calls)
        results = [m["content"] for m in kept if m["role"] == "tool"]
        assert len(results) == 5 and all("out for delivery" in result for result in results)
        assert await page.run("document.querySelector('#problem').hidden")
        await keep_screenshots(page, "ten-interruptions")

    visit(address, visitor)


def test_a_cut_booking_stays_on_record_and_is_looked_up(address: str):
    """A booking that may have been made is not made twice blindly."""

    async def visitor(page: Page) -> None:
        # Given a caller whose demo is being booked for three
        await connect(page)
        await page.speak("booking-ask")
        await page.until(RUNNING.format(what="r.textContent.includes('book_demo')"))

        # when the caller wants four instead
        await page.speak("booking-correct")

        # then the bot looks first, and moves the booking that was made after all
        await said(page, "The demo is booked for four o'clock.")
        await said(page, "I moved it from three o'clock.")
        kept = await history(page)
        calls = [c["function"]["name"] for m in kept for c in m.get("tool_calls", [])]
        assert calls == ["book_demo", "my_booking", "book_demo"]
        assert "INTERRUPTED" in next(m["content"] for m in kept if m["role"] == "tool")
        assert errors(check_request({"model": "gpt-4.1", "messages": kept})) == []
        await keep_screenshots(page, "side-effects")

    visit(address, visitor)


def test_without_a_microphone_the_caller_types(address: str):
    """Nobody is turned away: not by a missing microphone, and not by a second call."""

    async def visitor(page: Page) -> None:
        # Given a caller whose browser grants no microphone
        await connect(page)
        assert "You can type instead" in await page.text("#problem")

        async def types(words: str) -> None:
            await page.run(f"document.querySelector('#words').value = {words!r}")
            await page.run("document.querySelector('#write').requestSubmit()")

        # when the caller types, and types over the tool that runs
        await types("Where is order 4471?")
        await page.until(RUNNING.format(what="r.textContent.includes('4471')"))
        await types("No, order 4472!")

        # then the round is rolled back as if the caller had spoken
        await said(page, "Order 4472 is out for delivery and arrives today.")
        assert await counts(page) == {"staged": 0, "committed": 1, "rolled-back": 1}

        # and the caller can hang up, and call again
        await page.click("#connect")
        await page.until("document.querySelector('#status').dataset.state === 'idle'")
        await page.click("#connect")
        await page.until(READY)
        await page.until("document.querySelector('#committed').textContent === '0'")

    visit(address, visitor, NO_MICROPHONE)


def test_the_page_is_accessible_and_fits_a_phone(address: str):
    """Everything has a name, headings nest, colours contrast, nothing is cut off at 320 pixels."""

    async def visitor(page: Page) -> None:
        await connect(page)
        await page.run(
            "document.querySelector('#words').value = 'Where is order 4472?';"
            "document.querySelector('#write').requestSubmit()"
        )
        await remembered(page, "Order 4472 is out for delivery and arrives today.")

        tree = await page.send("Accessibility.getFullAXTree")
        nameless = [
            node["role"]["value"]
            for node in tree["nodes"]
            if not node["ignored"]
            and node["role"]["value"] in ("button", "textbox", "list", "heading", "link", "region")
            and not node.get("name", {}).get("value")
            # A list inside an item is named by the item.
            and node["role"]["value"] != "list"
        ]
        assert nameless == []
        assert (
            await page.run(
                "[...document.querySelectorAll('h1, h2, h3, h4')].map(h => h.tagName).join(' ')"
            )
            == "H1 H2 H2 H2"
        )
        assert await page.run("document.documentElement.lang") == "en"

        for scheme in ("light", "dark"):
            await page.send(
                "Emulation.setEmulatedMedia",
                features=[STILL, {"name": "prefers-color-scheme", "value": scheme}],
            )
            assert await page.run(CONTRASTS) == []
        for width in (320, 390, 1280):
            await page.resize(width, 800, is_phone=width < 500)
            assert await page.run("document.documentElement.scrollWidth") <= width

    visit(address, visitor)


# Every text whose contrast with what is behind it is below 4.5 : 1, as WCAG 2.2 AA asks.
CONTRASTS = """
(() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = numbers(colour).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (numbers(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const weak = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || !node.checkVisibility()) continue;
    if (node.closest(":disabled")) continue;
    const [high, low] = [light(getComputedStyle(node).color), light(behind(node))]
      .sort((a, b) => b - a);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < 4.5) weak.push([texts.currentNode.textContent, contrast]);
  }
  return weak;
})()
"""
