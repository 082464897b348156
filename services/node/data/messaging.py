"""Messages to the replicas of other nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import aiohttp
import msgspec

from client.connection import OK
from client.peers import MEANT_FOR
from client.transport import Answer, LostError, Request, ask
from metadata.directory import NodeId
from services.http.data_messages import (
    REPLICA_READ_PATH,
    REPLICA_WRITE_PATH,
    ReadAnswer,
    ReplicaRead,
    ReplicaWrite,
    WriteAnswer,
)
from services.http.problems import Code

MESSAGE_TIMEOUT_S = 2.0
TRIES_MAX = 2
SUSPECT_S = 5.0
MESSAGE_PACK = "application/msgpack"

HARMLESS = {
    Code.NEEDS_REPAIR,
    Code.REPLICA_BEHIND,
    Code.UNAVAILABLE,
    Code.STOPPING,
    Code.DIVERGED,
    Code.OVERLOADED,
    Code.DISK_FULL,
    Code.WRONG_NODE,
    Code.WRONG_CLUSTER,
    Code.UNAUTHORIZED,
    Code.FORBIDDEN,
    Code.NOT_FOUND,
    Code.MALFORMED,
    Code.TOO_LARGE,
}
"""Nothing was written by a node that answers so."""

A = TypeVar("A", WriteAnswer, ReadAnswer)


class SilentError(Exception):
    """A node did not do what it was asked, or it is not known whether it did."""

    def __init__(self, reason: str, *, may_have_arrived: bool) -> None:
        super().__init__(reason)
        self.may_have_arrived = may_have_arrived


class _Told(msgspec.Struct, frozen=True):
    code: str = ""
    detail: str = ""


class Messenger:
    """`addresses` are those of the other nodes, by the metadata at hand."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        addresses: Callable[[], Mapping[NodeId, str]],
        clock: Callable[[], float],
    ) -> None:
        self._session = session
        self._addresses = addresses
        self._clock = clock
        self._suspected_until: dict[NodeId, float] = {}

    def is_suspect(self, node: NodeId) -> bool:
        """Whether it left a message unanswered a moment ago; better ask others first."""
        return self._suspected_until.get(node, 0.0) > self._clock()

    async def write(self, node: NodeId, message: ReplicaWrite) -> WriteAnswer:
        body = msgspec.msgpack.encode(message)
        return await self._told(node, REPLICA_WRITE_PATH, body, WriteAnswer)

    async def read(self, node: NodeId, message: ReplicaRead) -> ReadAnswer:
        body = msgspec.msgpack.encode(message)
        return await self._told(node, REPLICA_READ_PATH, body, ReadAnswer)

    async def _told(self, node: NodeId, path: str, body: bytes, kind: type[A]) -> A:
        answer = await self._asked(node, path, body)
        try:
            return msgspec.msgpack.decode(answer.body, type=kind)
        except (ValueError, RecursionError) as error:
            raise SilentError("its answer makes no sense", may_have_arrived=True) from error

    async def _asked(self, node: NodeId, path: str, body: bytes) -> Answer:
        """An answer that is no refusal. Of an earlier try a refusal of the last says nothing."""
        url = self._addresses().get(node)
        if url is None:
            raise SilentError("it has no address", may_have_arrived=False)
        request = Request(
            path=path, body=body, accept=MESSAGE_PACK, more_headers={MEANT_FOR: str(node)}
        )
        may_have_arrived, reason = False, "it gave no answer in time"
        deadline_s = self._clock() + MESSAGE_TIMEOUT_S
        for _ in range(TRIES_MAX):
            left_s = deadline_s - self._clock()
            if left_s <= 0:
                break
            try:
                answer = await ask(self._session, url, request, timeout_s=left_s)
            except LostError as error:
                # A connection that was kept open may have died with a process that is back by
                # now; to repeat a replica message does no harm.
                may_have_arrived |= error.may_have_arrived
                reason = str(error)
            else:
                self._suspected_until.pop(node, None)
                if answer.status == OK:
                    return answer
                raise _refused(answer, may_have_arrived=may_have_arrived)
        self._suspected_until[node] = self._clock() + SUSPECT_S
        raise SilentError(reason, may_have_arrived=may_have_arrived)


def _refused(answer: Answer, *, may_have_arrived: bool) -> SilentError:
    try:
        found = msgspec.json.decode(answer.body, type=_Told)
    except (ValueError, RecursionError):
        found = _Told()
    text = f"{found.code or answer.status}: {found.detail or 'it does not say why'}"
    return SilentError(text, may_have_arrived=may_have_arrived or found.code not in HARMLESS)
