"""The console with 1,000 nodes and 100,000 entries, in a real Chromium.

How long the first view takes, from navigation until it is painted, for the ring and for the other
views that grow with the cluster; how long the longest frame is while somebody drags the slider over
all epochs; then pages of the log and a search in it.
Chromium, the CMS and Postgres share the machine, so figures from a busy one say little.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

import msgspec
from playwright.async_api import Browser, Page, TimeoutError, async_playwright  # noqa: A004 its own
from rich.console import Console

from bench.core import cluster, printed, tokens
from bench.processes import PATIENT, Service, serving
from client.answers import Committed
from client.client import Client
from client.proposals import Proposal
from metadata.directory import NodeId
from metadata.image import image_of
from metadata.locks import SequenceId
from services.local.ports import HeldPorts
from transformations.ending import RetireSequence
from transformations.extensions import SetExtension
from transformations.initialize import Initialize
from transformations.move import FinishMove, MidMove, PrepareMove, StartMove

NODES = 1_000
ENTRIES = 100_000
BATCH = 1_000
MOVE_EVERY = 5_000
NAMES = 1_000
ROUNDS = 5
SLIDES = 2
SLIDE_MOVES = 120
SLIDE_STEP_S = 0.025
FIRST_VIEW_LIMIT_MS = 2_000.0
FRAME_LIMIT_MS = 200.0
FRAME_NOTABLE_MS = 50.0
SEED = 7
TIMEOUT_MS = 60_000
FIRST_VIEWS = ("ring", "nodes", "plan", "sequences")
NAMES_OF_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
SIZE = {"width": 1280, "height": 860}

# Runs before the page's own scripts. `painted` is when the first frame with a drawn view was over.
WATCH = """
(() => {
  const watch = window.__watch = {painted: null, frames: [], isOn: false, tasks: []};
  const look = () => {
    const main = document.querySelector("main[data-shown]");
    if (main && main.dataset.shown !== "" && watch.painted === null) {
      requestAnimationFrame(() => requestAnimationFrame(() => {
        watch.painted ??= performance.now();
        document.documentElement.dataset.painted = watch.painted;
      }));
    } else if (watch.painted === null) {
      requestAnimationFrame(look);
    }
  };
  requestAnimationFrame(look);
  let last = 0;
  const frame = (now) => {
    if (watch.isOn && last) watch.frames.push(now - last);
    last = watch.isOn ? now : 0;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  new PerformanceObserver((list) => {
    if (watch.isOn) watch.tasks.push(...list.getEntries().map((entry) => entry.duration));
  }).observe({type: "longtask"});
})();
"""


class Frames(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds between frames while sliding, and of tasks that held the page up.

    `worked` is what the longest tasks took of the processor: unlike the others, it is not longer
    where other programs are at work.
    """

    frames: list[float]
    tasks: list[float]
    shown: int
    worked: list[float] = []


async def bench(entries: int, nodes: int) -> int:
    console = Console()
    with tempfile.TemporaryDirectory(prefix="ringlog-bench-") as folder, HeldPorts() as ports:
        metadata, rng = cluster(nodes)
        founding = Initialize(name="bench", image=image_of(metadata))
        async with serving(Path(folder), ports, 1, founding=founding) as service:
            began_s = time.perf_counter()
            await filled(service, entries, nodes, rng)
            took_s = time.perf_counter() - began_s
            console.print(f"{nodes:,} nodes × 16 tokens, {entries:,} entries in {took_s:.0f} s")
            async with chromium() as browser:
                await show(console, browser, service, entries)
    return 0


async def filled(service: Service, entries: int, nodes: int, rng: random.Random) -> None:
    """Simple entries, and now and then a node that moves, so that epochs have different rings."""
    async with Client(service.url, patience=PATIENT) as client:
        number = 0
        while (left := entries - (await client.component("cluster"))["epoch"]) > 0:
            if number % (MOVE_EVERY // BATCH) == 0:
                await moved(client, NodeId(rng.randint(1, nodes)), rng)
            await client.commit_batch(
                [
                    Proposal(
                        transformation=SetExtension(
                            name=f"key{rng.randrange(NAMES)}", value=f"value {number} {item}"
                        ),
                        actor=f"client-{item % 5}",
                    )
                    for item in range(min(BATCH, left))
                ]
            )
            number += 1


async def moved(client: Client, node: NodeId, rng: random.Random) -> None:
    outcome = await client.commit(PrepareMove(node=node, tokens=tokens(rng)))
    assert isinstance(outcome, Committed), outcome
    assert outcome.result.sequence is not None, outcome
    sequence = SequenceId(outcome.result.sequence)
    for step in (StartMove, MidMove, FinishMove, RetireSequence):
        await client.commit(step(sequence=sequence))


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    found = next(filter(None, map(shutil.which, NAMES_OF_CHROMIUM)), None)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=found, args=arguments)
        try:
            yield browser
        finally:
            await browser.close()


async def show(console: Console, browser: Browser, service: Service, entries: int) -> None:
    firsts = {
        view: [await first_view(browser, service, view) for _ in range(ROUNDS)]
        for view in FIRST_VIEWS
    }
    for view, values in firsts.items():
        console.print(f"first views, {view}: {', '.join(f'{value:,.0f}' for value in values)} ms")
    slides = [await slid(browser, service, "ring") for _ in range(SLIDES)]
    log_slides = [await slid(browser, service, "log") for _ in range(SLIDES)]
    load = os.getloadavg()[0]
    table = printed(f"console, load of the machine {load:.1f}", "measure", "ms", "limit", "")
    for view, values in firsts.items():
        limited(table, f"first view, {view}, median", median(values), FIRST_VIEW_LIMIT_MS)
        limited(table, f"first view, {view}, worst", max(values), FIRST_VIEW_LIMIT_MS)
    for name, rounds in (("ring", slides), ("log", log_slides)):
        frames = [value for item in rounds for value in item.frames]
        tasks = [value for item in rounds for value in item.tasks]
        limited(table, f"longest frame, sliding on {name}", max(frames), FRAME_LIMIT_MS)
        limited(table, f"longest task, sliding on {name}", max(tasks, default=0.0), FRAME_LIMIT_MS)
        worked = max((value for item in rounds for value in item.worked), default=0.0)
        limited(table, "  of the processor's time", worked, FRAME_LIMIT_MS)
        notable = sum(value > FRAME_NOTABLE_MS for value in frames)
        shown = sum(item.shown for item in rounds)
        table.add_row(f"  frames over 50 ms, of {len(frames):,}", str(notable), "", "")
        table.add_row(f"  epochs shown, of {SLIDES * SLIDE_MOVES}", str(shown), "", "")
    for name, value in (await log_pages(browser, service, entries)).items():
        table.add_row(name, f"{value:,.0f}", "", "")
    console.print(table)


def limited(table: object, name: str, value: float, limit: float) -> None:
    verdict = "within" if value <= limit else "OVER"
    table.add_row(name, f"{value:,.0f}", f"{limit:,.0f}", verdict)  # type: ignore[attr-defined] # rich


@asynccontextmanager
async def a_page(browser: Browser) -> AsyncIterator[Page]:
    """With nothing cached."""
    context = await browser.new_context(viewport=SIZE)  # type: ignore[arg-type] # a plain dict
    await context.add_init_script(WATCH)
    page = await context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    try:
        yield page
    finally:
        await context.close()


async def opened(page: Page, service: Service, address: str) -> float:
    """Milliseconds from navigation until the view was painted."""
    await page.goto(f"{service.url}/console/#/{address}")
    painted = page.locator("html[data-painted]")
    try:
        await painted.wait_for(state="attached")
    except TimeoutError:
        # Chromium breaks what is under way when interfaces of the machine come or go, such as a
        # container's; then the page stays empty. A second try fails in earnest.
        await page.reload()
        await painted.wait_for(state="attached")
    return float(await painted.get_attribute("data-painted") or "nan")


async def first_view(browser: Browser, service: Service, view: str) -> float:
    async with a_page(browser) as page:
        return await opened(page, service, view)


async def slid(browser: Browser, service: Service, view: str) -> Frames:
    """Drag the handle from the tip to the beginning and half the way back."""
    async with a_page(browser) as page:
        await opened(page, service, view)
        box = await page.locator("#epoch-slider").bounding_box()
        assert box is not None
        left, right = box["x"] + 10, box["x"] + box["width"] - 10
        middle = box["y"] + box["height"] / 2
        await page.evaluate(
            """() => {
                const main = document.querySelector("main");
                window.__shown = 0;
                new MutationObserver(() => { window.__shown += 1; })
                    .observe(main, {attributes: true, attributeFilter: ["data-shown"]});
                window.__watch.isOn = true;
            }"""
        )
        await browser.start_tracing(page=page, categories=["toplevel"])
        await page.mouse.move(right, middle)
        await page.mouse.down()
        for number in range(SLIDE_MOVES):
            part = number / (SLIDE_MOVES * 2 / 3)
            place = right - (right - left) * (part if part <= 1 else 2 - part)
            await page.mouse.move(place, middle)
            await asyncio.sleep(SLIDE_STEP_S)
        await page.mouse.up()
        await page.locator('main[data-live="false"]').wait_for()
        found = await page.evaluate(
            "({frames: __watch.frames, tasks: __watch.tasks, shown: window.__shown})"
        )
        trace = await browser.stop_tracing()
        return msgspec.convert({**found, "worked": worked_ms(trace)}, Frames)


def worked_ms(trace: bytes) -> list[float]:
    """Of tasks on the page's own thread, which is the busiest of its name."""
    events = msgspec.json.decode(trace)["traceEvents"]
    main = {
        (item["pid"], item["tid"])
        for item in events
        if item["name"] == "thread_name" and item["args"]["name"] == "CrRendererMain"
    }
    by_thread: dict[tuple[int, int], list[float]] = {thread: [] for thread in main}
    for item in events:
        thread = (item["pid"], item["tid"])
        if thread in main and item["name"].endswith("RunTask") and "tdur" in item:
            by_thread[thread].append(item["tdur"] / 1000)
    return max(by_thread.values(), key=sum, default=[])


async def log_pages(browser: Browser, service: Service, entries: int) -> dict[str, float]:
    async with a_page(browser) as page:
        first = await opened(page, service, "log")

        async def timed(action: str, selector: str) -> float:
            began_s = time.perf_counter()
            await page.click(action)
            await page.locator(selector).first.wait_for()
            return 1000 * (time.perf_counter() - began_s)

        older = await timed("#log-older", f'tr[data-epoch="{entries - 150}"]')
        oldest = await timed("#log-oldest", 'tr[data-epoch="50"]')
        began_s = time.perf_counter()
        await page.goto(f"{service.url}/console/#/log?kind=Prepare")
        # The page before may show such entries too; only what was searched is told with matches.
        await page.locator("#log-note", has_text="match").wait_for()
        search = 1000 * (time.perf_counter() - began_s)
        return {
            "log, first view": first,
            "log, one page back": older,
            "log, the oldest page": oldest,
            "log, search of up to 5,000 entries": search,
        }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=ENTRIES)
    parser.add_argument("--nodes", type=int, default=NODES)
    given = parser.parse_args(arguments)
    return asyncio.run(bench(given.entries, given.nodes))


if __name__ == "__main__":
    sys.exit(main())
