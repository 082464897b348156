"""Serving a table of routes until told to stop."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import msgspec
from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import LineTooLong
from aiohttp.http_parser import RawRequestMessage

from services.http.api import Api, E, M
from services.http.front import Front
from services.http.limits import HttpLimits
from services.http.problems import MEDIA_TYPE, Code, Problem, problem
from services.http.roles import Tokens, check_open
from services.http.routing import Route

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(
    api: Api[E, M], routes: Iterable[Route], *, tokens: Tokens | None, where: Address
) -> AsyncIterator[str]:
    """Serve until the block ends, then answer what was accepted. Gives the URL.

    What the routes serve from must outlive the block.
    """
    if tokens is None:
        check_open(where.host)
    limits = api.limits
    server = _Server(Front(api, routes, tokens, where.advertised).answer, limits)
    runner = web.ServerRunner(server, shutdown_timeout=limits.shutdown_timeout_s)
    await runner.setup()
    try:
        site = web.TCPSite(
            runner,
            where.host,
            where.port,
            ssl_context=where.ssl_context,
            reuse_port=where.reuse_port,
            backlog=where.backlog,
        )
        await site.start()
        port = runner.addresses[0][1]
        scheme = "http" if where.ssl_context is None else "https"
        host = f"[{where.host}]" if ":" in where.host else where.host
        yield f"{scheme}://{host}:{port}"
    finally:
        api.stopping.set()
        await runner.cleanup()


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen; port 0 takes a free one. `advertised` is where others reach it, if known."""

    host: str = "127.0.0.1"
    port: int = 0
    reuse_port: bool = False
    ssl_context: ssl.SSLContext | None = None
    backlog: int = 1024
    advertised: str | None = None


class _Protocol(web.RequestHandler):
    """What is not even HTTP gets a problem as well."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if status != 400 or request.writer.output_size > 0:  # noqa: PLR2004 - not of our making
            return super().handle_error(request, status, exc, message)
        found: Problem = problem(Code.MALFORMED, _complaint(exc))
        body = msgspec.json.encode(found)
        response = web.Response(status=400, body=body, headers={"Content-Type": MEDIA_TYPE})
        response.force_close()
        return response


def _complaint(error: BaseException | None) -> str:
    if isinstance(error, LineTooLong):
        # A key of a row may be the reason.
        _, limit, *_ = error.args
        return f"The path with its query, or a header, is longer than the {limit} bytes allowed."
    return "This is not a valid HTTP request."


class _Server(web.Server):
    """The library's, with our protocol and our limit on bodies."""

    def __init__(self, handle: Handle, limits: HttpLimits) -> None:
        self._body_bytes_max = limits.body_bytes_max
        super().__init__(
            handle,
            request_factory=self._limited,
            access_log=None,
            max_line_size=limits.line_bytes_max,
            max_field_size=limits.header_bytes_max,
            max_headers=limits.headers_max,
        )

    def __call__(self) -> web.RequestHandler:
        return _Protocol(self, loop=self._loop, **self._kwargs)

    def _limited(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> web.BaseRequest:
        limit = self._body_bytes_max
        return web.BaseRequest(
            message, payload, protocol, writer, task, self._loop, client_max_size=limit
        )
