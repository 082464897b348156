"""Asking nodes over HTTP: each request names the cluster and the node it is meant for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import aiohttp
import msgspec

from client.connection import OK
from client.peers import MEANT_FOR
from client.proposals import problem_in
from client.transport import Answer, LostError, Request, ask
from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from sequences.ports import WorkError
from services.node.roads import ADDRESS_NAME

T = TypeVar("T")


class NodeCalls:
    """Whatever goes wrong is a `WorkError` that names the node."""

    def __init__(
        self, session: aiohttp.ClientSession, metadata: Callable[[], ClusterMetadata]
    ) -> None:
        self._session = session
        self._metadata = metadata

    async def get(
        self, node: NodeId, path: str, query: dict[str, str | int], kind: type[T], timeout_s: float
    ) -> T:
        request = Request(path=path, query=query, more_headers={MEANT_FOR: str(node)})
        return await self._asked(node, request, kind, timeout_s)

    async def post(
        self, node: NodeId, path: str, body: msgspec.Struct, kind: type[T], timeout_s: float
    ) -> T:
        content = msgspec.json.encode(body)
        request = Request(path=path, body=content, more_headers={MEANT_FOR: str(node)})
        return await self._asked(node, request, kind, timeout_s)

    async def _asked(self, node: NodeId, request: Request, kind: type[T], timeout_s: float) -> T:
        url = self._address_of(node)
        try:
            answer = await ask(self._session, url, request, timeout_s=timeout_s)
        except LostError as error:
            raise WorkError(f"node {node} does not answer: {error}", [node]) from error
        return _decoded(node, answer, kind)

    def _address_of(self, node: NodeId) -> str:
        found = self._metadata().directory.find(node)
        if found is None or ADDRESS_NAME not in found.addresses:
            raise WorkError(f"nobody knows where node {node} answers", [node])
        return f"http://{found.addresses[ADDRESS_NAME]}"


def _decoded(node: NodeId, answer: Answer, kind: type[T]) -> T:
    try:
        if answer.status != OK:
            problem = problem_in(answer.body, answer.status)
            raise WorkError(f"node {node} says: {problem.sentence}", [node])
        return msgspec.json.decode(answer.body, type=kind)
    except (ValueError, RecursionError) as error:
        raise WorkError(
            f"node {node} gave an answer that makes no sense: {error}", [node]
        ) from error
