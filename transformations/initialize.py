"""Founding a cluster, and marking or forcing its metadata."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from metadata.cluster import COMPONENTS, Cluster, ClusterId, ClusterMetadata
from metadata.epoch import EMPTY, Epoch, following
from metadata.extensions import Extension, Extensions
from metadata.hashed_map import HashedMap
from metadata.image import ComponentEpochs, Image, metadata_of
from metadata.invariants import violations
from metadata.limits import Label, Uuid
from metadata.partitioners import Partitioner
from metadata.placements import Placements, restamped
from metadata.schema import Keyspace, Schema, Table
from transformations.fields import Verb
from transformations.outcome import Accepted, Outcome, Reason, Rejected, Result

K = TypeVar("K")
Stamped = TypeVar("Stamped", Keyspace, Table, Extension)


class Initialize(Verb, frozen=True):
    """Found a cluster: the first entry of every log, and never a later one.

    `cluster` is what tells this cluster from all others. Whoever commits fills in the entry id,
    which is unique, so clients leave it out. `image` adopts a cluster that existed before.
    """

    name: Label
    partitioner: Partitioner = Partitioner.XXHASH64
    cluster: Uuid | None = None
    image: Image | None = None

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        if metadata.epoch != EMPTY:
            return Rejected(
                Reason.ALREADY_INITIALIZED,
                f"cluster {metadata.cluster.name} ({metadata.cluster.id}) is founded",
                "use another log for another cluster",
            )
        if self.cluster is None:
            return Rejected(
                Reason.NOT_INITIALIZED, "a founding entry needs a cluster id", "give cluster"
            )
        found = metadata if self.image is None else _founded_on(self.image)
        if isinstance(found, Rejected):
            return found

        cluster = Cluster(id=ClusterId(self.cluster), name=self.name, partitioner=self.partitioner)
        return Accepted(after=found.successor(cluster=cluster), result=Result(cluster=cluster.id))


class TriggerSnapshot(Verb, frozen=True):
    """Change nothing but the epoch; everybody who applies it writes a snapshot."""

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        return Accepted(after=metadata.successor())


class ForceSnapshot(Verb, frozen=True):
    """Put other metadata in the place of what the log led to. Last resort of an admin."""

    image: Image

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        if self.image.cluster != metadata.cluster.id:
            return Rejected(
                Reason.WRONG_CLUSTER,
                f"the image is of cluster {self.image.cluster}, this is {metadata.cluster.id}",
            )
        if self.image.epoch > metadata.epoch:
            return Rejected(
                Reason.INVALID_IMAGE,
                f"the image is of epoch {self.image.epoch}, which is yet to come",
            )
        if self.image.partitioner != metadata.cluster.partitioner:
            return Rejected(
                Reason.INVALID_IMAGE, "another partitioner would give every row another token"
            )
        found = _restored(self.image)
        if isinstance(found, Rejected):
            return found

        changed = {
            name: component
            for name, component in found.components()
            if component.digest != getattr(metadata, name).digest
        }
        directory, schema = found.directory, found.schema
        if "placements" in changed:
            changed["placements"] = _restamped(metadata, found.placements)
        if "directory" in changed:
            next_node = max(directory.next_node, metadata.directory.next_node)
            changed["directory"] = msgspec.structs.replace(directory, next_node=next_node)
        if "schema" in changed:
            changed["schema"] = _restamped_schema(metadata, schema)
        if "extensions" in changed:
            epoch, now = following(metadata.epoch), metadata.extensions.by_name
            changed["extensions"] = Extensions(
                by_name=_restamped_values(found.extensions.by_name, now, epoch)
            )
        return Accepted(after=metadata.successor(**changed))


def _restamped(metadata: ClusterMetadata, forced: Placements) -> Placements:
    """Whoever still has the other owners must be told that it is behind for their ranges."""
    epoch = following(metadata.epoch)
    placed = {
        key: restamped(placement, metadata.placements.find(key), epoch)
        for key, placement in forced.items()
    }
    return Placements(placed=placed)


def _restamped_schema(metadata: ClusterMetadata, forced: Schema) -> Schema:
    epoch, now = following(metadata.epoch), metadata.schema
    return msgspec.structs.replace(
        forced,
        keyspaces=_restamped_values(forced.keyspaces, now.keyspaces, epoch),
        tables=_restamped_values(forced.tables, now.tables, epoch),
        next_table=max(forced.next_table, now.next_table),
    )


def _restamped_values(
    forced: HashedMap[K, Stamped], now: HashedMap[K, Stamped], epoch: Epoch
) -> HashedMap[K, Stamped]:
    """What differs from now changes at this epoch; the rest changed when it did."""
    stamped = {}
    for key, value in forced.items():
        present = now.get(key)
        same = (
            present is not None and msgspec.structs.replace(value, epoch=present.epoch) == present
        )
        stamped[key] = now[key] if same else msgspec.structs.replace(value, epoch=epoch)
    return HashedMap(stamped)


def _restored(image: Image) -> ClusterMetadata | Rejected:
    """The image as metadata, if it could have come about by a log."""
    try:
        found = metadata_of(image)
        fault = next(violations(found), None)
    except (AssertionError, LookupError, ValueError) as error:
        return Rejected(Reason.INVALID_IMAGE, f"the image contradicts itself: {error!r}")
    if fault is not None:
        return Rejected(Reason.INVALID_IMAGE, f"{fault.rule}: {fault.detail}")
    return found


def _founded_on(image: Image) -> ClusterMetadata | Rejected:
    """The image before a founding entry that makes all of it.

    The epochs of the log that it comes from mean nothing in this one, and would come again.
    """
    if image.sequences or image.sessions or image.reconfiguration is not None:
        return Rejected(
            Reason.INVALID_IMAGE,
            "sequences or sessions of the image are in progress",
            "let them end before the image is taken",
        )
    found = _restored(image)
    if isinstance(found, Rejected):
        return found
    return msgspec.structs.replace(metadata_of(_stamped(image)), epoch=EMPTY)


def _stamped(image: Image) -> Image:
    """The image with the epoch of the founding entry wherever an epoch is."""
    first = following(EMPTY)
    replace = msgspec.structs.replace
    return replace(
        image,
        modified=ComponentEpochs(**dict.fromkeys(COMPONENTS, first)),
        keyspaces=tuple(replace(item, epoch=first) for item in image.keyspaces),
        tables=tuple(replace(item, created=first, epoch=first) for item in image.tables),
        placements=tuple(
            replace(
                item,
                reads=tuple(replace(group, epoch=first) for group in item.reads),
                writes=tuple(replace(group, epoch=first) for group in item.writes),
            )
            for item in image.placements
        ),
        extensions=tuple(replace(item, epoch=first) for item in image.extensions),
    )
