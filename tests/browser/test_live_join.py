"""A join, from the plan to its end, watched by somebody who only looks and clicks."""

import pytest
from playwright.async_api import expect

from tests.browser.stack import ROWS

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

JOIN_TIMEOUT_MS = 300_000
WATCH = """() => {
    window.moved = [];
    new MutationObserver(() => {
        const card = document.querySelector("#movement");
        const bar = card?.querySelector('.bar[role="meter"]');
        if (!bar) return;
        const facts = [...card.querySelectorAll("dl > div")].map((item) => [
            item.querySelector("dt").textContent,
            item.querySelector("dd").textContent,
        ]);
        const percent = Number(bar.getAttribute("aria-valuenow"));
        moved.push({percent, width: bar.firstChild.style.width, ...Object.fromEntries(facts)});
    }).observe(document.body, {childList: true, subtree: true});
}"""
"""Notes what the bar and its figures say, however short it is there."""


async def test_a_join_is_watched_from_plan_to_finish(stack, visit):
    async with stack.spare("spare-joins") as node:
        visitor = await visit()
        page = visitor.page
        await visitor.open(f"plan?change=join&node={node}")
        await page.click("#plan-show")
        await expect(page.locator("#plan-answer")).to_contain_text(
            f"Join of node {node} is possible"
        )
        transfers = page.locator("#plan-transfers tbody tr")
        assert 1 <= await transfers.count() <= 3
        await page.click("#plan-submit")
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("the ranges concerned are locked until it ends")
        await dialog.get_by_label("Reason").fill("more room")
        await dialog.get_by_role("button", name="Begin the join").click()

        await page.evaluate(WATCH)
        # From here on nobody touches anything: the page follows by itself.
        await visitor.shown("sequences")
        await expect(page.locator(".sequence-head")).to_contain_text("more room")
        state = page.locator(".sequence-head .badge")
        await expect(state).to_have_text("finished", timeout=JOIN_TIMEOUT_MS)
        for step in ("prepare", "start", "mid", "finish", "retire"):
            await expect(page.locator(f'.steps > li.is-taken[data-step="{step}"]')).to_have_count(1)
        receipts = page.locator("#receipts tbody tr")
        assert await receipts.count() > 0
        await expect(page.locator("#receipts .badge-good").first).to_have_text("equal")
        await expect(page.locator("#receipts .badge-bad")).to_have_count(0)
        await rows_were_seen_moving(stack, page)
        nodes = await stack.directory()
        assert next(item["state"] for item in nodes if item["id"] == node) == "joined"
        await take_out(stack, node)


async def rows_were_seen_moving(stack, page):
    """A bar with its figures, and in the end as many rows as the receipts prove."""
    moved = await page.evaluate("moved")
    assert moved, "no movement was shown"
    for seen in moved:
        done, total = (int(text) for text in seen["Rows"].split(" of "))
        assert 0 <= done <= total, seen
        assert total == 0 or seen["percent"] == round(100 * done / total), seen
        assert float(seen["width"].rstrip("%")) == pytest.approx(seen["percent"], abs=0.51)
        assert seen["Time left"], seen
    assert any(not seen["Rows"].endswith("of 0") for seen in moved)
    entries = (await stack.get("/v1/log?after=0"))["entries"]
    mid = next(item for item in reversed(entries) if item["kind"] == "MidJoin")
    proved = sum(item["target_rows"]["rows"] for item in mid["transformation"]["receipts"])
    assert 0 < proved <= ROWS
    shown = page.locator(".sequence-head dt:text-is('Rows moved') + dd")
    await expect(shown).to_have_text(str(proved))


async def take_out(stack, node):
    """The other tests have three nodes."""
    sequence = await stack.begin_leave(node)
    await stack.until_over(sequence)
