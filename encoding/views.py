"""The components of the metadata as JSON, for people and browsers.

Every view begins with the epoch of the metadata it shows. Tokens are decimal strings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from encoding.json import as_plain
from metadata.cluster import COMPONENTS, ClusterMetadata
from metadata.directory import NodeId
from metadata.placements import Group
from metadata.plans import PlacementPlan, RangeChange
from metadata.ring import Ring
from metadata.schema import PlacementKey
from metadata.sequences import Sequence
from metadata.tokens import Range

View = dict[str, Any]


def metadata_view(metadata: ClusterMetadata) -> View:
    """All components by name, and the epochs at which each of them last changed."""
    components = {name: component_view(metadata, name) for name in COMPONENTS}
    return {**modified_view(metadata), "digest": metadata.digest.hex(), **components}


def modified_view(metadata: ClusterMetadata) -> View:
    """Small in a cluster of any size."""
    modified = {name: component.epoch for name, component in metadata.components()}
    return {"epoch": metadata.epoch, "modified": modified}


def component_view(metadata: ClusterMetadata, component: str) -> View:
    """One of `COMPONENTS`; another name is a `KeyError`."""
    return {"epoch": metadata.epoch, **_VIEWS[component](metadata)}


def sequence_view(sequence: Sequence) -> View:
    return {
        "id": sequence.id,
        "kind": sequence.kind.value,
        "node": sequence.node,
        "replaced": sequence.replaced,
        "tokens": _texts(sequence.tokens),
        "dead": list(sequence.dead),
        "accept_loss": sequence.accept_loss or None,
        "session": sequence.session,
        "taken": [{"step": item.step.value, "epoch": item.epoch} for item in sequence.taken],
        "due": sequence.due.value,
        "cancelled": sequence.cancelled,
        "plans": [_plan(plan) for plan in sequence.plans],
    }


def _cluster(metadata: ClusterMetadata) -> View:
    cluster = metadata.cluster
    return {"id": cluster.id, "name": cluster.name, "partitioner": cluster.partitioner.value}


def _directory(metadata: ClusterMetadata) -> View:
    nodes = [
        {
            "id": node.id,
            "host_id": node.host_id,
            "addresses": dict(node.addresses),
            "datacenter": node.location.datacenter,
            "rack": node.location.rack,
            "version": node.version,
            "state": node.state.value,
        }
        for node in metadata.directory.nodes.values()
    ]
    return {"nodes": nodes, "next_node": metadata.directory.next_node}


def _schema(metadata: ClusterMetadata) -> View:
    schema = metadata.schema
    keyspaces = [
        {
            "name": keyspace.name,
            "replication": as_plain(keyspace.replication),
            "epoch": keyspace.epoch,
            "tables": [
                {"dropped": [], **as_plain(table)} for table in schema.tables_of(keyspace.name)
            ],
        }
        for keyspace in schema.keyspaces.values()
    ]
    return {"keyspaces": keyspaces, "next_table": schema.next_table}


def _ring(metadata: ClusterMetadata) -> View:
    pairs = zip(metadata.ring.tokens, metadata.ring.owners, strict=True)
    return {"tokens": [{"token": str(token), "node": node} for token, node in pairs]}


def _placements(metadata: ClusterMetadata) -> View:
    ring = metadata.ring
    placements = [
        {
            **_setting(metadata, key),
            "reads": list(_groups(placement.read_groups(), ring)),
            "writes": list(_groups(placement.write_groups(), ring)),
        }
        for key, placement in metadata.placements.items()
    ]
    return {"placements": placements}


def _setting(metadata: ClusterMetadata, key: PlacementKey) -> View:
    """Only settings in use are placed, so there is a keyspace to ask."""
    names = metadata.schema.keyspaces_placed_by(key)
    replication = metadata.schema.keyspaces[names[0]].replication
    return {"replication": as_plain(replication), "keyspaces": names}


def _groups(groups: Iterable[tuple[Range, Group]], ring: Ring) -> Iterator[View]:
    for span, group in groups:
        owners = _primary_first(group.owners, ring, span)
        yield {**_range(span), "owners": owners, "epoch": group.epoch}


def _primary_first(owners: tuple[NodeId, ...], ring: Ring, span: Range) -> list[NodeId]:
    # While the first node joins, ranges have an owner and the ring has no token yet.
    primary = ring.primary_of(span.right) if ring.tokens else None
    return sorted(owners, key=lambda node: (node != primary, node))


def _locks(metadata: ClusterMetadata) -> View:
    locks = [
        {
            "sequence": sequence,
            "placements": [
                {"placement": item.placement, "ranges": _ranges(item.ranges)}
                for item in held.by_placement
            ],
        }
        for sequence, held in metadata.locks.held.items()
    ]
    return {"locks": locks}


def _sequences(metadata: ClusterMetadata) -> View:
    found = metadata.sequences.in_progress.values()
    return {"sequences": [sequence_view(sequence) for sequence in found]}


def _plan(plan: PlacementPlan) -> View:
    return {
        "placement": plan.placement,
        "changes": [_change(change) for change in plan.changes],
        "splits": _texts(plan.splits),
        "merges": _texts(plan.merges),
        "founding": plan.founding,
        "vacating": plan.vacating,
    }


def _change(change: RangeChange) -> View:
    return {
        **_range(change.range),
        "before": list(change.before),
        "after": list(change.after),
        "handovers": [as_plain(pair) for pair in change.handovers],
    }


def _sessions(metadata: ClusterMetadata) -> View:
    sessions = [
        {
            "id": session.id,
            "purpose": session.purpose.value,
            "nodes": list(session.nodes),
            "ranges": _ranges(session.ranges),
            "sequence": session.sequence,
        }
        for session in metadata.sessions.open.values()
    ]
    return {"sessions": sessions}


def _cms(metadata: ClusterMetadata) -> View:
    members = [
        {"name": member.name, "url": member.url, "state": member.state.value}
        for member in metadata.cms.members.values()
    ]
    running = metadata.cms.reconfiguration
    return {
        "members": members,
        "reconfiguration": None if running is None else as_plain(running),
    }


def _extensions(metadata: ClusterMetadata) -> View:
    extensions = [
        {"name": name, "value": item.value, "epoch": item.epoch}
        for name, item in metadata.extensions.by_name.items()
    ]
    return {"extensions": extensions}


def _range(span: Range) -> View:
    return {"left": str(span.left), "right": str(span.right)}


def _ranges(spans: Iterable[Range]) -> list[View]:
    return [_range(span) for span in spans]


def _texts(tokens: Iterable[int]) -> list[str]:
    return [str(token) for token in tokens]


_VIEWS: dict[str, Callable[[ClusterMetadata], View]] = {
    "cluster": _cluster,
    "directory": _directory,
    "schema": _schema,
    "ring": _ring,
    "placements": _placements,
    "locks": _locks,
    "sequences": _sequences,
    "sessions": _sessions,
    "cms": _cms,
    "extensions": _extensions,
}
