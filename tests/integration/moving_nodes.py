"""Nodes with real stores, without HTTP, as a movement sees them."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager

from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.tokens import FULL
from sequences.ports import WorkError
from services.http.data_messages import FlushAnswer, SegmentFile, TableRanges
from store.failures import StoreError
from store.imports import Staged
from tests.store_model import scanned, store_in


class StoreNodes:
    """`metadata` is what every one of them has applied; those in `down` do not answer.

    `old` is where a node has rows from before it was set back, by node and table.
    """

    def __init__(self, root, metadata):
        self.root = root
        self.metadata = metadata
        self.stores = {}
        self.down = set()
        self.flushed = []
        self.imports = {}
        self.covered = {}
        self.old = {}
        self.forgotten = []

    async def answering(self, nodes, _epoch):
        return set(nodes) - self.down

    async def flush(self, node, wanted):
        self._check(node, wanted.session)
        found = []
        for table_id in wanted.tables:
            table = self.metadata.schema.tables[table_id]
            await self.stores[node].flush(table, wanted.ranges)
            found += await self.stores[node].pin(wanted.session, table_id, wanted.ranges)
        self.flushed.append(node)
        files = tuple(self._described(node, segment) for segment in found)
        old = tuple(
            TableRanges(table, self.old[node, table])
            for table in wanted.tables
            if (node, table) in self.old
        )
        return FlushAnswer(node=node, epoch=Epoch(self.metadata.epoch), segments=files, old=old)

    async def staging(self, node, session):
        self._check(node, session)
        folder = self.folder(node) / "staged" / str(session)
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)

    async def take_over(self, node, wanted):
        self._check(node, wanted.session)

        def guard(_connection):
            self._check(node, wanted.session)

        files = [
            Staged(
                path=file.path.removeprefix(f"{self.folder(node)}/"),
                size_bytes=file.bytes,
                sha256=file.checksum,
                ranges=wanted.ranges,
            )
            for file in wanted.files
        ]
        table = self.metadata.schema.tables[wanted.table]
        try:
            await self.stores[node].register(table, wanted.name, files, guard)
        except StoreError as error:
            raise WorkError(f"node {node} says: {error}") from error
        self.imports[node, wanted.name] = (wanted.table, {file.path for file in files})

    async def imported(self, node, session, name):
        self._check(node, session)
        if (node, name) not in self.imports:
            return ()
        table, paths = self.imports[node, name]
        found = await self.stores[node].segments(table, (FULL,))
        return tuple(self._described(node, item) for item in found if item.path in paths)

    async def forget(self, node, wanted):
        self._check(node, wanted.session)
        await self.stores[node].cleanup(wanted.table, wanted.ranges)
        self.old.pop((node, wanted.table), None)
        self.forgotten.append((node, wanted.ranges))

    async def repaired(self, node, wanted):
        self._check(node, wanted.session)
        paths = {path.removeprefix(f"{self.folder(node)}/") for path in wanted.files}
        marked = await self.stores[node].cover(wanted.session, wanted.ranges, paths)
        assert marked == len(paths), "each of them was pinned or imported"
        self.covered[node] = marked

    def folder(self, node):
        return self.root / str(node) / "data"

    async def rows(self, node, table, ranges=(FULL,)):
        return await scanned(self.stores[node], ranges, table=table)

    def staged(self, node):
        """All files that jobs have left there."""
        return sorted(path for path in (self.folder(node) / "staged").rglob("*") if path.is_file())

    def _check(self, node, session):
        if node in self.down:
            raise WorkError(f"node {node} does not answer")
        if self.metadata.sessions.find(session) is None:
            raise WorkError(f"node {node} says: session {session} is not open")

    def _described(self, node, segment):
        return SegmentFile(
            table=segment.table,
            path=str(self.folder(node) / segment.path),
            min_token=segment.first,
            max_token=segment.last,
            rows=segment.rows,
            bytes=segment.size_bytes,
            checksum=segment.sha256,
            oldest=segment.oldest,
            newest=segment.newest,
            ranges=segment.ranges,
            footer=segment.footer or "",
        )


@asynccontextmanager
async def store_nodes(root, metadata):
    nodes = StoreNodes(root, metadata)
    async with AsyncExitStack() as stack:
        for node in metadata.directory.nodes:
            (root / str(node)).mkdir(parents=True, exist_ok=True)
            nodes.stores[NodeId(node)] = await stack.enter_async_context(store_in(root / str(node)))
        yield nodes
