"""Whoever works by keyboard stays where they are while a view follows the log."""

import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.browser.joins import a_join
from tests.integration.test_cms_reports import tell
from tests.integration.test_cms_sequences import PREPARED

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def client():
    async with a_join() as found:
        yield found


async def test_the_panel_of_a_node_keeps_focus_while_its_figures_change(client, look):
    await tell(client, 4, data={"k.t": {"rows": 1, "bytes": 2}})
    visitor = await look(client)
    page = visitor.page
    await visitor.open("nodes?node=4")
    panel = page.locator("#node-panel")
    close = panel.get_by_role("link", name="Close")
    heard = panel.locator("dt:text-is('Last heard') + dd")
    sorter = panel.get_by_role("button", name="Rows")
    for control in (close, panel.get_by_role("link", name=f"join {PREPARED}"), sorter):
        await control.focus()
        before = await heard.inner_text()
        await expect(heard).not_to_have_text(before)
        await expect(control).to_be_focused()
    await close.press("Enter")
    await expect(panel).to_be_hidden()


async def test_the_panel_of_the_ring_stays_as_it_is_when_entries_come(client, look):
    visitor = await look(client)
    page = visitor.page
    await visitor.open("ring?node=1")
    panel = page.locator("#ring-panel")
    await panel.locator("summary").click()
    close = panel.get_by_role("link", name="Close")
    await close.focus()

    await client.set(1)

    shown = page.locator("main")
    await expect(shown).to_have_attribute("data-shown", str(client.engine.applied.metadata.epoch))
    await expect(close).to_be_focused()
    await expect(panel.locator(".tokens")).to_be_visible()
    # The panel of a range, whose owners are asked for at every epoch.
    await panel.locator(".tokens a").first.click()
    await expect(panel.get_by_role("heading")).to_have_text("Range")
    await close.focus()
    await client.set(1)
    await expect(shown).to_have_attribute("data-shown", str(client.engine.applied.metadata.epoch))
    await expect(close).to_be_focused()


async def test_a_card_that_is_made_anew_gives_focus_back(client, look):
    visitor = await look(client)
    page = visitor.page
    await visitor.open(f"sequences?id={PREPARED}")
    link = page.locator('#barrier .voter[data-node="3"] a')
    await link.focus()

    await tell(client, 1)
    await tell(client, 2, PREPARED - 4)

    await expect(page.locator("#barrier")).to_contain_text(re.compile("4 epochs behind"))
    await expect(link).to_be_focused()
