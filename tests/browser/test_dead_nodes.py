"""Sequences that wait for nodes that died: turned back, or ended, without them."""

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.browser.joins import step
from tests.builders import only_sequence
from tests.integration.test_cms_reports import tell
from tests.integration.test_cms_sequences import PREPARED, drive, driven, joining
from tests.integration.test_cms_serving import served

pytestmark = pytest.mark.asyncio(loop_scope="session")

ALIVE = (1, 2)


@pytest_asyncio.fixture(loop_scope="session")
async def client():
    """A join of node 4, of which nothing was ever heard, as of node 3."""
    async with served(founded=False) as found:
        await joining(found)
        await told(found)
        yield found


async def told(client):
    for number in ALIVE:
        await tell(client, number)


async def asked(visitor, button):
    await visitor.open(f"sequences?id={PREPARED}")
    await visitor.page.click(button)
    return visitor.page.get_by_role("dialog")


async def test_a_cancel_need_not_wait_for_a_voter_that_died(client, look):
    dialog = await asked(await look(client), "#cancel")

    await expect(dialog.get_by_role("checkbox")).to_have_count(2)
    await expect(dialog).to_contain_text("2 of node 1, node 2 and node 3")
    await dialog.get_by_label("node 3").check()
    await expect(dialog.locator("#consequences")).to_contain_text("all of node 1 and node 2")
    await dialog.get_by_role("button", name="Cancel sequence").click()

    await expect(dialog.page.locator("#sayings")).to_contain_text("turns back")
    sequence = only_sequence(client.engine.applied.metadata)
    assert (sequence.cancelled, sequence.dead) == (True, (3,))


async def finished(client):
    assert [await step(client) for _ in range(3)] == ["start", "mid", "finish"]
    await told(client)


async def test_what_has_finished_is_ended_without_the_dead(client, look):
    await finished(client)
    visitor = await look(client)
    await visitor.open(f"sequences?id={PREPARED}")
    await drive(client, driven(step="retire"))
    await visitor.page.click("#resume")
    dialog = visitor.page.get_by_role("dialog")
    end = dialog.get_by_role("button", name="End it without them")
    means = dialog.locator("#consequences")

    await expect(end).to_be_disabled()
    await dialog.get_by_label("node 3").check()
    # The others are not enough yet, and the CMS says so.
    await expect(means).to_contain_text("Refused (barrier_not_passed)")
    await expect(end).to_be_disabled()
    await dialog.get_by_label("node 4").check()
    await expect(means).to_contain_text("nobody waits for node 3 and node 4 any more")
    await dialog.get_by_label("Reason").fill("they burnt")
    await end.click()

    await expect(visitor.page.locator("#sayings")).to_contain_text("has ended at epoch")
    assert len(client.engine.applied.metadata.sequences.in_progress) == 0
    _, entry = await client.get(f"/v1/log/{client.engine.applied.metadata.epoch}")
    assert (entry["kind"], entry["reason"]) == ("RetireSequence", "they burnt")
    assert entry["transformation"]["dead"] == [3, 4]


async def test_nothing_is_ended_before_a_driver_has_noted_what_to_clean_up(client, look):
    await finished(client)
    dialog = await asked(await look(client), "#resume")

    await expect(dialog).to_contain_text("a driver notes what has to be cleaned up")
    await expect(dialog.get_by_role("checkbox")).to_have_count(0)
    await expect(dialog.get_by_role("button", name="Understood")).to_be_enabled()


@pytest.mark.parametrize("button", ["#cancel", "#resume"])
async def test_a_double_click_asks_once(client, look, button):
    visitor = await look(client)
    await visitor.open(f"sequences?id={PREPARED}")

    await visitor.page.dblclick(button)

    await visitor.page.get_by_role("dialog").wait_for()
    await expect(visitor.page.get_by_text("Keep as it is")).to_have_count(1)
    await visitor.page.keyboard.press("Escape")
    await expect(visitor.page.locator("dialog")).to_have_count(0)
    await expect(visitor.page.locator(button)).to_be_focused()


async def test_marking_text_beyond_the_edge_does_not_close_a_dialog(client, look):
    visitor = await look(client)
    page = visitor.page
    dialog = await asked(visitor, "#cancel")
    reason = dialog.get_by_label("Reason")
    await reason.fill("a sentence that took a while")
    box = await reason.bounding_box()

    await page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    await page.mouse.down()
    await page.mouse.move(5, 5)
    await page.mouse.up()
    await expect(dialog).to_be_visible()

    await page.mouse.click(5, 5)
    await expect(dialog).to_have_count(0)
