"""Pictures of every view, in light and dark, for the documents: `make screenshots`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from pathlib import Path

from playwright.async_api import expect

from tests.browser.gate import a_gate
from tests.browser.joins import a_join, address_of, copying, step
from tests.browser.stack import a_stack
from tests.browser.visitor import NARROW, WIDE, Visitor, a_browser
from tests.integration.test_cms_reports import now_us, tell
from tests.integration.test_cms_sequences import PREPARED, drive

OUT = Path(__file__).parent.parent.parent / "docs" / "screenshots"
SCHEMES = ("light", "dark")
PHONE = ("ring", "sequence")
WHOLE = ("plan", "finished", "sequence", "movement")
JOIN_TIMEOUT_S = 900.0
SHAPE = (2, 9, 4, 12, 6, 3)
MOVES_MAX = 6
ROWS = 20_000
"""So many that what a join moves of them tells a rate."""


async def main(out):
    out.mkdir(parents=True, exist_ok=True)
    async with a_browser() as browser:
        camera = Camera(browser, out)
        async with a_stack(rows=ROWS) as stack, contextlib.AsyncExitStack() as held:
            await _cluster(camera, stack, held)
        async with a_join(clock_us=now_us) as client:
            await _movement(camera, client)


async def _cluster(camera, stack, held):
    where = (stack.url, stack.tokens["operator"])
    finished = await _lived_in(stack, held)
    quiet = {"plan": "plan?change=move&node=3", "finished": f"sequences?id={finished}"}
    for scheme in SCHEMES:
        await camera.take(where, quiet, scheme)
    waiting = await _waiting(stack, held)
    # A step after its Prepare, new owners wrote what they did not read yet.
    waiting["past"] = f"ring?keyspace=shop&at={finished + 1}"
    for scheme in SCHEMES:
        await camera.take(where, waiting, scheme)
    for scheme in SCHEMES:
        async with a_gate(stack.url) as gate:
            lost = {"lost": "nodes?node=2"}
            await camera.take((gate.url, where[1]), lost, scheme, before=gate.shut)
    # It takes commits, which would bury the others in the pictures of the log.
    for scheme in SCHEMES:
        await camera.take(where, {"cms": "cms"}, scheme, touch=stack.touch)
    phone = {name: waiting[name] for name in PHONE}
    await camera.take(where, phone, "light", size=NARROW, ending="phone")


async def _movement(camera, client):
    """Rows on their way, told in a driver's place: so few are moved too soon to be pictured."""
    assert await step(client) == "start"
    for node in (1, 2, 3, 4):
        await tell(client, node)
    for scheme in SCHEMES:
        await drive(client, copying(1_180, 42.0))
        await camera.take(
            (address_of(client), None), {"movement": f"sequences?id={PREPARED}"}, scheme
        )


async def _lived_in(stack, held):
    """A node has joined and its rows were moved, so that there are receipts and a rate."""
    node = await held.enter_async_context(stack.spare("node-4"))
    sequence = await stack.begin_join(node)
    await stack.until_over(sequence, timeout_s=JOIN_TIMEOUT_S)
    await stack.until_clean()
    # A movement that ends between two reports of its driver tells no rate; others may.
    for number in range(1, MOVES_MAX + 1):
        if await stack.knows_rate():
            break
        elsewhere = [(part - 2) * 2**62 + number * 2**58 for part in range(4)]
        move = await stack.begin_move(node, elsewhere)
        await stack.until_over(move, timeout_s=JOIN_TIMEOUT_S)
        await stack.until_clean()
    assert await stack.knows_rate(), "no driver told how fast it moved rows"
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
    def __init__(self, browser, out):
        self._browser = browser
        self._out = out

    async def take(self, where, pictured, scheme, *, size=WIDE, ending=None, **more):
        """One picture for each address; None is the page of somebody who is not signed in."""
        url, token = where
        context = await self._browser.new_context(color_scheme=scheme, viewport=size)
        visitor = Visitor(await context.new_page(), url)
        is_signed_in = False
        for name, address in pictured.items():
            if address is None:
                await visitor.load("", "#token")
            else:
                if not is_signed_in and token is not None:
                    await visitor.sign_in(token)
                    await visitor.page.goto("about:blank")
                    is_signed_in = True
                await visitor.open(address)
                await _settled(visitor, name, **more)
            path = self._out / f"{name}-{ending or scheme}.png"
            await visitor.page.screenshot(path=path, full_page=name in WHOLE)
        await context.close()
        assert visitor.grave() == [], visitor.grave()


async def _settled(visitor, name, *, before=None, touch=None):
    page = visitor.page
    if name == "plan":
        await page.click("#plan-show")
        await page.locator("#plan-answer").wait_for()
    if name == "log":
        await page.locator(".log-difference h3").first.wait_for()
    # Two answers later sparklines have their first points, and what is awaited is behind.
    await page.wait_for_timeout(2_500)
    if before is not None:
        visitor.forgive("net::ERR_")
        before()
        await expect(page.locator("#connection")).to_have_attribute("data-state", "stale")
    if touch is not None:
        await _busy(page, touch)


async def _busy(page, touch):
    """Commits, now more and now less of them, until their line has a shape."""
    line = page.get_by_role("img", name="Commits per second of late").locator("path").last
    for commits in SHAPE:
        for _ in range(commits):
            await touch()
        before = await line.get_attribute("d")
        await expect(line).not_to_have_attribute("d", before)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    sys.exit(asyncio.run(main(parser.parse_args().out)))
