"""A log whose first entries are in an archive: what is left is shown, and where the rest is."""

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.archives import entries_of
from tests.integration.test_cms_reports import NODE
from tests.integration.test_cms_sequences import committed
from tests.integration.test_cms_trimmed import served
from tests.integration.trimmed import filled, signed_archive, trimmed

pytestmark = pytest.mark.asyncio(loop_scope="session")

SEAM = 1999
GONE = "Entries up to epoch 1,999 are no longer kept here; they are in the archive"
ROWS = 100
GONE_STATUS = "status of 410"


@pytest_asyncio.fixture(loop_scope="session")
async def client(database, tmp_path, request):
    """A CMS that keeps what is behind the seam, of so many entries, and knows of no archive."""
    found = entries_of(request.param)
    await filled(database, found)
    signed_archive(tmp_path / "archive", found)
    done = await trimmed(database, tmp_path / "archive", SEAM + 1, "--yes")
    assert done.exit_code == 0, done.output
    async with served(database) as client:
        yield client


def of(entries):
    return pytest.mark.parametrize("client", [entries], indirect=True)


async def joined(client):
    """A first node, from Prepare to Retire; gives the number of its sequence."""
    addresses = {"http": "10.0.0.1:80"}
    await committed(client, "Register", host_id="h1", addresses=addresses, **NODE)
    sequence = await committed(client, "PrepareJoin", node=1, tokens=["0"])
    for kind in ("StartJoin", "MidJoin", "FinishJoin", "RetireSequence"):
        await committed(client, kind, sequence=sequence)
    return sequence


def rows(page):
    return page.locator(".log-table tbody tr[data-epoch]")


@of(2300)
async def test_the_log_ends_at_its_seam_and_says_where_the_rest_is(client, look, tmp_path):
    visitor = await look(client)
    visitor.forgive(GONE_STATUS)
    page = visitor.page
    await visitor.open("log")
    await expect(page.locator("#log-seam")).to_have_count(0)

    await page.click("#log-oldest")

    await expect(rows(page).last).to_have_attribute("data-epoch", str(SEAM + 1))
    assert await rows(page).count() == ROWS
    await expect(page.locator("#log-seam")).to_contain_text(f"{GONE} {tmp_path}")
    await expect(page.locator("#log-older")).to_be_disabled()
    await expect(page.locator("#log-oldest")).to_be_disabled()
    # A link to what is gone leads as near to it as there is something.
    await visitor.open("log?entry=500")
    await expect(rows(page).last).to_have_attribute("data-epoch", str(SEAM + 1))
    await page.click("#log-newest")
    await expect(rows(page).first).to_have_attribute("data-epoch", "2300")


@of(2300)
async def test_a_search_keeps_what_it_found_before_the_seam(client, look):
    epoch = await committed(
        client, "CreateKeyspace", name="late", replication={"strategy": "simple", "factor": 1}
    )
    visitor = await look(client)
    visitor.forgive(GONE_STATUS)
    await visitor.open("log?keyspace=late")

    await expect(rows(visitor.page)).to_have_count(1)
    await expect(rows(visitor.page)).to_have_attribute("data-epoch", str(epoch))
    await expect(visitor.page.locator("#log-seam")).to_contain_text(GONE)


@of(2020)
async def test_near_the_seam_every_view_shows_what_there_is(client, look):
    sequence = await joined(client)
    visitor = await look(client)
    visitor.forgive(GONE_STATUS)
    page = visitor.page
    await visitor.open("log")
    await expect(rows(page).last).to_have_attribute("data-epoch", str(SEAM + 1))
    await expect(page.locator("#log-seam")).to_contain_text(GONE)

    await visitor.open("sequences")
    await expect(page.locator("#ended")).to_contain_text("Join of node 1")
    await expect(page.locator("#ended")).to_contain_text(GONE)
    await expect(page.get_by_role("button", name="Look further back")).to_have_count(0)
    await expect(page.locator(".view-problem")).to_be_empty()
    await visitor.open(f"sequences?id={sequence}")
    await expect(page.locator(".sequence-head .badge")).to_have_text("finished")
    await visitor.open("sequences?id=7")
    await expect(page.locator("main")).to_contain_text(GONE)


@of(3600)
async def test_looking_further_back_may_fail_and_be_tried_again(client, look):
    visitor = await look(client)
    visitor.forgive(f"{GONE_STATUS}|status of 503")
    page = visitor.page
    await visitor.open("sequences")
    more = page.get_by_role("button", name="Look further back")
    problem = {"status": 503, "code": "unavailable", "detail": "The log does not answer."}

    async def refuse(route):
        await route.fulfill(status=503, json=problem)

    await page.route("**/v1/log?*", refuse)
    await more.click()
    await expect(page.locator("#sayings")).to_contain_text("The log does not answer.")
    await expect(page.locator("#ended")).to_contain_text("Looked through epochs 3,001 to 3,600")
    await page.unroute("**/v1/log?*", refuse)

    await more.click()

    await expect(page.locator("#ended")).to_contain_text("Looked through epochs 2,000 to 3,600")
    await expect(page.locator("#ended")).to_contain_text(GONE)
