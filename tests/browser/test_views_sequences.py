"""Sequences in the browser: steps, barrier, who is behind, and turning back."""

import pytest
from playwright.async_api import expect

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_quiet_cluster_says_that_nothing_is_in_progress(stack, visit):
    visitor = await visit(role="viewer")
    await visitor.open("sequences?at=4")

    await expect(visitor.page.locator("#in-progress")).to_contain_text("No sequence is in progress")
    await expect(visitor.page.locator("#ended")).to_contain_text("None has ended")


async def test_a_waiting_join_tells_for_whom_and_is_cancelled_by_keyboard(stack, visit):
    with stack.paused("node-2") as go_on:
        async with stack.waiting_join("spare-waits") as (node, sequence):
            visitor = await visit()
            page = visitor.page
            await visitor.open("sequences")
            await page.click(f"text=Join of node {node}")
            await visitor.shown("sequences")

            barrier = page.locator("#barrier")
            await expect(barrier).to_contain_text(f"have to have applied epoch {sequence}")
            await expect(barrier.locator('.voter[data-node="2"]').first).to_contain_text("behind")
            await expect(barrier.locator('.voter[data-node="1"]').first).to_contain_text("✓")
            await expect(page.locator("#now")).to_contain_text("no driver reports about it")
            steps = page.locator(".steps > li")
            names = ["prepare", "start", "mid", "finish", "retire"]
            for position, name in enumerate(names):
                await expect(steps.nth(position)).to_have_attribute("data-step", name)
            await expect(steps.nth(0)).to_contain_text(f"epoch {sequence}")
            await expect(steps.nth(1)).to_have_attribute("aria-current", "step")

            await cancelled_by_keyboard(page, sequence)
            await expect(page.locator(".steps > li.is-cancel")).to_contain_text("cancel")
            go_on()
    await expect(page.locator(".sequence-head .badge")).to_have_text("cancelled")
    await expect(steps.last).to_have_attribute("data-step", "retire")
    await page.click("text=All sequences")
    await expect(page.locator("#ended")).to_contain_text(f"Join of node {node}")


async def cancelled_by_keyboard(page, sequence):
    """Consequences are stated, Escape changes nothing, and focus stays within."""
    await page.focus("#cancel")
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Nothing has moved yet: ")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(page.locator("#cancel")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(dialog).to_contain_text("owners stay who they are")
    for _ in range(8):
        await page.keyboard.press("Tab")
        inside = (
            "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
        )
        assert await page.evaluate(inside)
    await dialog.get_by_label("Reason").fill("wrong rack")
    await page.keyboard.press("Enter")
    await expect(page.locator("#sayings")).to_contain_text(f"Sequence {sequence} turns back")


async def test_resume_takes_the_due_step_where_it_may(stack, visit):
    async with stack.waiting_join("spare-resumes") as (_, sequence):
        visitor = await visit()
        page = visitor.page
        await visitor.open(f"sequences?id={sequence}")
        await expect(page.locator("#barrier")).to_contain_text("passed")
        await page.locator("#barrier .badge-good").wait_for()

        await page.click("#resume")
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("The step start can be taken now")
        await dialog.get_by_role("button", name="Take the step start now").click()

        taken = page.locator('.steps > li.is-taken[data-step="start"]')
        await expect(taken).to_contain_text("by console:operator")
        await page.click("#resume")
        await expect(dialog).to_contain_text("has to bring receipts")
        await page.keyboard.press("Escape")
        # A link to an epoch shows the sequence as it stood there.
        await page.click(f'.steps a:has-text("epoch {sequence}")')
        await expect(page.locator("main")).to_have_attribute("data-shown", str(sequence))
        await expect(page.locator(".steps > li.is-taken")).to_have_count(1)


async def test_a_sequence_that_is_none_is_said_to_be_none(stack, visit):
    visitor = await visit(role="viewer")
    await visitor.open("sequences?id=1")
    await expect(visitor.page.locator("main")).to_contain_text("Epoch 1 began no sequence")
    await visitor.open("sequences?id=999999")
    await expect(visitor.page.locator("main")).to_contain_text("lies ahead")
