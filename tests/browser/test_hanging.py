"""Requests that hang and views that failed: both are said, and mended without a click."""

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.browser.gate import a_gate
from tests.browser.joins import address_of
from tests.integration.test_cms_log import Leaving
from tests.integration.test_cms_sequences import committed
from tests.integration.test_cms_serving import served

pytestmark = pytest.mark.asyncio(loop_scope="session")

SILENCE_TIMEOUT_MS = 40_000
SOON_MS = 12_000
"""Less than a request may be silent."""


@pytest.fixture
def store():
    return Leaving()


@pytest_asyncio.fixture(loop_scope="session")
async def client(store):
    async with served(store=store) as found:
        await found.set(5)
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def gate(client):
    async with a_gate(address_of(client)) as found:
        yield found


async def keyspace(client, name):
    replication = {"strategy": "simple", "factor": 1}
    await committed(client, "CreateKeyspace", name=name, replication=replication)


async def test_a_request_that_hangs_is_said_and_asked_for_again(client, gate, look):
    visitor = await look(client, url=gate.url)
    page = visitor.page
    await visitor.open("schema")
    gate.lose(b"GET /v1/modified")
    await keyspace(client, "late")

    problem = page.locator(".view-problem")
    await expect(problem).to_contain_text("has not answered for 5 seconds")
    await expect(page.locator("#connection")).to_have_attribute("data-state", "live")
    await expect(problem).to_contain_text("silent for 20 seconds", timeout=SILENCE_TIMEOUT_MS)
    await expect(page.locator(".view")).to_contain_text("late")
    await expect(problem).to_be_empty()


async def test_what_hangs_is_not_waited_for_once_the_connection_is_back(client, store, gate, look):
    visitor = await look(client, url=gate.url)
    visitor.forgive("status of 503|net::ERR_")
    await visitor.open("schema")
    gate.lose(b"GET /v1/modified")
    await keyspace(client, "late")
    connection = visitor.page.locator("#connection")

    store.is_away = True
    await expect(connection).not_to_have_attribute("data-state", "live")
    store.is_away = False

    await expect(connection).to_have_attribute("data-state", "live", timeout=SOON_MS)
    await expect(visitor.page.locator(".view")).to_contain_text("late", timeout=SOON_MS)


async def test_a_past_epoch_that_could_not_be_read_is_read_once_it_can_be(client, gate, look):
    visitor = await look(client, url=gate.url)
    visitor.forgive("net::ERR_")
    page = visitor.page
    await visitor.open("schema?at=4")
    gate.shut()
    await page.get_by_role("button", name="One epoch back").click()
    notice = page.locator(".view-problem")
    await expect(notice).to_contain_text("does not answer. The console keeps trying.")

    gate.open()

    await expect(notice).to_be_empty()
    await expect(page.locator("main")).to_have_attribute("data-shown", "3")
