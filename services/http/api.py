"""What every request handler shares: what it serves from, the limits, how answers are made."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

import msgspec
from aiohttp import web

from encoding.json import entry_json
from log.entry import SealedEntry
from log.replay import Applied
from metadata.epoch import Epoch
from services.http.compression import coding_for, compressed
from services.http.limits import HttpLimits
from services.http.metrics import Counted
from services.http.problems import MEDIA_TYPE, TEMPORARY, Code, Problem, ProblemError
from services.http.roles import Role, Tokens
from snapshots.store import SnapshotInfo

Query = TypeVar("Query")

encode = msgspec.json.Encoder().encode

_JSON = {"Content-Type": "application/json"}
_TEMPORARY = {code.value for code in TEMPORARY}
IMMUTABLE = "private, max-age=31536000, immutable"
REVALIDATED = "private, no-cache"


class Call(msgspec.Struct, Generic[Query], frozen=True):
    """One request, its path and query decoded, and who sends it; without tokens all may all."""

    request: web.BaseRequest
    query: Query
    role: Role
    tokens: Tokens | None = None


class Current(Protocol):
    """Whatever holds some version of the metadata."""

    @property
    def applied(self) -> Applied: ...

    async def latest(self) -> Applied:
        """As new as this service promises; raises where it cannot keep that."""
        ...

    async def wait_beyond(self, epoch: Epoch, timeout_s: float) -> None: ...


class Readable(Current, Protocol):
    """And the log that led to it."""

    async def entries_after(
        self, epoch: Epoch, *, entries_max: int, bytes_max: int
    ) -> Sequence[SealedEntry]: ...

    async def hash_at(self, epoch: Epoch) -> bytes | None:
        """None where it is not known here any more."""
        ...

    async def snapshot_epochs(self, up_to: Epoch | None = None) -> Sequence[SnapshotInfo]:
        """Newest first, at most `SNAPSHOTS_PER_PAGE`."""
        ...

    async def newest_snapshot_after(self, epoch: Epoch) -> SnapshotInfo | None: ...

    async def snapshot(self, epoch: Epoch) -> bytes | None: ...


E = TypeVar("E", bound=Current)
R = TypeVar("R", bound=Readable)
M = TypeVar("M", bound=Counted)


class EntryTexts:
    """Entries as JSON, made once for all who follow the log; the oldest go first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._size_bytes = 0
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()

    def of(self, sealed: SealedEntry) -> bytes:
        found = self._kept.get(sealed.hash)
        if found is None:
            found = encode(
                entry_json(sealed.entry, previous_hash=sealed.previous_hash, entry_hash=sealed.hash)
            )
            self._keep(sealed.hash, found)
        return found

    def _keep(self, key: bytes, text: bytes) -> None:
        self._kept[key] = text
        self._size_bytes += len(text)
        while self._size_bytes > self._bytes_max and len(self._kept) > 1:
            self._size_bytes -= len(self._kept.popitem(last=False)[1])


class Api(Generic[E, M]):
    """One per process. `stopping` is set once, when no answer may wait for news any more."""

    def __init__(self, engine: E, limits: HttpLimits, metrics: M) -> None:
        self.engine = engine
        self.limits = limits
        self.metrics = metrics
        self.texts = EntryTexts(limits.entry_texts_bytes_max)
        self.stopping = asyncio.Event()
        self.followers = 0

    @contextmanager
    def following(self) -> Iterator[None]:
        """Somebody waits for entries; only so many may."""
        if self.followers >= self.limits.followers_max:
            raise ProblemError(Code.OVERLOADED, "Too many requests wait for entries.")
        self.followers += 1
        try:
            yield
        finally:
            self.followers -= 1

    async def wait_beyond(self, epoch: Epoch, timeout_s: float) -> None:
        """Until there is news, the time is up or the service stops."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout_s
        while not self.stopping.is_set() and self.engine.applied.metadata.epoch <= epoch:
            remaining_s = deadline - clock()
            if remaining_s <= 0:
                return
            await self.engine.wait_beyond(epoch, min(remaining_s, self.limits.slice_s))

    async def answer(
        self,
        request: web.BaseRequest,
        body: bytes,
        headers: Mapping[str, str] = _JSON,
    ) -> web.Response:
        """A body that may be large, compressed where the client wants that."""
        named = dict(headers)
        named["Vary"] = "Accept-Encoding, Accept, Authorization"
        limits = self.limits
        coding = coding_for(request) if len(body) >= limits.compressed_from_bytes else None
        if coding is not None:
            if len(body) < limits.threaded_from_bytes:
                body = compressed(coding, body)
            else:
                body = await asyncio.to_thread(compressed, coding, body)
            named["Content-Encoding"] = coding
        return web.Response(body=body, headers=named)

    async def json(
        self,
        request: web.BaseRequest,
        value: object,
        **headers: str,
    ) -> web.Response:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return await self.answer(request, encode(value), {**_JSON, **named})

    def problem(self, found: Problem) -> web.Response:
        self.metrics.http.problems[found.code] += 1
        response = web.Response(
            body=encode(found), status=found.status, headers={"Content-Type": MEDIA_TYPE}
        )
        if found.code in _TEMPORARY and found.status != 409:  # noqa: PLR2004 - a refusal is final
            response.headers["Retry-After"] = str(self.limits.retry_after_s)
        if found.code == Code.UNAUTHORIZED:
            response.headers["WWW-Authenticate"] = 'Bearer realm="ringlog"'
        return response


def tag_of(applied: Applied) -> str:
    """Weak, because compression changes the bytes and not the meaning."""
    return f'W/"v1-{applied.hash.hex()}"'


def is_known(request: web.BaseRequest, tag: str) -> bool:
    """Whether the client says that it has this version."""
    given = request.headers.get("If-None-Match")
    return given is not None and tag in [part.strip() for part in given.split(",")]


def accepts(request: web.BaseRequest, media_type: str) -> bool:
    """Whether a media type is asked for by name."""
    given = request.headers.get("Accept", "")
    return media_type in [part.partition(";")[0].strip().lower() for part in given.split(",")]
