"""What a movement asks of nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, Protocol, TypeVar

from metadata.directory import NodeId
from metadata.epoch import EMPTY, Epoch
from metadata.sessions import SessionId
from sequences.ports import WorkError
from services.driver.nodes import NodeCalls
from services.driver.together import while_alive
from services.http.data_messages import (
    FLUSH_PATH,
    FORGET_PATH,
    IMPORT_PATH,
    IMPORTED_PATH,
    REPAIRED_PATH,
    STAGING_PATH,
    Flush,
    FlushAnswer,
    Forget,
    ForgetAnswer,
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

T = TypeVar("T")

LOOK_TIMEOUT_S = 3.0
ASK_TIMEOUT_S = 15.0
"""A node may have to catch up first."""
FLUSH_TIMEOUT_S = 300.0
"""The wait for the drain, and then the rows of all ranges to be written."""
IMPORT_TIMEOUT_S = 600.0
"""A node reads whole files to check their hashes."""
LOOK_EVERY_S = 5.0
"""While a node takes its time it is asked whether it is still there."""


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

    async def forget(self, node: NodeId, wanted: Forget) -> None: ...

    async def repaired(self, node: NodeId, wanted: Repaired) -> None: ...


class HttpDataNodes:
    def __init__(self, calls: NodeCalls, look_every_s: float = LOOK_EVERY_S) -> None:
        self._calls = calls
        self._look_every_s = look_every_s

    async def answering(self, nodes: Iterable[NodeId], epoch: Epoch) -> set[NodeId]:
        listed = tuple(nodes)
        answers = await asyncio.gather(
            *(self._answers(node, epoch, LOOK_TIMEOUT_S) for node in listed)
        )
        return {node for node, answered in zip(listed, answers, strict=True) if answered}

    async def flush(self, node: NodeId, wanted: Flush) -> FlushAnswer:
        asked = self._calls.post(node, FLUSH_PATH, wanted, FlushAnswer, FLUSH_TIMEOUT_S)
        return await self._while_alive(node, asked, "it was asked to write its rows to segments")

    async def staging(self, node: NodeId, session: SessionId) -> str:
        wanted = Staging(session=session)
        found = await self._calls.post(node, STAGING_PATH, wanted, StagingAnswer, ASK_TIMEOUT_S)
        return found.uri

    async def take_over(self, node: NodeId, wanted: Import) -> None:
        asked = self._calls.post(node, IMPORT_PATH, wanted, ImportAnswer, IMPORT_TIMEOUT_S)
        await self._while_alive(node, asked, "it was asked to import what was moved")

    async def imported(
        self, node: NodeId, session: SessionId, name: str
    ) -> tuple[SegmentFile, ...]:
        wanted = Imported(session=session, prefix=name)
        found = await self._calls.post(node, IMPORTED_PATH, wanted, ImportedAnswer, ASK_TIMEOUT_S)
        return found.segments

    async def forget(self, node: NodeId, wanted: Forget) -> None:
        await self._calls.post(node, FORGET_PATH, wanted, ForgetAnswer, ASK_TIMEOUT_S)

    async def repaired(self, node: NodeId, wanted: Repaired) -> None:
        await self._calls.post(node, REPAIRED_PATH, wanted, RepairedAnswer, ASK_TIMEOUT_S)

    async def _while_alive(self, node: NodeId, asked: Coroutine[Any, Any, T], what: str) -> T:
        """Slow is well; a node that answers nothing else either is named instead of waited for."""
        every_s = self._look_every_s
        found = await while_alive(asked, lambda: self._answers(node, EMPTY, every_s), every_s)
        if found is None:
            raise WorkError(f"node {node} does not answer any more: {what} and is silent since")
        return found

    async def _answers(self, node: NodeId, epoch: Epoch, timeout_s: float) -> bool:
        query: dict[str, str | int] = {"at_least": epoch, "wait": 0}
        try:
            await self._calls.get(node, "/v1/epoch", query, Watermark, timeout_s)
        except WorkError:
            return False
        return True
