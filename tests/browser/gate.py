"""A TCP proxy that can be shut: what was open breaks, and nobody comes through."""

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
                group.create_task(_pump(reader, ahead_writer))
                group.create_task(_pump(ahead_reader, writer))
        except* OSError:
            pass
        finally:
            self._writers -= pair
            for each in pair:
                each.transport.abort()


async def _pump(reader, writer):
    while chunk := await reader.read(CHUNK_BYTES):
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
