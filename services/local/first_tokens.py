"""The first nodes of a cluster take their tokens at once; nobody has rows to move yet."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from client.answers import Outcome, Rejected
from client.client import Client
from client.proposals import Proposal
from metadata.allocation import allocate
from metadata.directory import NodeId, NodeState
from metadata.tokens import Token
from services.local.failure import LocalServerError
from transformations.join import UnsafeJoin
from transformations.outcome import Reason

TOKENS_PER_NODE = 16
FACTOR = 3
"""The replication for which shares are made even; others fare well too."""

NO_ROWS = "The first nodes of the cluster: nobody owned a range before, so there are no rows."
HTTP = "http"


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the directory, as a CMS shows it."""

    id: NodeId
    datacenter: str
    rack: str
    state: NodeState
    addresses: dict[str, str]

    @property
    def url(self) -> str:
        return f"http://{self.addresses.get(HTTP, '')}"


class _Directory(msgspec.Struct, frozen=True):
    nodes: tuple[Seat, ...] = ()


class _Owned(msgspec.Struct, frozen=True):
    node: NodeId


class _Ring(msgspec.Struct, frozen=True):
    tokens: tuple[_Owned, ...] = ()


def first_joins(seats: Sequence[Seat]) -> list[UnsafeJoin]:
    """One after another, each choosing what suits those before it."""
    ring: dict[NodeId, tuple[Token, ...]] = {}
    rack_of = {seat.id: seat.rack for seat in seats}
    for seat in seats:
        ring[seat.id] = allocate(
            ring, rack_of, rack=seat.rack, factor=FACTOR, count=TOKENS_PER_NODE
        )
    return [UnsafeJoin(node=node, tokens=tokens) for node, tokens in ring.items()]


async def take_first_tokens(client: Client, urls: Collection[str], *, actor: str) -> list[str]:
    """Let the nodes at `urls` join if nobody has yet; the addresses of those that own nothing.

    All of them join or none does, so whoever comes after a crash finds a ring that is empty or
    whole.
    """
    waiting = await _registered(client, urls)
    ring = msgspec.convert(await client.component("ring"), _Ring)
    if not waiting or ring.tokens:
        return [seat.url for seat in waiting]
    joins = first_joins(waiting)
    outcome = await _commit(client, joins, actor)
    if isinstance(outcome, Rejected) and outcome.code == Reason.NEEDS_STEPS.value:
        accepting = [msgspec.structs.replace(join, accept_loss=NO_ROWS) for join in joins]
        outcome = await _commit(client, accepting, actor)
    if isinstance(outcome, Rejected):
        raise LocalServerError(f"The nodes cannot take their tokens: {outcome.detail}.")
    return []


async def _registered(client: Client, urls: Collection[str]) -> list[Seat]:
    directory = msgspec.convert(await client.component("directory"), _Directory)
    return [
        seat for seat in directory.nodes if seat.url in urls and seat.state is NodeState.REGISTERED
    ]


async def _commit(
    client: Client, joins: Sequence[UnsafeJoin], actor: str
) -> Sequence[Outcome] | Rejected:
    proposals = [Proposal(transformation=join, actor=actor) for join in joins]
    return await client.commit_batch(proposals, atomic=True)
