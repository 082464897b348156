"""Nodes and the spreading of entries, for whoever looks."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from aiohttp import web

from encoding.views import component_view
from log.store import StoreUnavailableError
from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.epoch import EMPTY, Epoch
from services.cms.api import Api
from services.cms.reports.bodies import (
    Moment,
    NodesAnswer,
    NodeView,
    PropagationAnswer,
    Spread,
    Spreading,
    Straggler,
)
from services.cms.reports.liveness import liveness
from services.cms.reports.observing import spread_now
from services.cms.reports.propagation import Propagation, Reached
from services.cms.reports.store import Heard
from services.http.api import Call

CELLS_MAX = 100_000
"""Nodes times epochs of one answer: more would hold up everybody else."""


def nodes_at(metadata: ClusterMetadata) -> NodesAnswer:
    """The directory alone."""
    tokens = {node: len(own) for node, own in metadata.ring.by_node.items()}
    listed = component_view(metadata, "directory")["nodes"]
    nodes = [NodeView(**node, tokens=tokens.get(node["id"], 0)) for node in listed]
    return NodesAnswer(epoch=metadata.epoch, nodes=nodes)


def nodes_now(metadata: ClusterMetadata, heard: Iterable[Heard]) -> NodesAnswer:
    """The directory joined with what nodes report."""
    by_node = {int(item.node): item for item in heard}
    answer = nodes_at(metadata)
    nodes = [_joined(node, by_node.get(node.id), metadata.epoch) for node in answer.nodes]
    return NodesAnswer(epoch=answer.epoch, nodes=nodes)


async def heard_by(api: Api, *, is_stale: bool) -> Iterable[Heard]:
    """Where a stale answer will do, none is one: nodes are then unknown."""
    try:
        return await api.engine.reporting.stores.reports.heard()
    except StoreUnavailableError:
        if is_stale:
            return ()
        raise


async def propagation(api: Api, call: Call[Spreading]) -> web.StreamResponse:
    """When recent entries were published and applied, and by whom last."""
    metadata = (await api.engine.latest()).metadata
    stores = api.engine.reporting.stores
    spread = await spread_now(stores, metadata)
    epochs = _page(call.query, metadata)
    committed_at = await stores.timeline.committed_at(epochs)
    found = [_spread(spread.of(epoch), committed_at.get(epoch), metadata) for epoch in epochs]
    answer = PropagationAnswer(tip=metadata.epoch, epochs=found)
    return await api.json(call.request, answer, Cache_Control="no-store")


def _page(query: Spreading, metadata: ClusterMetadata) -> list[Epoch]:
    nodes = max(1, len(metadata.directory.nodes))
    limit = min(query.limit, max(1, CELLS_MAX // nodes))
    tip = metadata.epoch
    after = max(EMPTY, tip - limit) if query.after is None else query.after
    return [Epoch(epoch) for epoch in range(after + 1, min(tip, after + limit) + 1)]


def _joined(node: NodeView, found: Heard | None, tip: Epoch) -> NodeView:
    if found is None:
        return msgspec.structs.replace(node, liveness=liveness(None))
    return msgspec.structs.replace(
        node,
        liveness=liveness(found.age_s),
        watermark=found.epoch,
        lag=max(0, tip - found.epoch),
        age_s=round(found.age_s, 3),
        hash=found.hash.hex(),
        digest=found.digest.hex(),
        diverged=found.fault is not None,
        drained=found.drained,
        data=None if found.data is None else msgspec.json.decode(found.data),
    )


def _spread(found: Propagation, committed_at_us: int | None, metadata: ClusterMetadata) -> Spread:
    return Spread(
        epoch=found.epoch,
        committed_at_us=committed_at_us,
        published=_moment(found.published),
        first=_moment(found.first),
        quorum=_moment(found.quorum),
        all=_moment(found.all),
        applied=found.applied,
        members=found.members,
        straggler=_straggler(found.straggler, metadata),
    )


def _moment(found: Reached | None) -> Moment | None:
    return None if found is None else Moment(found.at_us, found.node)


def _straggler(node: NodeId | None, metadata: ClusterMetadata) -> Straggler | None:
    if node is None:
        return None
    known = metadata.directory.find(node)
    addresses = {} if known is None else known.addresses
    return Straggler(node, next(iter(addresses.values()), None))
