"""Who looks: tokens, roles, and clusters that need none."""

import pytest
from playwright.async_api import expect

from tests.integration.test_cms_serving import served
from tests.tidy.source import ROOT

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def typed(page, token):
    await page.fill("#token", token)
    await page.keyboard.press("Enter")


async def test_a_token_opens_the_console_and_stays_in_the_tab(stack, visit):
    visitor = await visit(role=None)
    page = visitor.page
    await page.goto(f"{visitor.url}/console/#/schema?at=3")
    await expect(page.locator("#token")).to_be_focused()

    await typed(page, stack.tokens["viewer"])

    await visitor.shown("schema")
    await expect(page.locator(".who")).to_contain_text("viewer")
    await expect(page.locator("main")).to_have_attribute("data-shown", "3")
    await page.reload()
    await visitor.shown("schema")
    assert await page.evaluate("JSON.stringify(localStorage)") == "{}"


async def test_the_log_names_whoever_gave_a_name(stack, visit):
    async with stack.waiting_join("spare-named") as (_, sequence):
        visitor = await visit(role=None)
        page = visitor.page
        await page.goto(f"{visitor.url}/console/#/sequences?id={sequence}")
        await page.fill("#name", "ann")
        await typed(page, stack.tokens["operator"])
        await visitor.shown("sequences")
        await page.reload()

        await page.click("#cancel")
        await page.get_by_role("button", name=f"Cancel sequence {sequence}").click()

        await expect(page.locator(".steps > li.is-cancel")).to_contain_text("by console:ann")
        await page.click("#sign-out")
        await expect(page.locator("#name")).to_have_value("")
        assert await page.evaluate("sessionStorage.length") == 0


async def test_the_form_says_where_tokens_are(stack, visit):
    visitor = await visit(role=None)
    await visitor.load("", "#token")

    hint = visitor.page.locator("#token-hint")
    await expect(hint).to_contain_text("ringlog up --tokens")
    await expect(hint).to_contain_text("exec cms-1 cat /run/ringlog/tokens.json")
    compose = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    assert "RINGLOG_TOKENS_FILE: /run/ringlog/tokens.json" in compose


async def test_a_wrong_token_is_told_and_another_may_be_tried(stack, visit):
    visitor = await visit(role=None)
    page = visitor.page
    await page.goto(f"{visitor.url}/console/")

    await typed(page, "nonsense")

    await expect(page.get_by_role("alert")).to_contain_text("not known here; copy it again")
    await expect(page.locator("#token")).to_be_focused()
    assert await page.evaluate("sessionStorage.length") == 0
    await typed(page, stack.tokens["operator"])
    await visitor.shown("ring")


async def test_signing_out_forgets_the_token(stack, visit):
    visitor = await visit(role=None)
    page = visitor.page
    await page.goto(f"{visitor.url}/console/")
    await typed(page, stack.tokens["viewer"])
    await visitor.shown("ring")

    await page.click("#sign-out")

    await expect(page.locator("#token")).to_be_visible()
    assert await page.evaluate("sessionStorage.length") == 0
    await page.reload()
    await expect(page.locator("#token")).to_be_visible()


async def test_a_cluster_without_tokens_needs_no_signing_in(visit):
    async with served() as client:
        visitor = await visit(role=None, url=str(client.session._base_url).rstrip("/"))
        await visitor.open("ring")

        await expect(visitor.page.locator("main")).to_contain_text("No nodes yet")
        await expect(visitor.page.locator(".who")).to_contain_text("open")
        assert await visitor.page.locator("#sign-out").count() == 0


async def test_a_new_cluster_says_in_every_view_what_to_do(visit):
    async with served() as client:
        visitor = await visit(role=None, url=str(client.session._base_url).rstrip("/"))
        for view, said in (
            ("ring", "No nodes yet"),
            ("nodes", "No nodes yet"),
            ("schema", "No keyspace yet"),
            ("cms", "The address book is empty"),
        ):
            main = await visitor.open(view)
            await expect(main).to_contain_text(said)


async def test_the_theme_is_the_systems_until_it_is_switched(stack, visit):
    visitor = await visit(scheme="dark")
    page = visitor.page
    await visitor.open("schema")
    dark = await page.evaluate("getComputedStyle(document.body.parentElement).backgroundColor")

    await page.click("#theme")

    light = await page.evaluate("getComputedStyle(document.body.parentElement).backgroundColor")
    assert dark != light
    await page.reload()
    await visitor.shown("schema")
    kept = await page.evaluate("getComputedStyle(document.body.parentElement).backgroundColor")
    assert kept == light
