"""What cancel and resume ask: the figures of the plan, at every step that can be turned back."""

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.browser.joins import a_join, step
from tests.browser.visitor import NARROW
from tests.builders import only_sequence
from tests.integration.test_cms_reports import tell
from tests.integration.test_cms_sequences import PREPARED

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def client():
    async with a_join() as found:
        yield found


async def asked(look, client, button, **more):
    visitor = await look(client, **more)
    await visitor.open(f"sequences?id={PREPARED}")
    await visitor.page.click(button)
    return visitor.page.get_by_role("dialog")


def planned_ranges(client):
    (plan,) = only_sequence(client.engine.applied.metadata).plans
    return len(plan.changes)


async def test_before_anything_moved_only_locks_go(client, look):
    ranges = planned_ranges(client)
    dialog = await asked(look, client, "#cancel")

    await expect(dialog).to_contain_text(f"Nothing has moved yet: the locks on {ranges} ranges go")
    await expect(dialog).to_contain_text("No range is read from fewer than 3 replicas")
    await expect(dialog).to_contain_text("1 group must have applied it: 2 of node 1, node 2 and")
    await expect(dialog).not_to_contain_text("rows")
    await expect(dialog).to_contain_text(f"It would be epoch {PREPARED + 1}.")


async def test_after_start_the_newcomer_drops_what_it_has_got(client, look):
    assert await step(client) == "start"
    dialog = await asked(look, client, "#cancel")

    await expect(dialog).to_contain_text(
        "The movement of 3 ranges is given up; the owners stay who they are."
    )
    await expect(dialog).to_contain_text("Node 1 keeps 1 range, node 2 keeps 1 range and node 3")
    await expect(dialog).to_contain_text(
        "Node 4 drops what it has got of 3 ranges: at most about 3,000 rows (58.6 KiB)."
    )
    # Its session has to be closed on the node that wrote.
    await expect(dialog).to_contain_text("3 groups must have applied it")
    await expect(dialog).to_contain_text("all of node 4")


async def test_after_mid_reads_move_back_and_the_dead_are_not_waited_for(client, look):
    assert [await step(client), await step(client)] == ["start", "mid"]
    dialog = await asked(look, client, "#cancel")

    await expect(dialog).to_contain_text("Reads of 3 ranges move back to the owners before.")
    await expect(dialog).to_contain_text("Node 4 drops 3 ranges: about 3,000 rows (58.6 KiB).")
    await expect(dialog).to_contain_text("Nothing that was acknowledged is lost.")
    await expect(dialog).to_contain_text("No range is read from fewer than 3 replicas")
    await expect(dialog.locator("#consequences")).to_contain_text("node 4;")
    await dialog.get_by_label("node 4").check()
    await expect(dialog.locator("#consequences")).not_to_contain_text("node 4;")
    await dialog.get_by_role("button", name="Cancel sequence").click()
    await expect(dialog.page.locator("#sayings")).to_contain_text("turns back")
    sequence = only_sequence(client.engine.applied.metadata)
    assert (sequence.cancelled, sequence.dead) == (True, (4,))


async def test_resume_says_what_the_step_does(client, look):
    dialog = await asked(look, client, "#resume")

    await expect(dialog).to_contain_text("Node 4 gets every write of 3 ranges.")
    await expect(dialog).to_contain_text("About 3,000 rows (58.6 KiB) are moved then.")
    await expect(dialog).to_contain_text("Before the step mid, ")
    await dialog.get_by_role("button", name="Take the step start now").click()
    await expect(dialog.page.locator("#sayings")).to_contain_text("start was taken")
    assert await step(client) == "mid"
    for number in (1, 2, 3, 4):
        await tell(client, number)
    dialog = await asked(look, client, "#resume", size=NARROW)
    await expect(dialog).to_contain_text("Node 1 stops writing 1 range")
    await expect(dialog).to_contain_text("from then on it cannot be cancelled")
