"""A TCP proxy that cuts connections, in the middle of whatever passes."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

CHUNK_BYTES = 4096
BYTES_MAX = 60_000


class Cutting:
    """Each connection ends after a random number of bytes of answers, while `is_cutting`."""

    def __init__(self, target, random_):
        parts = urlsplit(target)
        self.cuts = 0
        self.is_cutting = True
        self._target = parts.hostname, parts.port
        self._random = random_

    async def serve(self, reader, writer):
        try:
            ahead_reader, ahead_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        budget = self._random.randrange(BYTES_MAX) if self.is_cutting else None
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, ahead_writer, None))
                group.create_task(self._pump(ahead_reader, writer, budget))
        except* OSError:
            pass
        finally:
            for each in (writer, ahead_writer):
                each.transport.abort()

    async def _pump(self, reader, writer, budget):
        """Pass bytes on until the end; with a budget, until it is used up."""
        while chunk := await reader.read(CHUNK_BYTES):
            if budget is not None and (budget := budget - len(chunk)) < 0:
                writer.write(chunk[:budget])
                with suppress(OSError):
                    await writer.drain()
                self.cuts += 1
                raise ConnectionResetError
            writer.write(chunk)
            await writer.drain()
        raise ConnectionResetError


@asynccontextmanager
async def cutting(target, random_):
    """Gives the proxy and its address."""
    proxy = Cutting(target, random_)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    async with server:
        yield proxy, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
