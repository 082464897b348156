"""Plans in the browser: figures of what would be, refusals that explain, and who may submit."""

import re

import pytest
from playwright.async_api import expect

from tests.integration.test_cms_sequences import joining, without_sequence
from tests.integration.test_cms_serving import served

pytestmark = pytest.mark.asyncio(loop_scope="session")


def figure(answer, name):
    return answer.locator(f"dt:text-is('{name}') + dd")


def seconds(text):
    """Of a duration such as "3 min 20 s"."""
    parts = re.findall(r"([\d.]+) (ms|s|min)", text)
    return sum(float(number) * {"ms": 0.001, "s": 1, "min": 60}[unit] for number, unit in parts)


async def planned(visitor, address):
    await visitor.open(address)
    await visitor.page.click("#plan-show")
    answer = visitor.page.locator("#plan-answer")
    await answer.wait_for()
    return answer


async def test_a_move_shows_rows_locks_and_voters(stack, visit):
    visitor = await visit()
    answer = await planned(visitor, "plan?change=move&node=2")

    await expect(answer).to_contain_text("Move of node 2 is possible")
    rows = figure(answer, "Rows to move")
    await expect(rows).to_have_text(re.compile(r"^\d+$"))
    await expect(figure(answer, "Bytes to move")).to_have_text(re.compile(r"^[\d.]+ (B|KiB)$"))
    await expect(figure(answer, "Locked")).to_have_text(re.compile(r"^[\d.]+% of the ring$"))
    await expect(figure(answer, "Weakest moment")).to_have_text("2 replicas")
    await expect(visitor.page.locator("#plan-voters")).to_contain_text("2 of node 1 and node 2")
    # Tokens are proposed as the command does it: as many as the others have.
    await expect(answer.locator("summary")).to_have_text("16 tokens")
    assert await stack.sequences() == []


async def test_the_time_follows_from_the_rows_and_the_rate(stack, visit):
    visitor = await visit()
    await visitor.open("plan?change=move&node=2")
    await visitor.page.click("#plan-form summary")
    await visitor.page.fill("#plan-rate", "10")
    await visitor.page.click("#plan-show")

    answer = visitor.page.locator("#plan-answer")
    await expect(figure(answer, "At a rate of")).to_have_text("10 rows/s")
    rows = int(await figure(answer, "Rows to move").inner_text())
    assert 10 < rows < 600
    time = await figure(answer, "Predicted time").inner_text()
    assert seconds(time) == pytest.approx(rows / 10, abs=1)


async def test_rows_that_nobody_has_reported_are_no_figure(look):
    async with served(founded=False) as client:
        await joining(client)
        await without_sequence(client)
        visitor = await look(client)
        await planned(visitor, "plan?change=join&node=4")
        await visitor.page.click("#plan-submit")

        dialog = visitor.page.get_by_role("dialog")
        await expect(dialog).to_contain_text("rows are moved (nobody has reported how many)")


async def test_a_refusal_is_explained(stack, visit):
    visitor = await visit()
    answer = await planned(visitor, "plan?change=leave&node=1")

    await expect(answer).to_contain_text("too_few_replicas")
    await expect(answer).to_contain_text(
        "Keyspace archive wants 3 replicas and 2 nodes would be left."
    )
    await expect(answer).to_contain_text("To go on: join another node first")
    assert await visitor.page.locator("#plan-submit").count() == 0


async def test_tokens_that_are_none_are_refused_in_words(stack, visit):
    visitor = await visit()
    await visitor.open("plan?change=move&node=2")
    await visitor.page.click("#plan-form summary")
    await visitor.page.fill("#plan-tokens", "1, 99999999999999999999")
    await visitor.page.click("#plan-show")

    alert = visitor.page.locator('[role="alert"]')
    await expect(alert).to_contain_text("“99999999999999999999” is no token")


async def test_given_tokens_are_taken_as_they_are(stack, visit):
    visitor = await visit()
    await visitor.open("plan?change=move&node=2")
    await visitor.page.click("#plan-form summary")
    await visitor.page.fill("#plan-tokens", "9007199254740993 -5")
    await visitor.page.click("#plan-show")

    tokens = visitor.page.locator("#plan-answer details")
    await expect(tokens).to_contain_text("2 tokens")
    # Beyond 2^53, where numbers of JavaScript lose digits.
    await expect(tokens).to_contain_text("9007199254740993, -5")


async def test_the_form_outlasts_a_refresh(stack, visit):
    visitor = await visit()
    await visitor.open("plan?change=move&node=2")
    await visitor.page.fill("#plan-count", "5")
    before = await visitor.page.locator("main").get_attribute("data-shown")
    await stack.touch()

    await expect(visitor.page.locator("main")).not_to_have_attribute("data-shown", before)
    assert await visitor.page.input_value("#plan-count") == "5"
    assert await visitor.page.input_value("#plan-node") == "2"


async def test_a_plan_says_when_the_log_has_gone_on(stack, visit):
    visitor = await visit()
    await planned(visitor, "plan?change=move&node=2")
    await stack.touch()

    await expect(visitor.page.locator(".plan-stale")).to_contain_text("The log has gone on")


async def test_at_a_past_epoch_nothing_is_planned(stack, visit):
    visitor = await visit()
    await visitor.open("plan?at=6")

    await expect(visitor.page.locator(".notice-warn")).to_contain_text("the newest epoch")
    await expect(visitor.page.locator("#plan-show")).to_be_disabled()
    options = await visitor.page.locator("#plan-node option").all_inner_texts()
    assert [text.split(" – ")[0] for text in options] == ["node 1", "node 2"]
