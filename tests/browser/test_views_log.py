"""The log in the browser: live tail, filters, entries with their differences, pages far back."""

import re

import pytest
from playwright.async_api import expect

from client.proposals import Proposal
from metadata.directory import NodeId
from tests.browser.joins import a_join, step
from tests.integration.test_cms_sequences import PREPARED
from transformations.extensions import SetExtension
from transformations.leave import PrepareLeave

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROWS = 100


def rows(page):
    return page.locator(".log-table tbody tr[data-epoch]")


async def test_new_entries_appear_on_top_by_themselves(stack, visit):
    visitor = await visit(role="viewer")
    await visitor.open("log")

    outcome = await stack.commit(SetExtension(name="tail", value="seen"), actor="ann")

    newest = visitor.page.locator(f'.log-table tr[data-epoch="{outcome.epoch}"]')
    await expect(newest).to_contain_text("tail = seen")
    await expect(rows(visitor.page).first).to_have_attribute("data-epoch", str(outcome.epoch))


async def test_an_entry_opens_with_its_difference(stack, visit):
    outcome = await stack.commit(SetExtension(name="opened", value="here"), actor="ann")
    visitor = await visit(role="viewer")
    await visitor.open("log")
    toggle = visitor.page.locator(f'tr[data-epoch="{outcome.epoch}"] .log-toggle')

    await toggle.focus()
    await visitor.page.keyboard.press("Enter")

    opened = visitor.page.locator(f"#entry-{outcome.epoch}")
    await expect(opened.locator(".log-difference")).to_contain_text("Extensions")
    await expect(opened.locator("pre")).to_contain_text('"value": "here"')
    await expect(toggle).to_have_attribute("aria-expanded", "true")
    await expect(visitor.page).to_have_url(re.compile(f"entry={outcome.epoch}$"))
    await expect(toggle).to_be_focused()


@pytest.mark.parametrize(
    ("field", "text", "cell", "expected"),
    [
        ("kind", "createtable", ".log-what", r"^table shop\.orders"),
        ("actor", "ann", "td:last-child", r"\bann$"),
        ("node", "2", ".log-what", r"node 2\b|sequence"),
        ("keyspace", "shop", ".log-what", r"shop"),
    ],
)
async def test_entries_are_filtered(stack, visit, field, text, cell, expected):
    visitor = await visit(role="viewer")
    await visitor.open("log")
    everything = await rows(visitor.page).count()

    await visitor.page.fill(f"#log-{field}", text)

    await expect(visitor.page).to_have_url(re.compile(rf"#/log\?{field}={text}$"))
    await expect(visitor.page.locator("#log-note")).to_contain_text("match")
    found = await rows(visitor.page).locator(cell).all_inner_texts()
    assert 0 < len(found) < everything
    assert all(re.search(expected, item) for item in found), found


async def test_the_tail_of_one_node_is_not_read_anew_with_every_entry(look):
    async with a_join() as client:
        visitor = await look(client)
        page = visitor.page
        await visitor.open("log?node=4")
        await expect(rows(page).first).to_have_attribute("data-epoch", str(PREPARED))
        asked = []
        page.on("request", lambda request: asked.append(request.url))

        await client.set(1)
        # Names its sequence alone, whose Prepare was read before.
        assert await step(client) == "start"

        await expect(rows(page).first).to_have_attribute("data-epoch", str(PREPARED + 2))
        assert [url for url in asked if "/v1/log?" in url] == []


async def test_pages_lead_far_back_and_hold_few_rows(stack, visit):
    many = [
        Proposal(transformation=SetExtension(name=f"n{i % 7}", value=str(i))) for i in range(350)
    ]
    await stack.client.commit_batch(many)
    tip = await stack.tip()
    visitor = await visit(role="viewer")
    await visitor.open("log")
    page = visitor.page

    assert await rows(page).count() == ROWS
    await page.click("#log-older")
    await expect(rows(page).first).to_have_attribute("data-epoch", str(tip - ROWS))
    assert await rows(page).count() == ROWS
    await page.click("#log-oldest")
    await expect(rows(page).last).to_have_attribute("data-epoch", "1")
    await expect(page.locator('tr[data-epoch="1"]')).to_contain_text("founds the cluster shop")
    await expect(page.locator("#log-older")).to_be_disabled()
    await page.click("#log-newest")
    await expect(rows(page).first).to_have_attribute("data-epoch", str(tip))


async def test_a_link_leads_to_an_old_entry(stack, visit):
    visitor = await visit(role="viewer")
    await visitor.open("log?entry=2")

    await expect(visitor.page.locator("#entry-2 .log-difference")).to_contain_text("CMS")


async def test_at_a_past_epoch_nothing_later_is_there(stack, visit):
    visitor = await visit(role="viewer")
    await visitor.open("log?at=7")

    await expect(rows(visitor.page).first).to_have_attribute("data-epoch", "7")
    assert await rows(visitor.page).count() == 7
    await expect(visitor.page.locator("#rejections")).to_contain_text("not in the log")


async def test_rejections_are_counted_by_code(stack, visit):
    problem = await stack.refused(PrepareLeave(node=NodeId(1)))
    visitor = await visit(role="viewer")
    await visitor.open("log")

    await expect(visitor.page.locator("#rejections")).to_contain_text(problem.code)
