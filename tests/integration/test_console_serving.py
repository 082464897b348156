"""The files of the console: what is served, how, and what is not."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath

import pytest
from yarl import URL

import console
from services.cms.console import MEDIA_TYPES, POLICY
from services.http.roles import Role, Tokens
from tests.integration.test_cms_reads import populated
from tests.integration.test_cms_serving import SECRETS, bearer, served

ROOT = Path(console.__file__).parent
FILES = sorted(
    str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.suffix in MEDIA_TYPES
)
SCRIPTS = [name for name in FILES if name.endswith(".js")]
IMPORTS = re.compile(r'^(?:import|export)\b[^;]*?from "([^"]+)"', re.MULTILINE)
SECURED = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
MARKUP_FROM_TEXT = re.compile(
    r"\.(?:inner|outer)HTML|insertAdjacentHTML|document\.write|\beval\(|new Function|"
    r"createContextualFragment|setHTML|srcdoc"
)
OTHER_HOST = re.compile(r"""["'(]\s*(?:https?:)?//|@import|url\(""")
SVG_NAMESPACE = "http://www.w3.org/2000/svg"


class Elements(HTMLParser):
    """Every start tag of a page, with its attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def named(self, tag, **wanted):
        return [
            found for name, found in self.found if name == tag and wanted.items() <= found.items()
        ]


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


async def test_every_file_is_served_as_what_it_is_and_to_anybody():
    async with served(tokens=Tokens(SECRETS), founded=False) as client:
        assert (await client.get("/v1/nodes"))[0].status == 401
        for name in FILES:
            response, body = await client.get(f"/console/{name}")
            assert (response.status, body.decode()) == (200, text_of(name)), name
            assert response.headers["Content-Type"] == MEDIA_TYPES[PurePosixPath(name).suffix]
            assert {header: response.headers[header] for header in SECURED} == SECURED, name


async def test_the_folder_is_the_page_and_the_bare_name_leads_there():
    async with served() as client:
        response, body = await client.get("/console/")
        assert response.content_type == "text/html"
        assert body == (ROOT / "index.html").read_bytes()
        assert (await client.get("/console/?from=a-mail"))[0].status == 200
        redirected, _ = await client.get("/console")
        assert redirected.url.path == "/console/"
        assert [step.status for step in redirected.history] == [308]


ELSEWHERE = (
    "nothing.js",
    "views/nothing.js",
    "views/",
    "__init__.py",
    "../console/index.html",
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "views/..%2f__init__.py",
    "views/%2e%2e/index.html",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "..%5c__init__.py",
    "index.html%00.js",
)


async def test_nothing_else_is_there():
    async with served() as client:
        for path in ELSEWHERE:
            target = URL(f"{client.session._base_url}/console/{path}", encoded=True)
            async with client.session.get(target) as response:
                assert response.content_type == "application/problem+json", path
                assert (response.status, (await response.json())["code"]) == (404, "not_found")


async def test_a_file_that_is_known_is_not_sent_again():
    async with served() as client:
        response, _ = await client.get("/console/frame/main.js")
        tag = response.headers["ETag"]
        again, body = await client.get("/console/frame/main.js", If_None_Match=tag)
        assert (again.status, body) == (304, b"")
        assert again.headers["Content-Security-Policy"] == POLICY
        other, _ = await client.get("/console/frame/api.js")
        assert other.headers["ETag"] != tag


async def test_large_files_are_sent_compressed():
    async with served() as client:
        response, body = await client.get("/console/styles/parts.css", Accept_Encoding="gzip")
        assert response.headers["Content-Encoding"] == "gzip"
        assert body.decode() == text_of("styles/parts.css")


def test_every_import_is_a_file_of_ours():
    for name in SCRIPTS:
        for wanted in IMPORTS.findall(text_of(name)):
            assert wanted.startswith(("./", "../")), (name, wanted)
            assert (ROOT / name).parent.joinpath(wanted).resolve().is_file(), (name, wanted)


def test_the_page_asks_for_all_modules_at_once():
    """Or the browser would find them one import after the other."""
    page = Elements(text_of("index.html"))
    preloaded = [found["href"] for found in page.named("link", rel="modulepreload")]
    assert preloaded == SCRIPTS


def test_the_page_has_no_script_and_no_style_of_its_own():
    page = Elements(text_of("index.html"))
    assert all("src" in found for found in page.named("script"))
    assert page.named("style") == []
    assert [
        (tag, name)
        for tag, found in page.found
        for name in found
        if name == "style" or name.startswith("on")
    ] == []


@pytest.mark.parametrize("name", FILES)
def test_text_never_becomes_markup_and_nothing_comes_from_elsewhere(name):
    text = text_of(name)
    assert MARKUP_FROM_TEXT.search(text) is None
    assert OTHER_HOST.search(text.replace(SVG_NAMESPACE, "")) is None


async def test_everybody_may_ask_who_they_are():
    async with served(tokens=Tokens(SECRETS), founded=False) as client:
        for role in Role:
            _, found = await client.get("/v1/me", **bearer(role))
            assert found == {"role": role.name.lower(), "is_open": False}
        for headers in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic x"}):
            response, found = await client.get("/v1/me", **headers)
            assert (response.status, found) == (200, {"role": None, "is_open": False})
    async with served() as client:
        _, found = await client.get("/v1/me", Authorization="Bearer nonsense")
        assert found == {"role": "admin", "is_open": True}


async def test_a_component_is_the_same_while_it_is_not_modified():
    async with served() as client:
        await populated(client)
        _, newest = await client.get("/v1/modified")
        seen: dict[tuple[str, int], dict] = {}
        for epoch in range(newest["epoch"] + 1):
            _, found = await client.get(f"/v1/modified?at={epoch}")
            assert found["epoch"] == epoch
            for name, modified in found["modified"].items():
                _, component = await client.get(f"/v1/metadata/{name}?at={epoch}")
                assert modified <= epoch
                assert seen.setdefault((name, modified), component) | {"epoch": epoch} == component
        assert newest["modified"] == found["modified"]
        assert len({modified for _, modified in seen}) > 3
