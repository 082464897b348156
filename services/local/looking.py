"""The nodes of this machine as the cluster sees them: who is in, and what is under way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from client.client import Client
from metadata.allocation import allocate
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.locks import SequenceId
from metadata.plans import Step
from metadata.sequences import SequenceKind
from metadata.tokens import Token
from services.local.first_tokens import FACTOR, TOKENS_PER_NODE, Seat

TokenText = Annotated[str, Meta(pattern="^-?[0-9]+$")]


class UnderWay(msgspec.Struct, frozen=True, kw_only=True):
    """A sequence that has steps left."""

    id: SequenceId
    kind: SequenceKind
    node: NodeId
    due: Step
    replaced: NodeId | None = None
    tokens: tuple[TokenText, ...] = ()


class _Directory(msgspec.Struct, frozen=True):
    epoch: Epoch
    nodes: tuple[Seat, ...] = ()


class _Owned(msgspec.Struct, frozen=True):
    token: TokenText
    node: NodeId


class _Ring(msgspec.Struct, frozen=True):
    tokens: tuple[_Owned, ...] = ()


class _Sequences(msgspec.Struct, frozen=True):
    sequences: tuple[UnderWay, ...] = ()


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """One epoch. `seats` are by where each node answers."""

    seats: Mapping[str, Seat]
    sequences: tuple[UnderWay, ...] = ()

    def sequence_of(self, node: NodeId) -> UnderWay | None:
        about = (item for item in self.sequences if node in {item.node, item.replaced})
        return next(about, None)


async def look(client: Client) -> Look:
    directory = msgspec.convert(await client.component("directory"), _Directory)
    found = msgspec.convert(await client.component("sequences", at=directory.epoch), _Sequences)
    return Look(seats={seat.url: seat for seat in directory.nodes}, sequences=found.sequences)


async def tokens_for(client: Client, seat: Seat, found: Look) -> tuple[Token, ...]:
    """Where a node that joins now gets its share, clear of those who join at the same time."""
    ring = msgspec.convert(await client.component("ring"), _Ring)
    seats = {other.id: other for other in found.seats.values()}
    near: dict[NodeId, list[Token]] = {}
    taken = [Token(int(token)) for item in found.sequences for token in item.tokens]
    for owned in ring.tokens:
        owner, token = seats.get(owned.node), Token(int(owned.token))
        if owner is not None and owner.datacenter == seat.datacenter:
            near.setdefault(owned.node, []).append(token)
        else:
            taken.append(token)
    racks = {node: seats[node].rack for node in near}
    return allocate(near, racks, rack=seat.rack, factor=FACTOR, count=TOKENS_PER_NODE, taken=taken)
