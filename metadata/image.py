"""Metadata written out whole, as plain records: what snapshots and archives hold."""

from __future__ import annotations

import msgspec

from metadata.cluster import Cluster, ClusterId, ClusterMetadata
from metadata.cms import Cms, Member, Reconfiguration
from metadata.directory import Directory, Node, NodeId
from metadata.epoch import Epoch
from metadata.extensions import Extension, Extensions
from metadata.hashed_map import HashedMap
from metadata.locks import AffectedRanges, Locks, PlacementRanges, SequenceId
from metadata.partitioners import Partitioner
from metadata.placements import Group, Placements, ReplicaGroups, RingPlacement, build
from metadata.ring import Ring
from metadata.schema import Keyspace, PlacementKey, Schema, Table, TableId
from metadata.sequences import Sequence, Sequences
from metadata.sessions import Session, Sessions
from metadata.tokens import BoundedToken, position, token_at


class NodeTokens(msgspec.Struct, frozen=True):
    node: NodeId
    tokens: tuple[BoundedToken, ...]


class GroupImage(msgspec.Struct, frozen=True):
    """The group of the range that ends at `right`."""

    right: BoundedToken
    owners: tuple[NodeId, ...]
    epoch: Epoch


class PlacementImage(msgspec.Struct, frozen=True):
    key: PlacementKey
    reads: tuple[GroupImage, ...]
    writes: tuple[GroupImage, ...]


class LockImage(msgspec.Struct, frozen=True):
    sequence: SequenceId
    ranges: tuple[PlacementRanges, ...]


class ExtensionImage(msgspec.Struct, frozen=True):
    name: str
    value: str
    epoch: Epoch


class ComponentEpochs(msgspec.Struct, frozen=True, kw_only=True):
    cluster: Epoch
    directory: Epoch
    schema: Epoch
    ring: Epoch
    placements: Epoch
    locks: Epoch
    sequences: Epoch
    sessions: Epoch
    cms: Epoch
    extensions: Epoch


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the state digest covers, in a fixed order."""

    epoch: Epoch
    modified: ComponentEpochs
    cluster: ClusterId
    name: str
    partitioner: Partitioner
    nodes: tuple[Node, ...]
    next_node: NodeId
    keyspaces: tuple[Keyspace, ...]
    tables: tuple[Table, ...]
    next_table: TableId
    ring: tuple[NodeTokens, ...]
    placements: tuple[PlacementImage, ...]
    locks: tuple[LockImage, ...]
    sequences: tuple[Sequence, ...]
    sessions: tuple[Session, ...]
    members: tuple[Member, ...]
    reconfiguration: Reconfiguration | None
    extensions: tuple[ExtensionImage, ...]


def image_of(metadata: ClusterMetadata) -> Image:
    epochs = {name: component.epoch for name, component in metadata.components()}
    return Image(
        epoch=metadata.epoch,
        modified=ComponentEpochs(**epochs),
        cluster=metadata.cluster.id,
        name=metadata.cluster.name,
        partitioner=metadata.cluster.partitioner,
        nodes=tuple(metadata.directory.nodes.values()),
        next_node=metadata.directory.next_node,
        keyspaces=tuple(metadata.schema.keyspaces.values()),
        tables=tuple(metadata.schema.tables.values()),
        next_table=metadata.schema.next_table,
        ring=tuple(NodeTokens(node, own) for node, own in metadata.ring.by_node.items()),
        placements=tuple(_placement(key, item) for key, item in metadata.placements.items()),
        locks=tuple(
            LockImage(item, held.by_placement) for item, held in metadata.locks.held.items()
        ),
        sequences=tuple(metadata.sequences.in_progress.values()),
        sessions=tuple(metadata.sessions.open.values()),
        members=tuple(metadata.cms.members.values()),
        reconfiguration=metadata.cms.reconfiguration,
        extensions=tuple(
            ExtensionImage(name, item.value, item.epoch)
            for name, item in metadata.extensions.by_name.items()
        ),
    )


def metadata_of(image: Image) -> ClusterMetadata:
    """The inverse of `image_of`: the same content, hence the same digest."""
    modified = image.modified
    return ClusterMetadata(
        epoch=image.epoch,
        cluster=Cluster(
            id=image.cluster,
            name=image.name,
            partitioner=image.partitioner,
            epoch=modified.cluster,
        ),
        directory=_directory(image),
        schema=_schema(image),
        ring=_ring(image),
        placements=Placements(
            placed={item.key: _ring_placement(item) for item in image.placements},
            epoch=modified.placements,
        ),
        locks=Locks(
            held=HashedMap({item.sequence: AffectedRanges(item.ranges) for item in image.locks}),
            epoch=modified.locks,
        ),
        sequences=Sequences(
            in_progress=HashedMap({item.id: item for item in image.sequences}),
            epoch=modified.sequences,
        ),
        sessions=Sessions(
            open=HashedMap({item.id: item for item in image.sessions}), epoch=modified.sessions
        ),
        cms=Cms(
            members=HashedMap({item.name: item for item in image.members}),
            reconfiguration=image.reconfiguration,
            epoch=modified.cms,
        ),
        extensions=Extensions(
            by_name=HashedMap(
                {item.name: Extension(item.value, item.epoch) for item in image.extensions}
            ),
            epoch=modified.extensions,
        ),
    )


def _placement(key: PlacementKey, placement: RingPlacement) -> PlacementImage:
    return PlacementImage(key, _groups(placement.reads), _groups(placement.writes))


def _groups(groups: ReplicaGroups) -> tuple[GroupImage, ...]:
    pairs = zip(groups.places, groups.groups, strict=True)
    return tuple(GroupImage(token_at(place), item.owners, item.epoch) for place, item in pairs)


def _ring_placement(image: PlacementImage) -> RingPlacement:
    reads = build((position(item.right), Group(item.owners, item.epoch)) for item in image.reads)
    if image.reads == image.writes:
        return RingPlacement(reads, reads)
    writes = build((position(item.right), Group(item.owners, item.epoch)) for item in image.writes)
    return RingPlacement(reads, writes)


def _directory(image: Image) -> Directory:
    directory = Directory()
    for node in image.nodes:
        directory = directory.with_node(node)
    return msgspec.structs.replace(
        directory, next_node=image.next_node, epoch=image.modified.directory
    )


def _schema(image: Image) -> Schema:
    schema = Schema()
    for keyspace in image.keyspaces:
        schema = schema.with_keyspace(keyspace)
    for table in image.tables:
        schema = schema.with_table(table)
    return msgspec.structs.replace(schema, next_table=image.next_table, epoch=image.modified.schema)


def _ring(image: Image) -> Ring:
    pairs = sorted((token, item.node) for item in image.ring for token in item.tokens)
    return Ring(
        by_node=HashedMap({item.node: item.tokens for item in image.ring}),
        tokens=tuple(token for token, _ in pairs),
        owners=tuple(node for _, node in pairs),
        epoch=image.modified.ring,
    )
