"""Tokens for a node that joins or moves, chosen by what a CMS shows of the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mode
from typing import Any

from metadata.allocation import allocate
from metadata.directory import NodeId

COUNT_DEFAULT = 16
COUNT_MAX = 1024
FACTOR_DEFAULT = 3
"""The replication for which shares are made even where there is no keyspace yet."""

View = Mapping[str, Any]


def chosen(metadata: View, node: int, wanted: int | None) -> list[str]:
    """Tokens for a node that joins or moves, so that every node holds its share.

    `metadata` has the components `directory`, `schema`, `ring` and `sequences` as a CMS shows
    them. What other sequences will bring counts as if it were there.
    """
    nodes = {item["id"]: item for item in metadata["directory"]["nodes"]}
    own = nodes[node]
    ring: dict[NodeId, list[Any]] = {}
    taken: list[Any] = []
    for owner, tokens in _held(metadata, node).items():
        same = owner in nodes and nodes[owner]["datacenter"] == own["datacenter"]
        if same:
            ring[NodeId(owner)] = tokens
        else:
            taken += tokens
    found = allocate(
        ring,
        {NodeId(number): item["rack"] for number, item in nodes.items()},
        rack=own["rack"],
        factor=_factor(metadata["schema"]["keyspaces"], own["datacenter"]),
        count=wanted or _usual([len(tokens) for tokens in ring.values()]),
        taken=taken,
    )
    return [str(token) for token in found]


def _held(metadata: View, leaving_out: int) -> dict[int, list[int]]:
    held: dict[int, list[int]] = {}
    for item in metadata["ring"]["tokens"]:
        held.setdefault(item["node"], []).append(int(item["token"]))
    for sequence in metadata["sequences"]["sequences"]:
        if sequence["kind"] in ("join", "move"):
            tokens = {*held.get(sequence["node"], ()), *map(int, sequence["tokens"])}
            held[sequence["node"]] = sorted(tokens)
    held.pop(leaving_out, None)
    return held


def _usual(counts: Sequence[int]) -> int:
    return mode(counts) if counts else COUNT_DEFAULT


def _factor(keyspaces: Sequence[View], datacenter: str) -> int:
    """The largest in use here: the more copies, the more ranges a token takes."""
    found = [
        item["replication"].get("factor") or item["replication"].get("factors", {}).get(datacenter)
        for item in keyspaces
    ]
    return max((factor for factor in found if factor), default=FACTOR_DEFAULT)
