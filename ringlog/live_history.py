"""The history of a running cluster, read over HTTP as an archive is read from a disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from audit.history import SnapshotUnusableError
from client.connection import Connection
from client.containers import verified_container
from client.errors import AnswerError, RequestError
from client.transport import Request
from encoding.errors import DecodeError
from encoding.images import decode_image
from log.chain import NO_ENTRIES, NO_HASH, Tip
from log.containers import MEDIA_TYPE
from log.entry import SealedEntry
from log.replay import Applied
from metadata.epoch import EMPTY, Epoch
from snapshots.store import SNAPSHOTS_PER_PAGE

PAGE_ENTRIES_MAX = 1_000
IMAGE_TYPE = "avro/binary"
"""An image as it is stored."""

_Known = TypeVar("_Known")


class _At(msgspec.Struct, frozen=True):
    epoch: Epoch


class _Snapshots(msgspec.Struct, frozen=True):
    snapshots: tuple[_At, ...]


class LiveHistory:
    """A `History` up to the tip that the log had when it was opened.

    All questions are then about one log, however fast it grows. Entries are verified against
    their hashes as they come, and a snapshot against its entry.
    """

    def __init__(self, runner: asyncio.Runner, connection: Connection) -> None:
        self._runner = runner
        self._connection = connection
        self._tip = NO_ENTRIES
        self._snapshots: Sequence[Epoch] = ()

    def look(self) -> None:
        """Learn the tip, by a question that is answered at or above all that was acknowledged."""
        found = self._read(Request(path="/v1/metadata/cluster"))
        epoch = _decoded(found, _At).epoch
        if epoch == EMPTY:
            return
        (sealed,) = self._page(Epoch(epoch - 1), None, limit=1)
        self._tip = Tip(sealed.epoch, sealed.hash)
        self._snapshots = sorted(item for item in self._listed() if item <= epoch)

    @property
    def tip(self) -> Tip:
        return self._tip

    def entries(self, after: Epoch, up_to: Epoch) -> Iterator[SealedEntry]:
        known: bytes | None = NO_HASH if after == EMPTY else None
        while after < up_to:
            begin = after
            for sealed in self._page(after, known, limit=min(PAGE_ENTRIES_MAX, up_to - after)):
                after, known = sealed.epoch, sealed.hash
                yield sealed
            if after == begin:
                raise AnswerError(f"The log ended at epoch {after}, before {up_to}.")

    def snapshots(self) -> Sequence[Epoch]:
        return self._snapshots

    def restored(self, epoch: Epoch) -> Applied:
        request = Request(path=f"/v1/snapshots/{epoch}", accept=IMAGE_TYPE)
        try:
            metadata = decode_image(self._read(request))
            (sealed,) = self.entries(Epoch(epoch - 1), epoch)
        except (DecodeError, RequestError) as error:
            raise SnapshotUnusableError(epoch, str(error)) from error
        if metadata.epoch != epoch or metadata.digest != sealed.entry.digest:
            raise SnapshotUnusableError(epoch, "it is not that of its entry.")
        return Applied(metadata, sealed.hash)

    def _listed(self) -> Iterator[Epoch]:
        """All snapshots there are, newest first."""
        page = self._snapshots_page({})
        yield from page
        while len(page) >= SNAPSHOTS_PER_PAGE:
            last = min(page)
            page = self._snapshots_page({"up_to": last - 1})
            if page and max(page) >= last:
                raise AnswerError("The snapshots are listed over and over.")
            yield from page

    def _snapshots_page(self, query: dict[str, int]) -> list[Epoch]:
        body = self._read(Request(path="/v1/snapshots", query=query))
        return [item.epoch for item in _decoded(body, _Snapshots).snapshots]

    def _page(self, after: Epoch, known: bytes | None, *, limit: int) -> Iterator[SealedEntry]:
        query = {"after": after, "limit": limit}
        body = self._read(Request(path="/v1/log", query=query, accept=MEDIA_TYPE))
        return verified_container(body, after=after, after_hash=known)

    def _read(self, request: Request) -> bytes:
        return self._runner.run(self._connection.read(request))


@contextmanager
def live_history(connect: Callable[[], Connection]) -> Iterator[LiveHistory]:
    """`connect` is called inside the event loop that the history runs while it is open."""
    with asyncio.Runner() as runner:
        connection = runner.run(_made(connect))
        try:
            history = LiveHistory(runner, connection)
            history.look()
            yield history
        finally:
            runner.run(connection.close())


async def _made(connect: Callable[[], Connection]) -> Connection:
    return connect()


def _decoded(body: bytes, kind: type[_Known]) -> _Known:
    try:
        return msgspec.json.decode(body, type=kind)
    except ValueError as error:
        raise AnswerError(f"The answer cannot be read: {error}.") from error
