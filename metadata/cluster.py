"""The whole description of a cluster at one epoch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from typing import NewType

import msgspec

from metadata.cms import Cms
from metadata.digest import digest_of
from metadata.directory import Directory, Location, NodeId
from metadata.epoch import EMPTY, Epoch, following
from metadata.extensions import Extensions
from metadata.locks import Locks
from metadata.partitioners import Partitioner
from metadata.placements import Placements
from metadata.ring import Ring
from metadata.schema import Schema
from metadata.sequences import Sequences
from metadata.sessions import Sessions

ClusterId = NewType("ClusterId", str)

NO_CLUSTER = ClusterId("")


class Cluster(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What was settled when the cluster was founded."""

    id: ClusterId = NO_CLUSTER
    name: str = ""
    partitioner: Partitioner = Partitioner.XXHASH64
    epoch: Epoch = EMPTY

    @cached_property
    def digest(self) -> bytes:
        return digest_of(self.id, self.name, self.partitioner, self.epoch)


Component = (
    Cluster
    | Directory
    | Schema
    | Ring
    | Placements
    | Locks
    | Sequences
    | Sessions
    | Cms
    | Extensions
)

COMPONENTS = (
    "cluster",
    "directory",
    "schema",
    "ring",
    "placements",
    "locks",
    "sequences",
    "sessions",
    "cms",
    "extensions",
)


class ClusterMetadata(msgspec.Struct, frozen=True, kw_only=True, dict=True, eq=False):
    """All components at one epoch. A change makes another one that shares what stayed."""

    epoch: Epoch = EMPTY
    cluster: Cluster = Cluster()
    directory: Directory = Directory()
    schema: Schema = Schema()
    ring: Ring = Ring()
    placements: Placements = Placements()
    locks: Locks = Locks()
    sequences: Sequences = Sequences()
    sessions: Sessions = Sessions()
    cms: Cms = Cms()
    extensions: Extensions = Extensions()

    @cached_property
    def digest(self) -> bytes:
        """The state digest: of the epoch and of every component's content, nothing else."""
        parts = (
            self.epoch.to_bytes(8),
            self.cluster.digest,
            self.directory.digest,
            self.schema.digest,
            self.ring.digest,
            self.placements.digest,
            self.locks.digest,
            self.sequences.digest,
            self.sessions.digest,
            self.cms.digest,
            self.extensions.digest,
        )
        return sha256(b"".join(parts)).digest()

    def components(self) -> list[tuple[str, Component]]:
        return [(name, getattr(self, name)) for name in COMPONENTS]

    def successor(self, **changed: Component) -> ClusterMetadata:
        """The metadata at the next epoch; each component given here is stamped with it."""
        epoch = following(self.epoch)
        stamped = {
            name: msgspec.structs.replace(component, epoch=epoch)
            for name, component in changed.items()
        }
        return msgspec.structs.replace(self, epoch=epoch, **stamped)

    def locations(self) -> Mapping[NodeId, Location]:
        return {node.id: node.location for node in self.directory.nodes.values()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterMetadata) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


NOTHING_YET = ClusterMetadata()
"""The metadata before the first entry."""
