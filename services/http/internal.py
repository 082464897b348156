"""What processes of a cluster ask each other: bytes to bytes, by path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping

import msgspec
from aiohttp import web

from services.http.api import Api, Call, E, M
from services.http.bodies import Nothing
from services.http.problems import Code, ProblemError
from services.http.reading import read_body
from services.http.roles import Role
from services.http.routing import Route

Internal = Mapping[str, Callable[[bytes], Awaitable[bytes]]]


def internal_routes(internal: Internal) -> Iterator[Route]:
    """A route for each; whoever asks must name the cluster and have the role node."""
    for path, run in internal.items():
        yield Route(
            method="POST",
            path=path,
            run=_asked(run),
            summary="",
            role=Role.NODE,
            is_internal=True,
        )


def _asked(
    run: Callable[[bytes], Awaitable[bytes]],
) -> Callable[[Api[E, M], Call[Nothing]], Awaitable[web.StreamResponse]]:
    async def asked(api: Api[E, M], call: Call[Nothing]) -> web.StreamResponse:
        body = await read_body(api.limits, call.request)
        try:
            reply = await run(body)
        except msgspec.MsgspecError as error:
            raise ProblemError(Code.MALFORMED, "The message is not understood.") from error
        return web.Response(body=reply, headers={"Content-Type": "application/octet-stream"})

    return asked
