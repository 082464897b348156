"""The metadata at any epoch of a history, and what differs between two."""

from __future__ import annotations

from typing import Any

from audit.history import History, check_epoch, metadata_at, metadata_from
from encoding.differences import Difference, differences
from encoding.key_texts import key_token
from encoding.views import component_view, metadata_view
from metadata.cluster import ClusterMetadata
from metadata.epoch import Epoch
from metadata.placements import Group, Placement, RingPlacement
from metadata.tokens import MAXIMUM, MINIMUM, Token

View = dict[str, Any]


class UnknownSubjectError(LookupError):
    """What was asked for is not in the metadata. The message is one sentence for people."""


def shown(history: History, component: str | None, at: Epoch) -> View:
    """A component, or all of them, as the API shows it."""
    metadata = metadata_at(history, at).metadata
    return metadata_view(metadata) if component is None else component_view(metadata, component)


def compared(history: History, start: Epoch, end: Epoch) -> dict[str, Difference]:
    """What changed from one epoch to another, by component and meaning; either may be later."""
    check_epoch(history, start)
    check_epoch(history, end)
    first = metadata_at(history, min(start, end))
    second = metadata_from(history, first, max(start, end))
    before, after = (first, second) if start <= end else (second, first)
    return differences(before.metadata, after.metadata)


def owners(metadata: ClusterMetadata, keyspace: str, token: Token) -> View:
    """Readers and writers of a token, the primary first, and since when they are the owners."""
    placement = placement_of(metadata, keyspace)
    readers, writers = placement.readers(token), placement.writers(token)
    return {
        "epoch": metadata.epoch,
        "keyspace": keyspace,
        "token": str(token),
        "readers": _primary_first(metadata, token, readers),
        "writers": _primary_first(metadata, token, writers),
        "readers_epoch": None if readers is None else readers.epoch,
        "writers_epoch": None if writers is None else writers.epoch,
    }


def placement_of(metadata: ClusterMetadata, keyspace: str) -> Placement:
    found = metadata.schema.find(keyspace)
    if found is None:
        raise UnknownSubjectError(f"There is no keyspace {keyspace} at epoch {metadata.epoch}.")
    return metadata.placements.find(found.replication.key) or RingPlacement()


def token_named(
    metadata: ClusterMetadata,
    keyspace: str,
    *,
    key: str | None = None,
    token: int | None = None,
    table: str | None = None,
) -> Token:
    """The token itself, or that of a key as people write it."""
    placement_of(metadata, keyspace)
    if token is not None:
        if not MINIMUM <= token <= MAXIMUM:
            raise UnknownSubjectError(f"{token} is no token: tokens have 64 bits.")
        return Token(token)
    return key_token(metadata, keyspace, table, key or "")


def _primary_first(metadata: ClusterMetadata, token: Token, group: Group | None) -> list[int]:
    if group is None:
        return []
    primary = metadata.ring.primary_of(token) if metadata.ring.tokens else None
    return sorted(group.owners, key=lambda node: (node != primary, node))
