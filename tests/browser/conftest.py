"""One cluster and one browser for all tests here; a page that forgives nothing for each."""

import contextlib

import pytest
import pytest_asyncio

from tests.browser.stack import a_stack
from tests.browser.visitor import WIDE, Visitor, a_browser

TIMEOUT_S = 300
"""The first test waits for the cluster to start, too."""


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name == "browser" and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stack():
    async with a_stack() as found:
        yield found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser():
    async with a_browser() as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser, stack):
    """Opens pages: `await visit(role="viewer", scheme="dark")`. Whatever they do wrong fails."""
    visitors = []
    async with contextlib.AsyncExitStack() as opened:

        async def open_page(role="operator", *, scheme="light", size=WIDE, url=None):
            context = await browser.new_context(color_scheme=scheme, viewport=size)
            opened.push_async_callback(context.close)
            visitor = Visitor(await context.new_page(), url or stack.url)
            visitors.append(visitor)
            if role is not None:
                await visitor.sign_in(stack.tokens[role])
            return visitor

        yield open_page
    assert [fault for visitor in visitors for fault in visitor.grave()] == []
