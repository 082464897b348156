"""The log as server-sent events: entries as they come, bookmarks while there are none."""

from __future__ import annotations

import asyncio
from typing import Generic

import msgspec
from aiohttp import web

from log.chain import Tip
from log.entry import SealedEntry
from log.store import StoreUnavailableError, TrimmedError
from metadata.epoch import Epoch
from metadata.limits import ID_MAX, Hash
from services.http.api import Api, Call, M, R
from services.http.bodies import Follow
from services.http.logs import check_lineage, page_after
from services.http.problems import Code, ProblemError

_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}
_ENTRIES_AT_ONCE_MAX = 100
_DIGITS_MAX = 16


async def log_stream(api: Api[R, M], call: Call[Follow]) -> web.StreamResponse:
    """Go on behind `after`, or behind the event that the client saw last.

    A stream ends when the service stops, the log does not answer or what comes next is not kept
    here, as at a node that took a snapshot instead; clients come back with the id of the last
    event and miss nothing, or are told. Whoever begins with a hash gets ids that carry one, so
    that coming back never leads into another history either.
    """
    began = begun_at(call)
    after = began.after
    tip = (await api.engine.latest()).tip
    await check_lineage(api, after, began.hash, tip)
    await page_after(api, after, tip, 1)
    with api.following():
        response = web.StreamResponse(headers=_HEADERS)
        await response.prepare(call.request)
        try:
            await _Stream(api, response, began).run()
            await response.write_eof()
        except (ConnectionError, StoreUnavailableError, TrimmedError, ProblemError):
            # The client is gone, or has to ask again: no other answer fits into one that has begun,
            # and with the id of the last event it is told what is wrong.
            response.force_close()
    return response


def begun_at(call: Call[Follow]) -> Follow:
    """What the client has; the id of an event is its epoch, or `EPOCH:HASH`."""
    resumed = call.request.headers.get("Last-Event-ID")
    if resumed is None:
        return call.query
    epoch, colon, known = resumed.partition(":")
    try:
        return Follow(after=_epoch_of(epoch), hash=msgspec.convert(known, Hash) if colon else None)
    except msgspec.ValidationError as error:
        raise ProblemError(
            Code.MALFORMED, "The id of the last event has no hash.", field="Last-Event-ID"
        ) from error


class _Stream(Generic[R, M]):
    def __init__(self, api: Api[R, M], response: web.StreamResponse, began: Follow) -> None:
        self._api = api
        self._response = response
        self._after = began.after
        self._is_chained = began.hash is not None
        self._last = _id(began.after, began.hash)

    async def run(self) -> None:
        api = self._api
        await self._bookmark()
        while not api.stopping.is_set():
            if await self._send_entries():
                continue
            await api.wait_beyond(self._after, api.limits.bookmark_interval_s)
            if not api.stopping.is_set() and await self._is_all():
                await self._bookmark()

    async def _is_all(self) -> bool:
        """Whether the client has whatever was acknowledged: silence may be that we hear nothing."""
        engine = self._api.engine
        if engine.applied.metadata.epoch > self._after:
            return False
        return (await engine.latest()).metadata.epoch <= self._after

    async def _send_entries(self) -> bool:
        tip: Tip = self._api.engine.applied.tip
        if tip.epoch <= self._after:
            return False
        entries = await page_after(self._api, self._after, tip, _ENTRIES_AT_ONCE_MAX)
        texts = ((self._id_of(sealed), self._api.texts.of(sealed)) for sealed in entries)
        events = [b"event: entry\nid: %b\ndata: %b\n\n" % pair for pair in texts]
        # Waits while the client is slow, so that nothing piles up here.
        await self._response.write(b"".join(events))
        self._after, self._last = entries[-1].epoch, self._id_of(entries[-1])
        await asyncio.sleep(0)
        return True

    async def _bookmark(self) -> None:
        """The client has everything up to here, although nothing came."""
        epoch = self._after
        await self._response.write(
            b'event: bookmark\nid: %b\ndata: {"epoch":%d}\n\n' % (self._last, epoch)
        )

    def _id_of(self, sealed: SealedEntry) -> bytes:
        return _id(sealed.epoch, sealed.hash.hex() if self._is_chained else None)


def _id(epoch: Epoch, known: str | None) -> bytes:
    return b"%d" % epoch if known is None else b"%d:%b" % (epoch, known.encode())


def _epoch_of(text: str) -> Epoch:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        raise ProblemError(
            Code.MALFORMED, "The id of the last event is not an epoch.", field="Last-Event-ID"
        )
    epoch = int(text)
    if epoch > ID_MAX:
        raise ProblemError(Code.MALFORMED, f"Epochs end at {ID_MAX}.", field="Last-Event-ID")
    return Epoch(epoch)
