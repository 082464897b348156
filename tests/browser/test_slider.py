"""Time: any epoch by mouse, keyboard, number or link, in every view; and what changed there."""

import re

import pytest
from playwright.async_api import expect

pytestmark = pytest.mark.asyncio(loop_scope="session")

VIEWS = ("ring", "nodes", "sequences", "plan", "log", "schema", "cms")


async def at(visitor, epoch):
    """Wait until an epoch is what is seen, and what the address says."""
    await expect(visitor.page.locator("main")).to_have_attribute("data-shown", str(epoch))
    await expect(visitor.page).to_have_url(re.compile(rf"[?&]at={epoch}(&|$)"))


@pytest.mark.parametrize("view", VIEWS)
async def test_every_view_shows_a_past_epoch_by_link(stack, visit, view):
    visitor = await visit()
    await visitor.open(f"{view}?at=5")

    await at(visitor, 5)
    await expect(visitor.page.locator("main")).to_have_attribute("data-live", "false")
    await expect(visitor.page.locator("#epoch-slider")).to_have_value("5")
    await expect(visitor.page.locator("#back-to-live")).to_be_enabled()


async def test_keys_move_the_slider_and_its_right_end_is_live(stack, visit):
    tip = await stack.tip()
    visitor = await visit(role="viewer")
    page = visitor.page
    await visitor.open("schema")
    slider = page.locator("#epoch-slider")
    await expect(slider).to_have_attribute("max", str(tip))
    await slider.focus()

    await page.keyboard.press("ArrowLeft")
    await at(visitor, tip - 1)
    await page.keyboard.press("ArrowLeft")
    await at(visitor, tip - 2)
    await expect(slider).to_have_attribute("aria-valuetext", f"Epoch {tip - 2} of {tip}")
    await page.keyboard.press("Home")
    await at(visitor, 0)
    await page.keyboard.press("End")
    await expect(page.locator("main")).to_have_attribute("data-live", "true")
    await expect(page).to_have_url(re.compile(r"#/schema$"))


async def test_an_epoch_can_be_typed_and_left_again(stack, visit):
    visitor = await visit(role="viewer")
    page = visitor.page
    await visitor.open("nodes")

    await page.fill("#epoch-entry", "4")
    await page.keyboard.press("Enter")
    await at(visitor, 4)
    await page.click("#back-to-live")

    await expect(page.locator("main")).to_have_attribute("data-live", "true")
    await expect(page.locator("#back-to-live")).to_be_disabled()


async def test_the_epoch_stays_from_view_to_view(stack, visit):
    visitor = await visit(role="viewer")
    await visitor.open("ring?at=6")

    await visitor.page.get_by_role("navigation", name="Views").get_by_text("Nodes").click()

    await visitor.shown("nodes")
    await at(visitor, 6)
    await expect(visitor.page.locator("h1")).to_be_focused()
    await visitor.page.go_back()
    await visitor.shown("ring")
    await at(visitor, 6)


async def test_what_changed_is_one_click_away(stack, visit):
    visitor = await visit(role="viewer")
    page = visitor.page
    epoch = await first_keyspace(stack)
    await visitor.open(f"ring?at={epoch}")

    await page.click("#what-changed")

    dialog = page.get_by_role("dialog", name=f"What changed at epoch {epoch}")
    await expect(dialog).to_contain_text("CreateKeyspace")
    await expect(dialog).to_contain_text("the shop opens")
    await expect(dialog.get_by_role("heading", name="Schema")).to_be_visible()
    await dialog.get_by_role("button", name="Epoch before").click()
    await expect(page.get_by_role("dialog")).to_contain_text(f"at epoch {epoch - 1}")
    await page.keyboard.press("Escape")
    await expect(page.locator("#what-changed")).to_be_focused()


async def test_what_changed_ends_at_the_tip(stack, visit):
    visitor = await visit(role="viewer")
    page = visitor.page
    tip = await stack.touch()
    await visitor.open("schema")
    await expect(page.locator("#epoch-slider")).to_have_attribute("max", str(tip))

    await page.click("#what-changed")

    dialog = page.get_by_role("dialog", name=f"What changed at epoch {tip}")
    after = page.get_by_role("button", name="Epoch after")
    await expect(dialog).to_contain_text("SetExtension")
    await expect(after).to_be_disabled()
    await page.get_by_role("button", name="Epoch before").click()
    await expect(after).to_be_enabled()
    await after.click()
    await expect(dialog).to_contain_text("SetExtension")


async def test_what_changed_can_be_left_where_it_cannot_be_told(stack, visit):
    visitor = await visit(role="viewer")
    visitor.forgive("status of 410")
    page = visitor.page
    gone = {"status": 410, "code": "trimmed", "detail": "Entries up to epoch 5 are gone."}
    await page.route("**/v1/log/5", lambda route: route.fulfill(status=410, json=gone))
    await visitor.open("schema?at=6")
    await page.click("#what-changed")
    await page.get_by_role("button", name="Epoch before").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("alert")).to_contain_text("Entries up to epoch 5 are gone.")

    await page.get_by_role("button", name="Epoch after").click()

    await expect(page.get_by_role("dialog", name="What changed at epoch 6")).to_be_visible()
    await expect(dialog.get_by_role("alert")).to_have_count(0)


async def test_a_link_ahead_of_the_log_is_shown_once_that_comes(stack, visit):
    tip = await stack.tip()
    visitor = await visit(role="viewer")
    visitor.forgive("status of 404")
    await visitor.page.goto(f"{visitor.url}/console/#/schema?at={tip + 1}")
    await expect(visitor.page.locator(".view-problem")).to_contain_text("There is no epoch")

    assert await stack.touch() == tip + 1

    await at(visitor, tip + 1)
    await expect(visitor.page.locator(".view-problem")).to_be_empty()


async def test_sliding_ends_where_the_slider_does(stack, visit):
    """Many wishes a second, of which only the last has to be granted."""
    tip = await stack.tip()
    visitor = await visit(role="viewer")
    page = visitor.page
    await visitor.open("ring")
    box = await page.locator("#epoch-slider").bounding_box()
    middle = box["y"] + box["height"] / 2
    await page.mouse.move(box["x"] + box["width"] - 4, middle)
    await page.mouse.down()
    for step in range(40):
        await page.mouse.move(box["x"] + box["width"] * (39 - step) / 41, middle)
    await page.mouse.move(box["x"] + box["width"] / 2, middle)
    await page.mouse.up()

    wanted = int(await page.locator("#epoch-slider").input_value())
    assert 0 < wanted < tip
    await at(visitor, wanted)
    await expect(page.locator("#epoch-entry")).to_have_value(str(wanted))


async def test_links_of_a_view_lead_to_the_epoch_that_is_seen(stack, visit):
    """Also where the view was left as it was while one slid past."""
    tip = await stack.tip()
    visitor = await visit(role="viewer")
    page = visitor.page
    await visitor.open("ring")
    await page.locator("#epoch-slider").focus()
    await page.keyboard.press("ArrowLeft")
    await at(visitor, tip - 1)

    await page.get_by_role("link", name="node 2", exact=True).click()

    await expect(page.locator("#ring-panel")).to_contain_text("Node 2")
    await at(visitor, tip - 1)


async def test_an_epoch_that_is_not_there_is_named(stack, visit):
    visitor = await visit(role="viewer")
    visitor.forgive("status of 404")
    await visitor.page.goto(f"{visitor.url}/console/#/ring?at=999999")

    said = visitor.page.locator(".view-problem")
    await expect(said).to_contain_text("There is no epoch 999999; the tip is")
    tip = await stack.tip()
    note = visitor.page.locator(".epoch-note")
    await expect(note).to_have_text(f"of {tip}; epoch 999,999 is not there yet")
    slider = visitor.page.locator("#epoch-slider")
    await expect(slider).to_have_attribute("aria-valuetext", f"Epoch {tip} of {tip}")
    await expect(visitor.page.locator("#epoch-entry")).to_have_value(str(tip))
    await visitor.page.click("#back-to-live")
    await visitor.shown("ring")
    await expect(said).to_be_empty()


async def first_keyspace(stack):
    found = await stack.get("/v1/log?after=0")
    return next(item["epoch"] for item in found["entries"] if item["kind"] == "CreateKeyspace")
