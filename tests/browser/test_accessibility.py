"""Every view, in light and dark: nothing that axe calls serious, and no scrolling sideways."""

import pytest
from axe_playwright_python.async_playwright import Axe

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
