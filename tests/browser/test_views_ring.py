"""The ring and the schema: who owns what, and what is being moved."""

import asyncio
import re

import pytest
from playwright.async_api import expect

from metadata.barriers import Evidence, Level
from metadata.directory import NodeId
from metadata.locks import SequenceId
from metadata.schema import Simple
from transformations.join import StartJoin
from transformations.schema import CreateKeyspace, DropKeyspace

pytestmark = pytest.mark.asyncio(loop_scope="session")

BARRIER_TIMEOUT_S = 60.0
POLL_S = 0.1


async def start_join(stack, sequence):
    """As its driver would: once every voter has applied the step before. Gives the epoch."""
    async with asyncio.timeout(BARRIER_TIMEOUT_S):
        while True:
            found = await stack.get(f"/v1/sequences/{sequence}")
            if found["barrier"]["passed"]:
                break
            await asyncio.sleep(POLL_S)
    applied = {node for group in found["barrier"]["groups"] for node in group["applied"]}
    evidence = Evidence(Level(found["barrier"]["level"]), tuple(map(NodeId, sorted(applied))))
    return (await stack.commit(StartJoin(SequenceId(sequence), evidence))).epoch


def owners(page):
    return page.get_by_role("region", name="Ownership by node").locator("tbody tr")


async def test_every_node_has_its_share(stack, visit):
    joined = [node for node in await stack.directory() if node["state"] == "joined"]
    visitor = await visit(role="viewer")
    await visitor.open("ring?keyspace=shop")
    page = visitor.page

    label = await page.get_by_role("img", name="Ring of").get_attribute("aria-label")
    assert re.match(r"Ring of \d+ nodes and \d+ tokens", label)
    for node in joined:
        link = page.get_by_role("link", name=f"node {node['id']}", exact=True)
        row = owners(page).filter(has=link)
        await expect(row).to_contain_text(f"{node['datacenter']} / {node['rack']}")
        await expect(row).to_contain_text(re.compile(r"\d+\.\d%"))
    cells = page.get_by_role("region", name="Ownership by node").locator("td:nth-child(4)")
    reads = [float(text.rstrip("%")) for text in await cells.all_inner_texts()]
    # Two replicas of everything.
    assert sum(reads) == pytest.approx(200, abs=1)


async def test_a_click_on_the_ring_shows_the_range_with_its_owners(stack, visit):
    visitor = await visit(role="viewer")
    page = visitor.page
    await visitor.open("ring?keyspace=shop")
    canvas = page.locator("canvas")
    box = await canvas.bounding_box()
    band = {"x": box["width"] / 2, "y": box["height"] * 0.08}

    await canvas.hover(position=band)
    await expect(page.locator(".ring-tooltip")).to_contain_text("of the ring")
    await canvas.click(position=band)

    panel = page.locator("#ring-panel")
    await expect(panel.get_by_role("heading")).to_have_text("Range")
    await expect(page).to_have_url(re.compile(r"token=-?\d+"))
    (token,) = re.findall(r"token=(-?\d+)", page.url)
    found = await stack.get(f"/v1/owners?keyspace=shop&token={token}")
    readers = panel.locator("dt:text-is('Readers') + dd")
    await expect(readers).to_have_text(", ".join(map(str, found["readers"])))
    await panel.locator("dt:text-is('Primary') + dd a").click()
    await visitor.shown("nodes")
    await expect(page.locator("#node-panel")).to_contain_text(f"Node {found['readers'][0]}")


async def test_ranges_being_moved_show_readers_against_writers(stack, visit):
    async with stack.waiting_join("spare-ring") as (node, sequence):
        visitor = await visit(role="viewer")
        page = visitor.page
        await visitor.open("ring?keyspace=shop")
        moving = page.get_by_role("region", name="Ranges being moved")
        await expect(moving).to_contain_text(f"join {sequence}")
        await expect(moving).to_contain_text("prepare")
        assert await moving.locator(".ahead").count() == 0

        started = await start_join(stack, sequence)

        # Written by the new one too, read from the old ones only.
        await expect(page.locator("main")).to_have_attribute("data-shown", str(started))
        await expect(moving.locator(".ahead").first).to_have_text(f"+{node}")
        await moving.get_by_role("link").first.click()
        panel = page.locator("#ring-panel")
        await expect(panel).to_contain_text("written by old and new owners, read from the old")
        await expect(panel.locator("dt:text-is('Writers') + dd")).to_contain_text(f"+{node}")
        await moving.get_by_role("link", name=f"join {sequence}").first.click()
        await visitor.shown("sequences")


async def test_a_node_stands_out_and_is_named(stack, visit):
    visitor = await visit(role="viewer")
    page = visitor.page
    await visitor.open("ring?node=1&colour=rack")

    panel = page.locator("#ring-panel")
    await expect(panel.get_by_role("heading")).to_have_text("Node 1")
    await expect(page.get_by_label("Colour by")).to_have_value("rack")
    await panel.get_by_role("link", name="Close").click()
    await expect(panel).to_be_hidden()
    await expect(page).to_have_url(re.compile(r"#/ring\?colour=rack$"))


async def test_the_first_epochs_have_no_nodes(stack, visit):
    visitor = await visit(role="viewer")
    main = await visitor.open("ring?at=1")

    await expect(main).to_contain_text("No nodes at epoch 1")


async def test_the_schema_follows_the_log_and_leads_to_the_ring(stack, visit):
    visitor = await visit(role="viewer")
    page = visitor.page
    await visitor.open("schema?keyspace=shop&table=orders")
    columns = page.get_by_role("region", name="Columns of shop.orders")
    await expect(columns).to_contain_text("amount")
    await expect(columns.locator("tr").filter(has_text="partition key")).to_contain_text("id")

    await stack.commit(CreateKeyspace(name="fresh", replication=Simple(1)))
    keyspaces = page.get_by_role("region", name="Keyspaces")
    await expect(keyspaces).to_contain_text("fresh")
    await stack.commit(DropKeyspace(name="fresh"))
    await expect(keyspaces).not_to_contain_text("fresh")

    await page.get_by_role("link", name="Show on the ring").click()
    await visitor.shown("ring")
    await expect(page.get_by_label("Keyspace")).to_have_value("shop")
