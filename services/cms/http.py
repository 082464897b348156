"""The HTTP face of the CMS: one function answers every request, one context manager serves."""

from __future__ import annotations

import asyncio
import ssl
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import version

import msgspec
import structlog
from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage

from services.cms.api import Api, Call, encode
from services.cms.bodies import Nothing
from services.cms.commits import read_body
from services.cms.engine import Engine
from services.cms.limits import DEFAULT_LIMITS, HttpLimits
from services.cms.metrics import Metrics
from services.cms.openapi import document
from services.cms.problems import MEDIA_TYPE, Code, Problem, ProblemError, expected, problem
from services.cms.roles import Role, Tokens, check_open
from services.cms.routes import ROUTES, Route
from services.cms.routing import MethodNotAllowedError, Router

logger = structlog.get_logger()

Internal = Mapping[str, Callable[[bytes], Awaitable[bytes]]]
"""What other CMS processes may ask: bytes to bytes, by path."""

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def handler(
    engine: Engine,
    *,
    tokens: Tokens | None,
    limits: HttpLimits = DEFAULT_LIMITS,
    metrics: Metrics | None = None,
    internal: Internal | None = None,
) -> Handle:
    """For a server of one's own; `serve` is the way to stop gracefully."""
    api = Api(engine, limits, Metrics() if metrics is None else metrics)
    return Front(api, tokens, internal or {}).answer


@asynccontextmanager
async def serve(
    engine: Engine,
    *,
    tokens: Tokens | None,
    where: Address,
    limits: HttpLimits = DEFAULT_LIMITS,
    metrics: Metrics | None = None,
    internal: Internal | None = None,
) -> AsyncIterator[str]:
    """Serve until the block ends, then answer what was accepted. Gives the URL.

    The engine must outlive the block, or accepted commits get no answer.
    """
    if tokens is None:
        check_open(where.host)
    api = Api(engine, limits, Metrics() if metrics is None else metrics)
    server = _Server(Front(api, tokens, internal or {}).answer, limits)
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
    """Where to listen; port 0 takes a free one."""

    host: str = "127.0.0.1"
    port: int = 0
    reuse_port: bool = False
    ssl_context: ssl.SSLContext | None = None
    backlog: int = 1024


class Front:
    """Finds the route, asks who it is, and turns whatever goes wrong into a problem."""

    def __init__(self, api: Api, tokens: Tokens | None, internal: Internal) -> None:
        self._api = api
        self._tokens = tokens
        described = Route(
            method="GET", path="/openapi.json", run=_openapi, summary="This document", role=None
        )
        asked = (_internal_route(path, run) for path, run in internal.items())
        self._router = Router((*ROUTES, described, *asked))

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = "unknown"
        response: web.StreamResponse
        try:
            found = self._router.find(request.method, request.raw_path)
            path = found.route.path
            role = self._role(request, found.route)
            if "Ringlog-Cluster" in request.headers or found.route.is_internal:
                await self._check_cluster(request.headers.get("Ringlog-Cluster"))
            response = await found.route.run(self._api, Call(request, found.query, role))
        except ConnectionError:
            # Nobody is left to be told.
            raise
        except Exception as error:  # noqa: BLE001 - the one place that reports bugs
            response = self._failed(request, error)
        self._api.metrics.requests[request.method, path, response.status] += 1
        return response

    def _role(self, request: web.BaseRequest, route: Route) -> Role:
        if self._tokens is None:
            return Role.ADMIN
        if route.role is None:
            return Role.VIEWER
        role = self._tokens.role_of(request.headers.get("Authorization"))
        if role is None:
            raise ProblemError(
                Code.UNAUTHORIZED, "A valid bearer token is needed.", field="Authorization"
            )
        if role < route.role:
            needed, given = route.role.name.lower(), role.name.lower()
            raise ProblemError(
                Code.FORBIDDEN,
                f"This needs the role {needed}; the token has {given}.",
                field="Authorization",
            )
        return role

    async def _check_cluster(self, meant: str | None) -> None:
        ours = self._api.engine.applied.metadata.cluster.id
        if meant != ours and not ours:
            ours = (await self._api.engine.latest()).metadata.cluster.id
        if meant != ours:
            raise ProblemError(
                Code.WRONG_CLUSTER,
                f"This is cluster {ours or '(not founded yet)'}, not the one that is meant.",
                field="Ringlog-Cluster",
            )

    def _failed(self, request: web.BaseRequest, error: Exception) -> web.Response:
        found = expected(error)
        if found is None:
            # As text: a traceback with the values of variables would show tokens.
            trace = "".join(traceback.format_exception(error))
            logger.error("request_failed", method=request.method, traceback=trace)
            found = problem(
                Code.INTERNAL, "Something is wrong with this service; its log says what."
            )
        response = self._api.problem(found)
        if isinstance(error, MethodNotAllowedError):
            response.headers["Allow"] = error.allow
        return response


async def _openapi(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    return await api.answer(call.request, _document())


@cache
def _document() -> bytes:
    return encode(document(ROUTES, version("ringlog")))


def _internal_route(path: str, run: Callable[[bytes], Awaitable[bytes]]) -> Route:
    async def asked(api: Api, call: Call[Nothing]) -> web.StreamResponse:
        body = await read_body(api, call.request)
        try:
            reply = await run(body)
        except msgspec.MsgspecError as error:
            raise ProblemError(Code.MALFORMED, "The message is not understood.") from error
        return web.Response(body=reply, headers={"Content-Type": "application/octet-stream"})

    return Route(method="POST", path=path, run=asked, summary="", role=Role.NODE, is_internal=True)


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
        found: Problem = problem(Code.MALFORMED, "This is not a valid HTTP request.")
        body = msgspec.json.encode(found)
        response = web.Response(status=400, body=body, headers={"Content-Type": MEDIA_TYPE})
        response.force_close()
        return response


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
