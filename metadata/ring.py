"""Which node owns which tokens: the token map."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property

import msgspec

from metadata.digest import digest_of
from metadata.directory import NodeId
from metadata.epoch import EMPTY, Epoch
from metadata.hashed_map import HashedMap
from metadata.tokens import END, MINIMUM, Token, position


class Ring(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The tokens of each node that finished joining.

    `tokens` ascend and `owners` runs beside them; both follow from `by_node`.
    """

    by_node: HashedMap[NodeId, tuple[Token, ...]] = HashedMap()
    tokens: tuple[Token, ...] = ()
    owners: tuple[NodeId, ...] = ()
    epoch: Epoch = EMPTY

    @cached_property
    def digest(self) -> bytes:
        return digest_of(self.by_node.digest, self.epoch)

    def __len__(self) -> int:
        return len(self.tokens)

    def owner_of(self, token: Token) -> NodeId | None:
        """The node that has this very token."""
        index = bisect_left(self.tokens, token)
        found = index < len(self.tokens) and self.tokens[index] == token
        return self.owners[index] if found else None

    def primary_of(self, right: Token) -> NodeId:
        """The node whose token is the first at or after the end of a range."""
        index = bisect_left(self.tokens, position(right))
        return self.owners[index % len(self.owners)]

    def tokens_of(self, node: NodeId) -> tuple[Token, ...]:
        return self.by_node.get(node, ()) or ()

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Where the ranges of this ring end; none if it is empty."""
        if not self.tokens:
            return ()
        inner = self.tokens[1:] if self.tokens[0] == MINIMUM else self.tokens
        return (*inner, END)

    def with_tokens(self, node: NodeId, tokens: Sequence[Token]) -> Ring:
        """The ring in which the node owns just these."""
        ring = self.without(node)
        placed, owners = list(ring.tokens), list(ring.owners)
        for token in tokens:
            index = bisect_left(placed, token)
            placed.insert(index, token)
            owners.insert(index, node)
        by_node = ring.by_node.with_item(node, tuple(sorted(tokens)))
        return Ring(by_node=by_node, tokens=tuple(placed), owners=tuple(owners), epoch=self.epoch)

    def without(self, node: NodeId) -> Ring:
        if node not in self.by_node:
            return self
        placed, owners = list(self.tokens), list(self.owners)
        for token in self.by_node[node]:
            index = bisect_left(placed, token)
            del placed[index], owners[index]
        return Ring(
            by_node=self.by_node.without([node]),
            tokens=tuple(placed),
            owners=tuple(owners),
            epoch=self.epoch,
        )
