"""Pictures of every view, in light and dark, for the documents: `make screenshots`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from pathlib import Path

from playwright.async_api import expect

from tests.browser.stack import a_stack
from tests.browser.visitor import NARROW, WIDE, Visitor, a_browser

OUT = Path(__file__).parent.parent.parent / "docs" / "screenshots"
SCHEMES = ("light", "dark")
PHONE = ("ring", "sequence")
WHOLE = ("plan", "finished", "sequence")
JOIN_TIMEOUT_S = 900.0
SHAPE = (2, 9, 4, 12, 6, 3)


async def main(out):
    out.mkdir(parents=True, exist_ok=True)
    async with a_stack() as stack, a_browser() as browser, contextlib.AsyncExitStack() as held:
        camera = Camera(browser, stack, out)
        finished = await _lived_in(stack, held)
        quiet = {"plan": "plan?change=move&node=3", "finished": f"sequences?id={finished}"}
        for scheme in SCHEMES:
            await camera.take(quiet, scheme)
        waiting = await _waiting(stack, held)
        for scheme in SCHEMES:
            await camera.take(waiting, scheme)
        # It takes commits, which would bury the others in the pictures of the log.
        for scheme in SCHEMES:
            await camera.take({"cms": "cms"}, scheme)
        phone = {name: waiting[name] for name in PHONE}
        await camera.take(phone, "light", size=NARROW, ending="phone")


async def _lived_in(stack, held):
    """A node has joined and its rows were moved, so that there are receipts and a rate."""
    node = await held.enter_async_context(stack.spare("node-4"))
    sequence = await stack.begin_join(node)
    await stack.until_over(sequence, timeout_s=JOIN_TIMEOUT_S)
    for _ in range(5):
        await stack.touch()
    return sequence


async def _waiting(stack, held):
    """A join that has started and waits for a node that does not answer. Gives what is pictured."""
    _, sequence = await held.enter_async_context(stack.waiting_join("node-5"))
    # New owners write what they do not read yet, and the ring shows both.
    await stack.start_join(sequence)
    go_on = held.enter_context(stack.paused("node-2"))
    # On the way back the node answers before the end of the sequence is awaited.
    held.callback(go_on)
    return {
        "sign-in": None,
        "ring": "ring?keyspace=shop",
        "nodes": "nodes",
        "sequences": "sequences",
        "sequence": f"sequences?id={sequence}",
        "log": f"log?entry={sequence}",
        "schema": "schema",
    }


class Camera:
    def __init__(self, browser, stack, out):
        self._browser = browser
        self._stack = stack
        self._out = out

    async def take(self, pictured, scheme, *, size=WIDE, ending=None):
        """One picture for each address; None is the page of somebody who is not signed in."""
        context = await self._browser.new_context(color_scheme=scheme, viewport=size)
        visitor = Visitor(await context.new_page(), self._stack.url)
        is_signed_in = False
        for name, address in pictured.items():
            if address is None:
                await visitor.load("", "#token")
            else:
                if not is_signed_in:
                    await visitor.sign_in(self._stack.tokens["operator"])
                    await visitor.page.goto("about:blank")
                    is_signed_in = True
                await visitor.open(address)
                await _settled(visitor.page, name)
                if name == "cms":
                    await self._busy(visitor.page)
            path = self._out / f"{name}-{ending or scheme}.png"
            await visitor.page.screenshot(path=path, full_page=name in WHOLE)
        await context.close()
        assert visitor.grave() == [], visitor.grave()

    async def _busy(self, page):
        """Commits, now more and now less of them, until their line has a shape."""
        line = page.get_by_role("img", name="Commits per second of late").locator("path").last
        for commits in SHAPE:
            for _ in range(commits):
                await self._stack.touch()
            before = await line.get_attribute("d")
            await expect(line).not_to_have_attribute("d", before)


async def _settled(page, name):
    if name == "plan":
        await page.click("#plan-show")
        await page.locator("#plan-answer").wait_for()
    if name == "log":
        await page.locator(".log-difference h3").first.wait_for()
    # Two answers later sparklines have their first points, and what is awaited is behind.
    await page.wait_for_timeout(2_500)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    sys.exit(asyncio.run(main(parser.parse_args().out)))
