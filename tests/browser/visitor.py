"""Somebody with a browser: what they see, and whatever the page does wrong on the way."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from urllib.parse import urlsplit

from playwright.async_api import TimeoutError as NotSeenError
from playwright.async_api import async_playwright, expect

NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDE = {"width": 1280, "height": 860}
NARROW = {"width": 360, "height": 740}
LOOK_TIMEOUT_MS = 20_000
NETWORK_CHANGED = "net::ERR_NETWORK_CHANGED"
"""An interface of the machine came or went, such as a container's: Chromium then breaks whatever
is under way, and no page can do anything about it but load anew."""
LOADS_MAX = 4

expect.set_options(timeout=LOOK_TIMEOUT_MS)


@contextlib.asynccontextmanager
async def a_browser():
    found = next(filter(None, map(shutil.which, NAMES)), None)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        # Without a system's own, the one that `make setup-browser` has fetched.
        browser = await playwright.chromium.launch(executable_path=found, args=arguments)
        try:
            yield browser
        finally:
            await browser.close()


class Visitor:
    """One page in a context of its own, and the list of its faults."""

    def __init__(self, page, url):
        self.page = page
        self.url = url
        self.faults: list[str] = []
        self._forgiven = [re.compile(NETWORK_CHANGED)]
        self._is_broken = False
        page.set_default_timeout(LOOK_TIMEOUT_MS)
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.faults.append(f"page error: {error}"))
        page.on("request", self._asked)
        page.on("requestfailed", self._failed)

    async def sign_in(self, token):
        """As if the token had been typed before."""
        script = (
            f"origin !== 'null' && sessionStorage.setItem('ringlog.token', {json.dumps(token)})"
        )
        await self.page.add_init_script(script)

    async def open(self, address):
        """Go to an address such as `ring?at=3` and wait until the view shows it."""
        return await self.load(f"#/{address}", _drawn(address.partition("?")[0]))

    async def shown(self, view):
        """Wait until a view is drawn; gives the part of the page that it fills."""
        main = self.page.locator(_drawn(view))
        await main.wait_for()
        return main

    async def load(self, address, sign):
        """Go there and wait for an element, again where the network of the machine changed."""
        found = self.page.locator(sign)
        for _ in range(LOADS_MAX):
            self._is_broken = False
            await self.page.goto(f"{self.url}/console/{address}")
            try:
                await found.wait_for()
            except NotSeenError:
                if not self._is_broken:
                    raise
                await self.page.goto("about:blank")
            else:
                break
        return found

    def forgive(self, pattern):
        """Let pass what a test provokes, such as a refusal that the browser reports too."""
        self._forgiven.append(re.compile(pattern))

    def grave(self):
        return [
            fault
            for fault in self.faults
            if not any(pattern.search(fault) for pattern in self._forgiven)
        ]

    def _failed(self, request):
        self._is_broken |= request.failure == NETWORK_CHANGED

    def _heard(self, message):
        # Chromium reports violations of the Content-Security-Policy as errors too.
        if message.type in ("error", "warning"):
            self.faults.append(f"console {message.type}: {message.text}")

    def _asked(self, request):
        wanted = urlsplit(request.url)
        if wanted.scheme in ("data", "blob", "about"):
            return
        if wanted.netloc != urlsplit(self.url).netloc:
            self.faults.append(f"request to another host: {request.url}")


def _drawn(view):
    return f'main[data-view="{view}"][data-shown]:not([data-shown=""])'
