"""Rows on their way: the bar, its figures and the time that is left, as a driver tells them."""

import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.browser.joins import a_join, copying, step
from tests.integration.test_cms_sequences import PREPARED, drive

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def client():
    async with a_join() as found:
        yield found


async def test_the_bar_moves_with_the_rows(client, look):
    assert await step(client) == "start"
    visitor = await look(client)
    page = visitor.page
    await visitor.open(f"sequences?id={PREPARED}")
    movement = page.locator("#movement")
    await expect(movement).to_contain_text("no driver tells of any yet")
    await expect(movement.get_by_role("meter")).to_have_count(0)

    await drive(client, copying(750, 0.0))
    bar = movement.get_by_role("meter", name="Rows moved")
    await expect(bar).to_have_attribute("aria-valuenow", "25")
    await expect(movement).to_contain_text("750 of 3,000")
    await expect(movement).to_contain_text("14.6 KiB of 58.6 KiB")
    left = movement.locator("dt:text-is('Time left') + dd")
    await expect(left).to_have_text("not known yet")

    await drive(client, copying(1500, 0.5))
    await expect(bar).to_have_attribute("aria-valuenow", "50")
    await expect(bar.locator(".bar-fill")).to_have_attribute("style", re.compile(r"width: 50%"))
    await expect(movement).to_contain_text("0.5 rows/s")
    # 1,500 rows at one every two seconds.
    await expect(left).to_have_text(re.compile("^(50 min|49 min)"))
    await expect(page.locator("#now")).to_contain_text("Copying: 1,500 of 3,000 rows")
