"""Who reads and who writes a key."""

from __future__ import annotations

from encoding.key_texts import KeyTextError, key_token
from metadata.cluster import ClusterMetadata
from metadata.placements import Group, Placement, RingPlacement
from metadata.tokens import Token
from services.cms.bodies import OwnersAnswer, OwnersAt
from services.http.problems import Code, ProblemError


def owners(metadata: ClusterMetadata, query: OwnersAt, raw_key: str | None) -> OwnersAnswer:
    """`raw_key` is the key before percent-decoding: only there `,` and `%2C` differ."""
    keyspace = metadata.schema.find(query.keyspace)
    if keyspace is None:
        raise ProblemError(
            Code.NOT_FOUND, f"There is no keyspace {query.keyspace}.", field="keyspace"
        )
    if (query.key is None) == (query.token is None):
        raise ProblemError(Code.MALFORMED, "Give either a key or a token.", field="key")
    if query.token is not None:
        token = Token(query.token)
    else:
        token = _token(metadata, query, raw_key or "")
    placement: Placement = metadata.placements.find(keyspace.replication.key) or RingPlacement()
    readers, writers = placement.readers(token), placement.writers(token)
    return OwnersAnswer(
        epoch=metadata.epoch,
        keyspace=keyspace.name,
        token=str(token),
        readers=_primary_first(metadata, token, readers),
        writers=_primary_first(metadata, token, writers),
        readers_epoch=None if readers is None else readers.epoch,
        writers_epoch=None if writers is None else writers.epoch,
    )


def _primary_first(metadata: ClusterMetadata, token: Token, group: Group | None) -> list[int]:
    if group is None:
        return []
    primary = metadata.ring.primary_of(token) if metadata.ring.tokens else None
    return sorted(group.owners, key=lambda node: (node != primary, node))


def _token(metadata: ClusterMetadata, query: OwnersAt, raw_key: str) -> Token:
    try:
        return key_token(metadata, query.keyspace, query.table, raw_key)
    except KeyTextError as error:
        code = Code.NOT_FOUND if error.unknown else Code.MALFORMED
        raise ProblemError(code, str(error), field=error.field) from error
