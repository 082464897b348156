"""Whether as few nodes as are wanted can hold what the keyspaces want."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from client.client import Client
from metadata.directory import NodeState
from metadata.schema import Network, Replication, Simple
from services.local.first_tokens import Seat
from services.local.looking import Look


class Wanting(msgspec.Struct, frozen=True):
    """A keyspace, as a CMS shows it."""

    name: str
    replication: Replication


class _Schema(msgspec.Struct, frozen=True):
    keyspaces: tuple[Wanting, ...] = ()


async def keyspaces(client: Client) -> tuple[Wanting, ...]:
    return msgspec.convert(await client.component("schema"), _Schema).keyspaces


def too_few(
    found: Look, ours: Mapping[str, str], wanted: int, keyspaces: Iterable[Wanting]
) -> str | None:
    """Why fewer nodes will not do, known before the first of them leaves.

    The log has the last word on each leave; this spares those who would leave in vain.
    """
    joined = [seat for seat in found.seats.values() if seat.state is NodeState.JOINED]
    owning = [seat for seat in joined if seat.url in ours.values()]
    leaving = owning[wanted:]
    if not leaving:
        return None
    for keyspace in keyspaces:
        factor, present = _needed(keyspace.replication, joined, leaving[0].datacenter)
        left = len(present) - len(leaving)
        if left < factor:
            return (
                f"Keyspace {keyspace.name} wants {factor} replicas and {left} nodes would be left: "
                "scale to more nodes, or lower the replication first."
            )
    return None


def _needed(
    replication: Replication, joined: Collection[Seat], datacenter: str
) -> tuple[int, list[Seat]]:
    match replication:
        case Simple(factor=factor):
            return factor, list(joined)
        case Network(factors=factors):
            near = [seat for seat in joined if seat.datacenter == datacenter]
            return factors.get(datacenter, 0), near
