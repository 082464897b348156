"""A connection that breaks is seen at once, and so is its return."""

import pytest
from playwright.async_api import expect

from tests.browser.gate import a_gate

pytestmark = pytest.mark.asyncio(loop_scope="session")

MENDED_TIMEOUT_MS = 40_000


async def test_a_lost_connection_is_shown_until_it_is_back(stack, visit):
    async with a_gate(stack.url) as gate:
        visitor = await visit(role="viewer", url=gate.url)
        visitor.forgive("net::ERR_")
        page = visitor.page
        await visitor.open("log")
        connection = page.locator("#connection")
        await expect(connection).to_have_attribute("data-state", "live")

        gate.shut()
        await expect(connection).not_to_have_attribute("data-state", "live")
        await expect(connection).to_have_attribute("data-state", "stale")
        await expect(connection).to_contain_text("may be old")
        # What was there stays readable.
        assert await page.locator(".log-table tbody tr").count() > 0
        missed = await stack.touch()

        gate.open()
        await expect(connection).to_have_attribute("data-state", "live", timeout=MENDED_TIMEOUT_MS)
        await expect(page.locator(f'tr[data-epoch="{missed}"]')).to_have_count(1)


async def test_a_cms_that_dies_is_followed_again_when_it_is_back(stack, visit):
    visitor = await visit(role="viewer")
    visitor.forgive("net::ERR_|status of 503")
    await visitor.open("log")
    connection = visitor.page.locator("#connection")
    await expect(connection).to_have_attribute("data-state", "live")

    stack.place.killed("cms-1")

    await expect(connection).to_have_attribute("data-state", "live", timeout=MENDED_TIMEOUT_MS)
    epoch = await stack.touch()
    row = visitor.page.locator(f'tr[data-epoch="{epoch}"]')
    await expect(row).to_have_count(1, timeout=MENDED_TIMEOUT_MS)
