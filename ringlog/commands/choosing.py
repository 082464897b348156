"""The tokens of a node: those that were given, or a good choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mode
from typing import Any

COUNT_DEFAULT = 16
COUNT_MAX = 1024
FACTOR_DEFAULT = 3
"""The replication for which shares are made even where there is no keyspace yet."""
LEAST, MOST = -(2**63), 2**63 - 1

View = Mapping[str, Any]


class TokensError(ValueError):
    """The text is a sentence."""


def parsed(text: str | None) -> int | list[str] | None:
    """How many tokens, or which. One alone is written with a comma behind it: `7,`."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    try:
        numbers = [int(part) for part in parts if part]
    except ValueError:
        raise TokensError(f"{text!r} is neither a number of tokens nor a list of them.") from None
    if len(parts) == 1 and numbers and numbers[0] >= 0:
        if not 1 <= numbers[0] <= COUNT_MAX:
            raise TokensError(
                f"A node has 1 to {COUNT_MAX} tokens, not {text}; a token alone is written {text},"
            )
        return numbers[0]
    if not numbers or not all(LEAST <= number <= MOST for number in numbers):
        raise TokensError("A token is a whole number of 64 bits.")
    return [str(number) for number in numbers]


def chosen(metadata: View, node: int, wanted: int | None) -> list[str]:
    """Tokens for a node that joins or moves, so that every node holds its share.

    `metadata` are all components. What other sequences will bring counts as if it were there.
    """
    from metadata.allocation import allocate
    from metadata.directory import NodeId

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
