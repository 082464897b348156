"""One cluster and one browser for all tests here; a page that forgives nothing for each."""

import contextlib

import pytest
import pytest_asyncio

from tests.browser.joins import address_of
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


@contextlib.asynccontextmanager
async def visiting(browser):
    """What opens pages; whatever they do wrong fails in the end."""
    visitors = []
    async with contextlib.AsyncExitStack() as opened:

        async def open_page(url, token=None, *, scheme="light", size=WIDE):
            context = await browser.new_context(color_scheme=scheme, viewport=size)
            opened.push_async_callback(context.close)
            visitor = Visitor(await context.new_page(), url)
            visitors.append(visitor)
            if token is not None:
                await visitor.sign_in(token)
            return visitor

        yield open_page
    assert [fault for visitor in visitors for fault in visitor.grave()] == []


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser, stack):
    """Opens pages: `await visit(role="viewer", scheme="dark")`."""
    async with visiting(browser) as open_page:

        async def open_as(role="operator", *, url=None, **more):
            token = None if role is None else stack.tokens[role]
            return await open_page(url or stack.url, token, **more)

        yield open_as


@pytest_asyncio.fixture(loop_scope="session")
async def look(browser):
    """The same, at a CMS that a test serves itself: `await look(client)`."""
    async with visiting(browser) as open_page:

        async def open_at(client, *, url=None, **more):
            return await open_page(url or address_of(client), **more)

        yield open_at
