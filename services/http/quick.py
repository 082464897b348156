"""The answer of the hot path: headers and body written at once, nothing negotiated.

Preparing an ordinary response costs more than all else that is done for a commit, and every one
of its headers would come out the same.
"""

from __future__ import annotations

import time
from email.utils import formatdate

from aiohttp import HttpVersion11, web
from aiohttp.abc import AbstractStreamWriter

_JSON = {"Content-Type": "application/json"}


def quick_json(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
    """200 with a small JSON body; whoever wants more than the usual gets an ordinary response."""
    if request.version == HttpVersion11 and request.keep_alive:
        return _QuickResponse(body)
    return web.Response(body=body, headers=_JSON)


class _QuickResponse(web.StreamResponse):
    """Does what the server asks of a response, and no more. For connections that stay open.

    It has no headers to look at or change, which spares a tenth of a commit's time.
    """

    def __init__(self, body: bytes) -> None:
        self._content = body

    @property
    def status(self) -> int:
        return 200

    @property
    def keep_alive(self) -> bool:
        return True

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter:
        body = self._content
        # Waits while the client does not read.
        await request.writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\nDate: %b\r\n\r\n%b" % (len(body), _clock.date(), body)
        )
        return request.writer

    async def write_eof(self, data: bytes = b"") -> None:
        assert not data, "everything is written"


class _Clock:
    """The date as HTTP wants it, formatted once a second."""

    def __init__(self) -> None:
        self._second = 0
        self._text = b""

    def date(self) -> bytes:
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._text = formatdate(second, usegmt=True).encode()
        return self._text


_clock = _Clock()
