"""Having nodes delete what is no longer theirs."""

from __future__ import annotations

from metadata.directory import NodeId
from metadata.sessions import Session
from services.driver.nodes import NodeCalls
from services.http.data_messages import Cleanup, CleanupAnswer

CLEANUP_PATH = "/internal/v1/cleanup"
CLEANUP_TIMEOUT_S = 60.0


class NodeCleaner:
    def __init__(self, calls: NodeCalls) -> None:
        self._calls = calls

    async def clean(self, session: Session, node: NodeId) -> None:
        wanted = Cleanup(session=session.id, ranges=session.ranges)
        await self._calls.post(node, CLEANUP_PATH, wanted, CleanupAnswer, CLEANUP_TIMEOUT_S)
