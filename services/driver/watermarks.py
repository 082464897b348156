"""How far nodes are, asked of each of them at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from metadata.directory import NodeId
from metadata.epoch import Epoch
from sequences.ports import Observe, WorkError
from services.driver.nodes import NodeCalls
from services.node.bodies import Watermark

ANSWER_S = 2.0
"""On top of what a node is asked to wait."""


class NodeWatermarks:
    def __init__(self, calls: NodeCalls) -> None:
        self._calls = calls

    async def observe(
        self, nodes: Iterable[NodeId], epoch: Epoch, timeout_s: float, told: Observe
    ) -> None:
        """Nobody is waited for once enough have answered."""
        asking = {asyncio.ensure_future(self._ask(node, epoch, timeout_s)) for node in nodes}
        try:
            for answer in asyncio.as_completed(asking):
                found = await answer
                if found is not None and told(*found):
                    return
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(
        self, node: NodeId, epoch: Epoch, timeout_s: float
    ) -> tuple[NodeId, Epoch] | None:
        query: dict[str, str | int] = {
            "at_least": epoch,
            "wait": max(1, int(timeout_s)),
            "drained": "true",
        }
        try:
            found = await self._calls.get(node, "/v1/epoch", query, Watermark, timeout_s + ANSWER_S)
        except WorkError:
            return None
        return node, found.drained
