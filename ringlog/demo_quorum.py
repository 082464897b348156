"""Reading every row of the demo at quorum, by the owners that the metadata names."""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from client.connection import OK
from client.peers import MEANT_FOR
from client.transport import LostError, Request
from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.quorums import majority
from metadata.schema import Table
from metadata.strategies import Owners
from metadata.tokens import Range, position
from ringlog.demo_rows import ABSENT, KEYSPACE, TABLE, VERSION, Ask, Book
from ringlog.demo_show import Tell
from services.http.data_messages import REPLICA_READ_PATH, ReadAnswer, ReplicaKey, ReplicaRead
from services.local.failure import LocalServerError
from services.node.data.messaging import MESSAGE_PACK
from store.keys import key_of
from store.rows import Row, newest

PAGE_KEYS = 500
AT_ONCE = 4
TRIES_MAX = 20
TRY_PAUSE_S = 0.5


class Ownership:
    """Who owns each row by the metadata at the end."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        self.metadata = metadata
        keyspace = metadata.schema.find(KEYSPACE)
        table = metadata.schema.table(KEYSPACE, TABLE)
        assert keyspace is not None, KEYSPACE
        assert table is not None, TABLE
        self.table: Table = table
        placement = metadata.placements.find(keyspace.replication.key)
        assert placement is not None, KEYSPACE
        self._groups = [(span, group.owners) for span, group in placement.read_groups()]
        self._ends = [position(span.right) for span, _ in self._groups]

    def key(self, text: str) -> ReplicaKey:
        found = key_of(self.table, self.metadata.cluster.partitioner, text)
        return ReplicaKey(token=found.token, key=found.text)

    def owners(self, key: ReplicaKey) -> Owners:
        return self._groups[bisect_left(self._ends, key.token)][1]

    def ranges(self, node: NodeId) -> list[Range]:
        return [span for span, owners in self._groups if node in owners]


class QuorumReader:
    """Reads page after page, each from a majority of its owners, chosen by lot.

    A page asks as a coordinator does, and spares one request for each of its rows.
    """

    def __init__(self, ask: Ask, ownership: Ownership, urls: Mapping[NodeId, str]) -> None:
        self.violations: list[str] = []
        self._ask = ask
        self._ownership = ownership
        self._urls = urls
        self._random = random.Random()  # noqa: S311 spreads load, guards nothing

    async def check(self, book: Book, tell: Tell) -> int:
        """Find every acknowledged row in its last version; how many there are."""
        pages = self._pages(book.keys)
        todo, done = iter(pages), 0

        async def reader() -> None:
            nonlocal done
            for asked, page in todo:
                await self._check_page(book, asked, page)
                done += len(page)
                tell(done)

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(reader())
        return done

    def _pages(self, texts: Iterable[str]) -> list[tuple[Owners, list[ReplicaKey]]]:
        """In the order of their tokens, as they lie in the files."""
        by_owners: dict[Owners, list[ReplicaKey]] = {}
        for key in sorted(map(self._ownership.key, texts), key=lambda key: key.token):
            by_owners.setdefault(self._ownership.owners(key), []).append(key)
        return [
            (self._quorum(owners), keys[start : start + PAGE_KEYS])
            for owners, keys in by_owners.items()
            for start in range(0, len(keys), PAGE_KEYS)
        ]

    def _quorum(self, owners: Owners) -> Owners:
        return tuple(self._random.sample(owners, majority(len(owners))))

    async def _check_page(self, book: Book, asked: Owners, page: list[ReplicaKey]) -> None:
        answers = await asyncio.gather(*(self._read(node, page) for node in asked))
        for place, key in enumerate(page):
            row = newest(answer[place] for answer in answers)
            columns = {} if row is None else row.columns(self._ownership.table)
            found = columns.get(VERSION, ABSENT)
            if found != book.promised(key.key):
                self.violations.append(
                    f"{key.key}: version {book.promised(key.key)} was acknowledged, {found!r} was "
                    f"found at the nodes {', '.join(map(str, asked))}"
                )

    async def _read(self, node: NodeId, page: list[ReplicaKey]) -> Sequence[Row | None]:
        message = ReplicaRead(
            epoch=self._ownership.metadata.epoch,
            table=self._ownership.table.id,
            keys=tuple(page),
        )
        request = Request(
            path=REPLICA_READ_PATH,
            body=msgspec.msgpack.encode(message),
            accept=MESSAGE_PACK,
            more_headers={MEANT_FOR: str(node)},
        )
        for _ in range(TRIES_MAX):
            try:
                answer = await self._ask(self._urls[node], request)
            except LostError:
                await asyncio.sleep(TRY_PAUSE_S)
                continue
            if answer.status == OK:
                found = msgspec.msgpack.decode(answer.body, type=ReadAnswer)
                if not found.refused:
                    return found.rows
            await asyncio.sleep(TRY_PAUSE_S)
        raise LocalServerError(f"Node {node} does not answer reads: see its log.")
