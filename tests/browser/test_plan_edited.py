"""A plan is of the form as it stood: once that changes, nothing can be submitted by it."""

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.integration.test_cms_sequences import JOIN, committed, joining, without_sequence
from tests.integration.test_cms_serving import served

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def client():
    """Four owners of three replicas; any of them may go."""
    async with served(founded=False) as found:
        await joining(found)
        await without_sequence(found)
        await committed(found, "UnsafeJoin", node=4, tokens=JOIN["tokens"], accept_loss="a test")
        yield found


async def planned(look, client, address):
    visitor = await look(client)
    page = visitor.page
    await visitor.open(address)
    await page.click("#plan-form summary")
    await page.click("#plan-show")
    await expect(page.locator("#plan-answer")).to_contain_text("is possible")
    await expect(page.locator("#plan-submit")).to_be_enabled()
    return page


async def test_a_tick_after_the_plan_has_to_be_planned_again(client, look):
    page = await planned(look, client, "plan?change=leave&node=3")

    await page.get_by_label("node 3 –").check()

    await expect(page.locator("#plan-submit")).to_be_disabled()
    await expect(page.locator(".plan-stale")).to_contain_text("The form has changed")
    await page.get_by_role("button", name="Plan again").click()
    await expect(page.locator(".plan-stale")).to_be_empty()
    await page.click("#plan-submit")
    await page.get_by_role("button", name="Begin the leave").click()
    await expect(page.locator("#sayings")).to_contain_text("has begun")
    _, answer = await client.get("/v1/log?after=0")
    newest = answer["entries"][-1]["transformation"]
    assert (newest["kind"], newest["node"], newest["dead"]) == ("PrepareLeave", 3, [3])


@pytest.mark.parametrize(
    ("address", "field", "text"),
    [
        ("plan?change=leave&node=3", "#plan-force", None),
        ("plan?change=leave&node=3", "#plan-loss", "I accept"),
        ("plan?change=move&node=3", "#plan-tokens", "5"),
        ("plan?change=move&node=3", "#plan-count", "2"),
    ],
)
async def test_no_field_may_change_unnoticed(client, look, address, field, text):
    page = await planned(look, client, address)

    await (page.check(field) if text is None else page.fill(field, text))

    await expect(page.locator("#plan-submit")).to_be_disabled()


async def test_a_plan_that_is_overtaken_by_an_edit_is_outdated_when_it_comes(client, look):
    visitor = await look(client)
    page = visitor.page
    await visitor.open("plan?change=leave&node=3")
    await page.click("#plan-form summary")
    answered = []

    async def late(route):
        response = await route.fetch()
        await page.check("#plan-force")
        answered.append(response.status)
        await route.fulfill(response=response)

    await page.route("**/v1/plan", late)
    await page.click("#plan-show")

    await expect(page.locator(".plan-stale")).to_contain_text("The form has changed")
    await expect(page.locator("#plan-submit")).to_be_disabled()
    assert answered == [200]
