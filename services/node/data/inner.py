"""What other processes of the cluster ask: bytes to a message, and its answer to bytes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from aiohttp import web

from client.peers import MEANT_FOR
from services.http.api import Call
from services.http.bodies import Nothing
from services.http.data_messages import Message
from services.http.problems import Code, ProblemError, malformed
from services.http.reading import read_body
from services.http.roles import Role
from services.http.routing import Handler, Route
from services.node.data.messaging import MESSAGE_PACK
from services.node.reads import Api, check_meant

Q = TypeVar("Q", bound=Message)

_BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def asked_in_json(path: str, kind: type[Q], run: Callable[[Q], Awaitable[object]]) -> Route:
    async def asked(api: Api, call: Call[Nothing]) -> web.StreamResponse:
        _check_addressed(api, call.request)
        body = await read_body(api.limits, call.request)
        try:
            # Tokens may be text, since not every language has numbers of 64 bits.
            message = msgspec.json.decode(body, type=kind, strict=False)
        except _BAD as error:
            raise malformed(error) from error
        return await api.json(call.request, await run(message))

    return _internal(path, asked)


def asked_in_message_pack(path: str, kind: type[Q], run: Callable[[Q], Awaitable[object]]) -> Route:
    async def asked(api: Api, call: Call[Nothing]) -> web.StreamResponse:
        _check_addressed(api, call.request)
        body = await read_body(api.limits, call.request)
        try:
            message = msgspec.msgpack.decode(body, type=kind)
        except _BAD as error:
            raise malformed(error) from error
        answer = msgspec.msgpack.encode(await run(message))
        return web.Response(body=answer, headers={"Content-Type": MESSAGE_PACK})

    return _internal(path, asked)


def _check_addressed(api: Api, request: web.BaseRequest) -> None:
    if MEANT_FOR not in request.headers:
        raise ProblemError(
            Code.MALFORMED, "A message between processes names its node.", field=MEANT_FOR
        )
    check_meant(api, request)


def _internal(path: str, run: Handler) -> Route:
    return Route(method="POST", path=path, run=run, summary="", role=Role.NODE, is_internal=True)
