"""Every view, in light and dark: nothing that axe calls serious, and no scrolling sideways."""

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect

from tests.browser.gate import a_gate
from tests.browser.visitor import NARROW

pytestmark = pytest.mark.asyncio(loop_scope="session")

VIEWS = ("ring", "nodes", "sequences", "plan", "log", "schema", "cms")
GRAVE = ("serious", "critical")


async def findings(page):
    found = await Axe().run(page)
    return [
        (item["id"], item["impact"], [node["html"] for node in item["nodes"]][:3])
        for item in found.response["violations"]
        if item["impact"] in GRAVE
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_view_has_serious_findings(stack, visit, scheme):
    visitor = await visit(scheme=scheme)
    for view in VIEWS:
        await visitor.open(view)
        assert await findings(visitor.page) == [], view


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_what_opens_has_no_serious_findings_either(stack, visit, scheme):
    visitor = await visit(scheme=scheme)
    page = visitor.page
    await visitor.open("plan?change=move&node=2")
    await page.click("#plan-form summary")
    await page.click("#plan-show")
    await page.locator("#plan-answer").wait_for()
    assert await findings(page) == []
    await page.click("#plan-submit")
    assert await findings(page) == []
    await page.keyboard.press("Escape")
    await visitor.open("log?entry=11")
    await page.locator(".log-difference h3").first.wait_for()
    assert await findings(page) == []
    async with stack.waiting_join(f"spare-{scheme}") as (_, sequence):
        await visitor.open(f"sequences?id={sequence}")
        assert await findings(page) == []
        await page.click("#cancel")
        await page.get_by_role("dialog").wait_for()
        assert await findings(page) == []
        await page.keyboard.press("Escape")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_panels_have_no_serious_findings(stack, visit, scheme):
    visitor = await visit(scheme=scheme)
    page = visitor.page
    await visitor.open("nodes?node=2")
    await page.get_by_role("region", name="Tables on node 2").wait_for()
    assert await findings(page) == []
    await visitor.open("ring?keyspace=shop&node=2")
    await page.locator("#ring-panel summary").click()
    assert await findings(page) == []
    await page.locator("#ring-panel .tokens a").first.click()
    await page.get_by_role("heading", name="Range", exact=True).wait_for()
    assert await findings(page) == []


async def test_a_phone_has_no_serious_findings(stack, visit):
    visitor = await visit(size=NARROW)
    for address in (*VIEWS, "nodes?node=2", "ring?keyspace=shop&node=2"):
        await visitor.open(address)
        assert await findings(visitor.page) == [], address


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_what_is_stale_is_as_readable(stack, visit, scheme):
    async with a_gate(stack.url) as gate:
        visitor = await visit(scheme=scheme, url=gate.url)
        visitor.forgive("net::ERR_")
        await visitor.open("nodes?node=2")
        gate.shut()
        connection = visitor.page.locator("#connection")
        await expect(connection).to_have_attribute("data-state", "stale")
        assert await findings(visitor.page) == []


async def test_signing_in_has_no_serious_findings(stack, visit):
    visitor = await visit(role=None)
    await visitor.load("", "#token")
    assert await findings(visitor.page) == []


async def test_nothing_is_wider_than_a_phone(stack, visit):
    visitor = await visit(size=NARROW)
    for address in (*VIEWS, "plan?change=move&node=2", "log?entry=11", "sequences?id=1"):
        await visitor.open(address)
        if address.startswith("plan?"):
            await visitor.page.click("#plan-show")
            await visitor.page.locator("#plan-answer").wait_for()
        width = await visitor.page.evaluate("document.documentElement.scrollWidth")
        assert width <= NARROW["width"], address


async def test_a_phone_shows_all_views_the_cluster_and_the_role(stack, visit):
    visitor = await visit(role="viewer", size=NARROW)
    await visitor.open("ring")

    page = visitor.page
    links = page.get_by_role("navigation", name="Views").get_by_role("link")
    assert await links.count() == len(VIEWS)
    for link in await links.all():
        await expect(link).to_be_in_viewport(ratio=1)
    await expect(page.get_by_role("banner")).to_contain_text("viewer")
    await expect(page.locator(".cluster-name")).to_be_in_viewport(ratio=1)
    await expect(page.locator(".cluster-name")).to_have_text("shop")
