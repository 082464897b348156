"""A store in a temporary folder, and the plain dictionary that it must agree with."""

from __future__ import annotations

import hashlib
import random
from contextlib import asynccontextmanager
from pathlib import Path

import pyarrow.parquet as pq
from pyarrow import fs

from metadata.columns import ColumnType
from metadata.epoch import Epoch
from metadata.schema import Column, Table, TableId
from metadata.sessions import SessionId
from metadata.tokens import FULL, MAXIMUM, MINIMUM, Range, Token
from store.database import opened
from store.folder import Folder
from store.imports import Staged
from store.means import pass_by
from store.merging import table_of
from store.rows import Row, digest_of, encoded, newest
from store.store import SCHEMAS, Store

TABLE = Table(
    id=TableId(7),
    keyspace="shop",
    name="orders",
    columns=(
        Column("id", ColumnType.STRING),
        Column("amount", ColumnType.BIGINT),
        Column("at", ColumnType.TIMESTAMP),
    ),
    partition_key=("id",),
    created=Epoch(3),
    epoch=Epoch(3),
)
TOKENS = [MINIMUM, Token(-100), Token(-1), Token(0), Token(1), Token(50), Token(99), MAXIMUM]
SESSION = SessionId(9)
KEYS = ["a", "b", "c"]


@asynccontextmanager
async def store_in(folder: Path, reached=pass_by):
    async with opened(folder / "node.sqlite", SCHEMAS) as database:
        yield Store(database, Folder(fs.LocalFileSystem(), str(folder / "data")), reached=reached)


def row(token, key, timestamp, amount=1, table=TABLE):
    """A row, or a tombstone if the amount is None."""
    if amount is None:
        return Row(table=table.id, token=token, key=key, timestamp=timestamp, digest=0)
    content = encoded({"id": key, "amount": amount, "at": timestamp})
    return Row(
        table=table.id,
        token=token,
        key=key,
        timestamp=timestamp,
        digest=digest_of(content),
        content=content,
    )


def rows_at(*tokens, timestamp=1, amount=1):
    return [row(token, f"key{token}", timestamp, amount) for token in tokens]


def staged(tmp_path, rows, name="one", session=SESSION, table=TABLE):
    """A file as a job would leave it."""
    path = tmp_path / "data" / "staged" / str(session) / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table_of(table, rows), path)
    data = path.read_bytes()
    return Staged(
        path=f"staged/{session}/{name}.parquet",
        size_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )


async def scanned(store, ranges=(FULL,), rows_max=1000, table=TABLE):
    rows, position, pages_max = [], None, 1000
    for _ in range(pages_max):
        page = await store.scan(table, ranges, after=position, rows_max=rows_max)
        assert len(page.rows) <= rows_max
        rows += page.rows
        position = page.following
        if position is None:
            return rows
    raise AssertionError("the scan does not end")


async def repaired(store, ranges=(FULL,), session=SESSION):
    """As a repair leaves it that has read every segment and brought nothing."""
    read = await store.pin(session, TABLE.id, [FULL])
    await store.cover(session, ranges, {segment.path for segment in read})
    await store.unpin(session)


class Model:
    """What a store must hold; does the same to both and compares."""

    def __init__(self, rng: random.Random, *, is_ageing: bool = False) -> None:
        self.rows: dict[tuple[int, str], Row] = {}
        self.rng = rng
        self.covered: set[Row] = set()
        self.pinned: dict[SessionId, list[str]] = {}
        self.dropped = 0
        self.oldest: int | None = 0 if is_ageing else None
        self._next_session = 1

    async def put(self, store):
        rows = [self._row() for _ in range(self.rng.randint(1, 8))]
        held = await store.put(TABLE, rows)
        for item in rows:
            place = (item.token, item.key)
            best = newest([self.rows.get(place), item])
            assert best is not None
            self.rows[place] = best
        for item, beaten_by in zip(rows, held, strict=True):
            if beaten_by is not None:
                assert beaten_by.order > item.order

    async def flush(self, store):
        await store.flush(TABLE, self._ranges())

    async def compact(self, store):
        found = await self.rng.choice([store.compact, store.compact_all])(TABLE)
        if found is None or not found.tombstones_dropped:
            return
        self.dropped += found.tombstones_dropped
        left = {(item.token, item.key) for item in await scanned(store)}
        for place, item in list(self.rows.items()):
            if place not in left:
                assert item in self.covered, "a tombstone went that no repair has covered"
                del self.rows[place]

    async def cleanup(self, store):
        ranges = self._ranges()
        await store.cleanup(TABLE.id, ranges)
        self.rows = {
            place: item
            for place, item in self.rows.items()
            if not any(item.token in part for part in ranges)
        }

    async def repair(self, store):
        session, ranges = self._session(), self._ranges()
        await store.flush(TABLE, ranges)
        await repaired(store, ranges, session)
        self.covered |= {
            item
            for item in self.rows.values()
            if item.deleted and any(item.token in part for part in ranges)
        }

    async def pin(self, store):
        session = self._session()
        found = await store.pin(session, TABLE.id, self._ranges())
        self.pinned[session] = [segment.path for segment in found]

    async def unpin(self, store):
        if self.pinned:
            session = self.rng.choice(list(self.pinned))
            await store.unpin(session)
            del self.pinned[session]

    async def sweep(self, store):
        await store.sweep()

    async def check(self, store, folder):
        ranges, rows_max = self._ranges(), self.rng.choice([1, 2, 3, 7, 1000])
        inside = [item for item in self.sorted() if any(item.token in part for part in ranges)]
        assert await scanned(store, ranges, rows_max) == inside
        count = await store.count(TABLE, ranges)
        assert (count.rows, count.tombstones) == (
            sum(not item.deleted for item in inside),
            sum(item.deleted for item in inside),
        )
        place = (self.rng.choice(TOKENS), self.rng.choice(KEYS))
        assert await store.get(TABLE, *place) == self.rows.get(place)
        for paths in self.pinned.values():
            assert all((folder / "data" / path).exists() for path in paths)

    def sorted(self):
        return [self.rows[place] for place in sorted(self.rows)]

    def _row(self):
        rng = self.rng
        amount = rng.choice([None, None, rng.randrange(5)])
        timestamp = rng.randrange(1000)
        if self.oldest is not None:
            self.oldest += 1
            timestamp = self.oldest + rng.randrange(8)
        return row(rng.choice(TOKENS), rng.choice(KEYS), timestamp, amount)

    def _ranges(self):
        edges = sorted(self.rng.sample(TOKENS[1:], 2))
        return self.rng.choice(
            [
                (FULL,),
                (Range(edges[0], edges[1]),),
                (Range(edges[1], MINIMUM),),
                (Range(MINIMUM, edges[0]), Range(edges[1], MINIMUM)),
            ]
        )

    def _session(self):
        session, self._next_session = SessionId(self._next_session), self._next_session + 1
        return session


async def live(folder, *, seed, steps, reopen_each, is_ageing=False):
    """Random operations; checks after each that the store and the model agree."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    model = Model(rng, is_ageing=is_ageing)
    works = [model.put] * 8 + [model.flush] * 4 + [model.compact] * 3 + [model.cleanup]
    works += [model.repair, model.pin, model.unpin, model.sweep, model.sweep]
    done = 0
    while done < steps:
        async with store_in(folder) as store:
            assert await store.sweep_orphans() == []
            for _ in range(min(reopen_each, steps - done)):
                await rng.choice(works)(store)
                await model.check(store, folder)
                done += 1
    return model
