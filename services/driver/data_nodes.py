"""What a movement asks of nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.sessions import SessionId
from sequences.ports import WorkError
from services.driver.nodes import NodeCalls
from services.http.data_messages import (
    FLUSH_PATH,
    IMPORT_PATH,
    IMPORTED_PATH,
    REPAIRED_PATH,
    STAGING_PATH,
    Flush,
    FlushAnswer,
    Import,
    ImportAnswer,
    Imported,
    ImportedAnswer,
    Repaired,
    RepairedAnswer,
    SegmentFile,
    Staging,
    StagingAnswer,
)
from services.node.bodies import Watermark

LOOK_TIMEOUT_S = 3.0
ASK_TIMEOUT_S = 15.0
"""A node may have to catch up first."""
FLUSH_TIMEOUT_S = 300.0
"""The wait for the drain, and then the rows of all ranges to be written."""
IMPORT_TIMEOUT_S = 600.0
"""A node reads whole files to check their hashes."""


class DataNodes(Protocol):
    """Whatever goes wrong is a `WorkError` that names the node."""

    async def answering(self, nodes: Iterable[NodeId], epoch: Epoch) -> set[NodeId]:
        """Those that answer now, whatever they have applied."""
        ...

    async def flush(self, node: NodeId, wanted: Flush) -> FlushAnswer: ...

    async def staging(self, node: NodeId, session: SessionId) -> str: ...

    async def take_over(self, node: NodeId, wanted: Import) -> None: ...

    async def imported(
        self, node: NodeId, session: SessionId, name: str
    ) -> tuple[SegmentFile, ...]: ...

    async def repaired(self, node: NodeId, wanted: Repaired) -> None: ...


class HttpDataNodes:
    def __init__(self, calls: NodeCalls) -> None:
        self._calls = calls

    async def answering(self, nodes: Iterable[NodeId], epoch: Epoch) -> set[NodeId]:
        listed = tuple(nodes)
        answers = await asyncio.gather(*(self._answers(node, epoch) for node in listed))
        return {node for node, answered in zip(listed, answers, strict=True) if answered}

    async def flush(self, node: NodeId, wanted: Flush) -> FlushAnswer:
        return await self._calls.post(node, FLUSH_PATH, wanted, FlushAnswer, FLUSH_TIMEOUT_S)

    async def staging(self, node: NodeId, session: SessionId) -> str:
        wanted = Staging(session=session)
        found = await self._calls.post(node, STAGING_PATH, wanted, StagingAnswer, ASK_TIMEOUT_S)
        return found.uri

    async def take_over(self, node: NodeId, wanted: Import) -> None:
        await self._calls.post(node, IMPORT_PATH, wanted, ImportAnswer, IMPORT_TIMEOUT_S)

    async def imported(
        self, node: NodeId, session: SessionId, name: str
    ) -> tuple[SegmentFile, ...]:
        wanted = Imported(session=session, prefix=name)
        found = await self._calls.post(node, IMPORTED_PATH, wanted, ImportedAnswer, ASK_TIMEOUT_S)
        return found.segments

    async def repaired(self, node: NodeId, wanted: Repaired) -> None:
        await self._calls.post(node, REPAIRED_PATH, wanted, RepairedAnswer, ASK_TIMEOUT_S)

    async def _answers(self, node: NodeId, epoch: Epoch) -> bool:
        query: dict[str, str | int] = {"at_least": epoch, "wait": 0}
        try:
            await self._calls.get(node, "/v1/epoch", query, Watermark, LOOK_TIMEOUT_S)
        except WorkError:
            return False
        return True
