"""A TCP proxy that can be shut, so that what was open breaks, and that can lose a request."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

CHUNK_BYTES = 65_536


class Gate:
    def __init__(self, target):
        parts = urlsplit(target)
        self.url = ""
        self._target = parts.hostname, parts.port
        self._is_open = True
        self._writers = set()
        self._lost = None

    def lose(self, beginning):
        """The next request that begins so never arrives, and nobody is told."""
        self._lost = beginning

    def shut(self):
        self._is_open = False
        for writer in list(self._writers):
            writer.transport.abort()

    def open(self):
        self._is_open = True

    async def serve(self, reader, writer):
        if not self._is_open:
            writer.transport.abort()
            return
        try:
            ahead_reader, ahead_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, ahead_writer}
        self._writers |= pair
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, ahead_writer, self._loses))
                group.create_task(_pump(ahead_reader, writer))
        except* OSError:
            pass
        finally:
            self._writers -= pair
            for each in pair:
                each.transport.abort()

    def _loses(self, chunk):
        if self._lost is None or not chunk.startswith(self._lost):
            return False
        self._lost = None
        return True


async def _pump(reader, writer, loses=lambda _: False):
    while chunk := await reader.read(CHUNK_BYTES):
        if not loses(chunk):
            writer.write(chunk)
            await writer.drain()
    raise ConnectionResetError


@asynccontextmanager
async def a_gate(target):
    gate = Gate(target)
    server = await asyncio.start_server(gate.serve, "127.0.0.1", 0)
    gate.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield gate
        gate.shut()
