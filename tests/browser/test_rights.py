"""A viewer sees everything and can change nothing, in the console and beside it."""

import pytest
from playwright.async_api import expect

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def committed_by_page(visitor, transformation):
    """As a page would that does not care about buttons."""
    return await visitor.page.evaluate(
        """async (transformation) => {
            const token = sessionStorage.getItem("ringlog.token");
            const answer = await fetch("../v1/commit", {
                method: "POST",
                headers: {"Authorization": `Bearer ${token}`, "Content-Type": "application/json"},
                body: JSON.stringify({entry_id: crypto.randomUUID(), transformation}),
            });
            return {status: answer.status, ...(await answer.json())};
        }""",
        transformation,
    )


async def test_a_viewer_may_plan_and_not_submit(stack, visit):
    visitor = await visit(role="viewer")
    await visitor.open("plan?change=move&node=2")
    await visitor.page.click("#plan-show")

    await expect(visitor.page.locator("#plan-answer")).to_contain_text("takes the role operator")
    assert await visitor.page.locator("#plan-submit").count() == 0


async def test_the_api_refuses_a_viewer_too(stack, visit):
    visitor = await visit(role="viewer")
    await visitor.open("ring")
    visitor.forgive("status of 403")
    tip = await stack.tip()

    answer = await committed_by_page(visitor, {"kind": "PrepareLeave", "node": 1, "force": True})

    assert (answer["status"], answer["code"]) == (403, "forbidden")
    assert await stack.tip() == tip


async def test_a_viewer_cannot_turn_a_sequence_back(stack, visit):
    async with stack.waiting_join("spare-rights") as (node, sequence):
        viewer = await visit(role="viewer")
        await viewer.open(f"sequences?id={sequence}")
        await expect(viewer.page.locator(".sequence-head")).to_contain_text(f"node {node}")
        assert await viewer.page.locator("#cancel, #resume").count() == 0
        operator = await visit(role="operator")
        await operator.open(f"sequences?id={sequence}")
        assert await operator.page.locator("#cancel, #resume").count() == 2
        # What is past cannot be changed by anybody.
        await operator.open(f"sequences?id={sequence}&at={sequence}")
        await expect(operator.page.locator("main")).to_have_attribute("data-live", "false")
        assert await operator.page.locator("#cancel, #resume").count() == 0
