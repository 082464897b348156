"""A join, from the plan to its end, watched by somebody who only looks and clicks."""

import pytest
from playwright.async_api import expect

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

JOIN_TIMEOUT_MS = 300_000


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

        # From here on nobody touches anything: the page follows by itself.
        await visitor.shown("sequences")
        await expect(page.locator(".sequence-head")).to_contain_text("more room")
        await expect(page.locator("#movement")).to_contain_text("rows", timeout=JOIN_TIMEOUT_MS)
        state = page.locator(".sequence-head .badge")
        await expect(state).to_have_text("finished", timeout=JOIN_TIMEOUT_MS)
        for step in ("prepare", "start", "mid", "finish", "retire"):
            await expect(page.locator(f'.steps > li.is-taken[data-step="{step}"]')).to_have_count(1)
        receipts = page.locator("#receipts tbody tr")
        assert await receipts.count() > 0
        await expect(page.locator("#receipts .badge-good").first).to_have_text("equal")
        await expect(page.locator("#receipts .badge-bad")).to_have_count(0)
        nodes = await stack.directory()
        assert next(item["state"] for item in nodes if item["id"] == node) == "joined"
        await take_out(stack, node)


async def take_out(stack, node):
    """The other tests have three nodes."""
    sequence = await stack.begin_leave(node)
    await stack.until_over(sequence)
