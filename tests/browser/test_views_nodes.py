"""Nodes and the CMS in the browser: liveness, lag, rows; members, throughput, refusals."""

import asyncio
import re

import pytest
from playwright.async_api import expect

from client.proposals import Proposal
from metadata.directory import NodeId
from tests.browser.joins import a_join
from tests.browser.visitor import NARROW
from tests.integration.test_cms_reports import tell
from tests.integration.test_cms_sequences import PREPARED
from transformations.extensions import SetExtension
from transformations.leave import PrepareLeave

pytestmark = pytest.mark.asyncio(loop_scope="session")

HEARD_TIMEOUT_MS = 40_000
COUNTED_TIMEOUT_S = 60.0
POINTS = re.compile(r"^M[\d. ]+(L[\d. ]+)+$")
"""The path of a line with two points or more."""
ENDS_LOW = re.compile(r"L[\d.]+ 18\.0$")
"""At zero."""
ENDS_HIGH = re.compile(r"L[\d.]+ (?!18\.0$)[\d.]+$")


def heights(path):
    """How high the points of a line stand; the smaller, the higher."""
    return [float(point.split()[1]) for point in re.split("[ML]", path)[1:]]


def row(page, number):
    rows = page.get_by_role("region", name="Nodes").locator("tbody tr")
    return rows.filter(has=page.get_by_role("link", name=f"node {number}", exact=True))


async def held(stack):
    """Rows of all nodes, which count them every now and then."""
    nodes = (await stack.get("/v1/nodes"))["nodes"]
    return sum(node["data"]["shop.orders"]["rows"] for node in nodes if node["data"])


async def test_every_node_is_there_with_what_it_holds(stack, visit):
    visitor = await visit(role="viewer")
    await visitor.open("nodes")

    found = await stack.get("/v1/nodes")
    for node in found["nodes"]:
        shown = row(visitor.page, node["id"])
        await expect(shown).to_contain_text(node["state"])
        await expect(shown).to_contain_text(node["addresses"]["http"])
    async with asyncio.timeout(COUNTED_TIMEOUT_S):
        while not await held(stack):  # noqa: ASYNC110 other processes
            await asyncio.sleep(0.5)
    line = row(visitor.page, 1).get_by_role("img", name="Lag of node 1")
    await expect(line.locator(".sparkline-line")).to_have_attribute("d", POINTS)


async def test_a_click_leads_to_one_node_and_its_tables(stack, visit):
    visitor = await visit(role="viewer")
    page = visitor.page
    await visitor.open("nodes")

    await row(page, 2).locator("td").nth(5).click()

    panel = page.locator("#node-panel")
    await expect(panel.get_by_role("heading", name="Node 2")).to_be_visible()
    await expect(page).to_have_url(re.compile(r"#/nodes\?node=2$"))
    tables = panel.get_by_role("region", name="Tables on node 2")
    await expect(tables).to_contain_text("shop.orders")
    await panel.get_by_role("link", name="Show on the ring").click()
    await visitor.shown("ring")
    await expect(page.locator("#ring-panel")).to_contain_text("Node 2")


async def test_a_node_that_stops_falls_behind_before_ones_eyes(stack, visit):
    visitor = await visit(role="viewer")
    page = visitor.page
    await visitor.open("nodes?node=3")
    await expect(row(page, 3)).to_contain_text("up")

    with stack.paused("node-3"):
        await stack.touch()
        unheard = re.compile("late|down")
        await expect(row(page, 3)).to_contain_text(unheard, timeout=HEARD_TIMEOUT_MS)
        lag = page.locator("#node-panel dt:text-is('Lag') + dd")
        await expect(lag).to_contain_text(re.compile(r"[1-9]"))
        await expect(page.locator(".summary")).to_contain_text("behind")
        line = row(page, 3).get_by_role("img", name="Lag of node 3").locator(".sparkline-line")
        await expect(line).to_have_attribute("d", ENDS_HIGH)

    await expect(row(page, 3)).to_contain_text("up", timeout=HEARD_TIMEOUT_MS)
    await expect(line).to_have_attribute("d", ENDS_LOW)


async def test_a_lag_of_one_epoch_is_a_low_line(look):
    async with a_join() as client:
        await tell(client, 1, PREPARED - 1)
        visitor = await look(client)
        await visitor.open("nodes")

        line = row(visitor.page, 1).get_by_role("img", name="Lag of node 1: now 1,")
        path = line.locator(".sparkline-line")
        await expect(path).to_have_attribute("d", POINTS)
        # Of twenty; the smaller, the higher, and 18 is none.
        assert 15 < heights(await path.get_attribute("d"))[-1] < 18


async def test_the_past_says_nothing_of_liveness(stack, visit):
    visitor = await visit(role="viewer")
    tip = await stack.tip()
    await visitor.open(f"nodes?node=1&at={tip}")

    await expect(visitor.page.locator("#node-panel")).to_contain_text("only known live")
    await expect(row(visitor.page, 1)).to_contain_text("joined")
    main = await visitor.open("nodes?at=1")
    await expect(main).to_contain_text("No nodes at epoch 1")


async def test_a_node_that_is_not_there_is_named(stack, visit):
    visitor = await visit(role="viewer")
    await visitor.open("nodes?node=4711")

    await expect(visitor.page.locator("#node-panel")).to_contain_text("There is no node 4711")


async def test_rows_are_sorted_and_the_order_outlasts_news(stack, visit):
    visitor = await visit(role="viewer")
    page = visitor.page
    await visitor.open("nodes")
    first = page.get_by_role("region", name="Nodes").locator("tbody tr").first
    sorter = page.get_by_role("button", name="Node", exact=True)

    await sorter.click()
    await expect(first).to_contain_text("node 1")
    await sorter.click()
    await expect(first).not_to_contain_text("node 1")
    epoch = await stack.touch()
    await expect(page.locator("main")).to_have_attribute("data-shown", str(epoch))

    await expect(first).not_to_contain_text("node 1")
    await expect(sorter).to_be_focused()


async def test_a_phone_shows_the_state_of_a_node(stack, visit):
    visitor = await visit(role="viewer", size=NARROW)
    await visitor.open("nodes")

    await expect(row(visitor.page, 1).get_by_text("joined")).to_be_in_viewport()
    await expect(row(visitor.page, 1).get_by_text("up", exact=True)).to_be_in_viewport()


async def test_the_cms_says_who_sequences_and_what_was_refused(stack, visit):
    problem = await stack.refused(PrepareLeave(node=NodeId(1)))
    visitor = await visit(role="viewer")
    page = visitor.page
    await visitor.open("cms")

    members = page.get_by_role("region", name="Members of the CMS")
    await expect(members.locator("tr").filter(has_text="cms_1")).to_contain_text("sequences")
    refused = page.get_by_role("region", name="Rejections by code")
    await expect(refused.locator("tr").filter(has_text=problem.code)).to_have_count(1)
    await expect(page.locator(".figure")).to_contain_text("commits/s")
    # The same one by both of its names.
    await expect(page.locator("dt:text-is('Process') + dd")).to_have_text("cms-1")
    await expect(page.locator("dt:text-is('Member') + dd")).to_have_text("cms_1")


async def test_throughput_rises_with_commits(stack, visit):
    visitor = await visit(role="viewer")
    page = visitor.page
    await visitor.open("cms")
    line = page.get_by_role("img", name="Commits per second of late").locator(".sparkline-line")
    await expect(line).to_have_attribute("d", POINTS)
    flat = await line.get_attribute("d")

    many = [Proposal(transformation=SetExtension(name="t", value=str(i))) for i in range(100)]
    await stack.client.commit_batch(many)

    await expect(page.locator(".figure strong")).to_have_text(re.compile(r"^[1-9][\d.]* commits/s"))
    await expect(line).not_to_have_attribute("d", flat)
    points = heights(await line.get_attribute("d"))
    assert max(points) - min(points) > 1


async def test_at_a_past_epoch_the_cms_shows_its_members_only(stack, visit):
    visitor = await visit(role="viewer")
    tip = await stack.tip()
    await visitor.open(f"cms?at={tip - 1}")

    page = visitor.page
    await expect(page.get_by_role("region", name="Members of the CMS")).to_contain_text("cms_1")
    await expect(page.get_by_text("are of this moment only")).to_be_visible()
    await expect(page.locator(".figure")).to_be_hidden()
