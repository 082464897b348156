"""The web console: files that are read once, and answered as they are to everybody.

They hold nothing of any cluster. What the console shows it asks the API for, with the token of
whoever looks.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from types import MappingProxyType

import msgspec
from aiohttp import web

from services.cms.api import Api
from services.http.api import Call, is_known
from services.http.problems import Code, ProblemError
from services.http.routing import Handler, Route

MEDIA_TYPES = MappingProxyType(
    {
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".svg": "image/svg+xml",
    }
)
"""What is served; another file of the package, such as a module of Python, is not."""

FOLDERS_DEEP_MAX = 1

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_HEADERS = MappingProxyType(
    {
        # A new release must show at once; the tag makes asking again cheap.
        "Cache-Control": "no-cache",
        "Content-Security-Policy": POLICY,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
)


class Wanted(msgspec.Struct, frozen=True):
    """Which file. Anything in the query is the business of nobody."""

    file: str = "index.html"
    folder: str | None = None


class _File(msgspec.Struct, frozen=True):
    body: bytes
    media_type: str
    tag: str


def console_routes() -> tuple[Route, ...]:
    """Reads the files; nothing is read while requests are answered."""
    known = dict(_read(files("console")))

    async def page(api: Api, call: Call[Wanted]) -> web.StreamResponse:
        query = call.query
        # Only what was read can be found, so no path leads elsewhere.
        found = known.get(query.file if query.folder is None else f"{query.folder}/{query.file}")
        if found is None:
            raise ProblemError(
                Code.NOT_FOUND, "The console has no such file; it begins at /console/."
            )
        headers = {**_HEADERS, "Content-Type": found.media_type, "ETag": found.tag}
        if is_known(call.request, found.tag):
            return web.Response(status=304, headers=headers)
        return await api.answer(call.request, found.body, headers)

    return (
        _route("/console", _to_the_folder),
        _route("/console/", page),
        _route("/console/{file}", page),
        _route("/console/{folder}/{file}", page),
    )


async def _to_the_folder(api: Api, call: Call[Wanted]) -> web.StreamResponse:
    """Names in the page are relative to the folder; a proxy may put it anywhere."""
    del api, call
    return web.Response(status=308, headers={**_HEADERS, "Location": "console/"})


def _route(path: str, run: Handler) -> Route:
    return Route(
        method="GET",
        path=path,
        run=run,
        summary="The web console",
        query=Wanted,
        answer=str,
        role=None,
    )


def _read(folder: Traversable, above: str = "") -> Iterator[tuple[str, _File]]:
    for item in folder.iterdir():
        name = f"{above}{item.name}"
        media_type = MEDIA_TYPES.get(PurePosixPath(name).suffix)
        if media_type is not None and item.is_file():
            body = item.read_bytes()
            # Weak, because compression changes the bytes and not the meaning.
            tag = f'W/"{sha256(body).hexdigest()[:32]}"'
            yield name, _File(body, media_type, tag)
        elif name.count("/") < FOLDERS_DEEP_MAX and item.is_dir():
            yield from _read(item, f"{name}/")
