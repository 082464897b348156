"""A commit whose answer is lost: it is said that nobody knows, and asked for under the same id."""

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.browser.joins import a_join
from tests.builders import only_sequence
from tests.integration.test_cms_reports import tell
from tests.integration.test_cms_sequences import PREPARED, without_sequence

pytestmark = pytest.mark.asyncio(loop_scope="session")

COMMITS = "**/v1/commit"
TRIES = 5


@pytest_asyncio.fixture(loop_scope="session")
async def client():
    async with a_join() as found:
        yield found


class Losing:
    """Every commit arrives, and no answer to one comes back."""

    def __init__(self):
        self.ids = []

    async def __call__(self, route):
        self.ids.append(route.request.post_data_json["entry_id"])
        await route.fetch()
        await route.abort()


async def losing(visitor):
    visitor.forgive("net::ERR_FAILED")
    lost = Losing()
    await visitor.page.route(COMMITS, lost)
    return lost


async def asked_again(visitor, lost, what):
    """The remark that stays, then an answer to the same question; gives all remarks."""
    page = visitor.page
    remark = page.get_by_role("alert").filter(has_text="It is not known whether")
    await expect(remark).to_contain_text(f"It is not known whether {what} was made")
    assert len(lost.ids) == TRIES
    assert set(lost.ids) == {lost.ids[0]}
    await expect(remark).to_contain_text(lost.ids[0])
    await page.unroute(COMMITS, lost)
    async with page.expect_request(COMMITS) as sent:
        await remark.get_by_role("button", name="Ask again").click()
    assert (await sent.value).post_data_json["entry_id"] == lost.ids[0]
    await expect(remark).to_have_count(0)
    return page.locator("#sayings")


async def test_a_plan_that_may_have_been_submitted(client, look):
    await without_sequence(client)
    visitor = await look(client)
    page = visitor.page
    await visitor.open("plan?change=join&node=4")
    await page.click("#plan-show")
    lost = await losing(visitor)
    await page.click("#plan-submit")
    await page.get_by_role("button", name="Begin the join").click()

    # What was sent is not sent once more under another id.
    await expect(page.locator("#plan-submit")).to_be_disabled()
    sayings = await asked_again(visitor, lost, "the join")

    sequence = only_sequence(client.engine.applied.metadata).id
    await expect(sayings).to_contain_text(f"Sequence {sequence} has begun.")
    await visitor.shown("sequences")


async def test_a_cancel_that_may_have_been_made(client, look):
    visitor = await look(client)
    await visitor.open(f"sequences?id={PREPARED}")
    lost = await losing(visitor)
    await visitor.page.click("#cancel")
    await visitor.page.get_by_role("button", name=f"Cancel sequence {PREPARED}").click()

    sayings = await asked_again(visitor, lost, f"the cancel of sequence {PREPARED}")

    await expect(sayings).to_contain_text(f"turns back since epoch {PREPARED + 1}")


async def test_a_step_that_may_have_been_taken(client, look):
    for number in (1, 2, 3):
        await tell(client, number)
    visitor = await look(client)
    await visitor.open(f"sequences?id={PREPARED}")
    lost = await losing(visitor)
    await visitor.page.click("#resume")
    await visitor.page.get_by_role("button", name="Take the step start now").click()

    sayings = await asked_again(visitor, lost, f"the step start of sequence {PREPARED}")

    await expect(sayings).to_contain_text(f"start was taken at epoch {PREPARED + 1}")
    assert only_sequence(client.engine.applied.metadata).due == "mid"
