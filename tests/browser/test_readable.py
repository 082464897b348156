"""Differences and ranges as people read them: with names, short tokens, and room on a phone."""

import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.browser.joins import a_join, step
from tests.browser.visitor import NARROW
from tests.integration.test_cms_sequences import PREPARED

pytestmark = pytest.mark.asyncio(loop_scope="session")

RANGE = r"\(−?\d{1,4}(…\d\d)?, −?\d{1,4}(…\d\d)?\]"


@pytest_asyncio.fixture(loop_scope="session")
async def client():
    async with a_join() as found:
        yield found


def section(page, name):
    heading = page.get_by_role("heading", name=name, exact=True)
    return page.locator(".log-difference .difference").filter(has=heading)


async def test_a_prepared_join_says_who_would_own_what(client, look):
    visitor = await look(client)
    await visitor.open(f"log?entry={PREPARED}")
    page = visitor.page

    sequences = section(page, "Sequences")
    await expect(sequences).to_contain_text(f"id {PREPARED}")
    await expect(sequences).to_contain_text("kind join, node 4")
    await expect(sequences).to_contain_text(f"prepare at epoch {PREPARED}")
    await expect(sequences).to_contain_text(re.compile(rf"{RANGE}: 1, 2, 3 → \d, \d, 4"))
    locks = section(page, "Locks")
    await expect(locks).to_contain_text(f"sequence {PREPARED}")
    await expect(locks).to_contain_text(re.compile(rf"ranges: {RANGE}"))
    # Digits of whole tokens are there for whoever points at a range.
    assert not re.search(r"\d{12}", await page.locator(".log-difference").inner_text())
    title = await locks.locator(".range").first.get_attribute("title")
    assert re.fullmatch(r"\(-?\d+, -?\d+\]", title)


async def test_a_step_says_what_is_new_and_no_more(client, look):
    assert await step(client) == "start"
    visitor = await look(client)
    await visitor.open(f"log?entry={PREPARED + 1}")

    sequences = section(visitor.page, "Sequences")
    await expect(sequences).to_contain_text(f"taken: start at epoch {PREPARED + 1}")
    await expect(sequences).to_contain_text("due: start → mid")
    await expect(sequences).not_to_contain_text("prepare")


async def test_many_things_are_folded(client, look):
    visitor = await look(client)
    await visitor.open("schema")
    tokens = [str(number) for number in range(40)]
    made = await visitor.page.evaluate(
        """async (tokens) => {
            const { differenceView } = await import("./parts/differences.js");
            const view = differenceView({sequences: {added: [{id: 7, tokens}]}});
            return {summary: view.querySelector("summary").textContent,
                    isOpen: view.querySelector("details").open,
                    text: view.textContent};
        }""",
        tokens,
    )
    assert (made["summary"], made["isOpen"]) == ("40 tokens", False)
    assert "38, 39" in made["text"]


async def test_a_phone_shows_ranges_with_who_gains_and_loses(client, look):
    assert [await step(client), await step(client)] == ["start", "mid"]
    visitor = await look(client, size=NARROW)
    await visitor.open(f"sequences?id={PREPARED}")
    for card, column in (("#ranges", "Lost by"), ("#receipts", "Proof")):
        cells = visitor.page.locator(f"{card} th", has_text=column)
        await cells.scroll_into_view_if_needed()
        box = await cells.bounding_box()
        assert box["x"] + box["width"] <= NARROW["width"], (card, box)
        wide = visitor.page.locator(f"{card} .table-scroll")
        # Nothing of it is off-screen, so there is nothing to scroll to.
        width, room = await wide.evaluate("element => [element.scrollWidth, element.clientWidth]")
        assert width <= room, card
        await expect(visitor.page.locator(f"{card} .range").first).to_have_text(
            re.compile(f"^{RANGE}$")
        )
