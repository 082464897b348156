"""Tokens, and the ranges between them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, NewType

import msgspec
from msgspec import Meta

Token = NewType("Token", int)

MINIMUM = Token(-(2**63))
"""Both ends of the ring: the left edge of its first range and the right edge of its last."""

MAXIMUM = Token(2**63 - 1)

BoundedToken = Annotated[Token, Meta(ge=MINIMUM, le=MAXIMUM)]

END = 2**63
"""Where `MINIMUM` stands as a right edge: behind every other token."""


def position(token: Token) -> int:
    """Where a token stands when it closes a range, or when a key hashes to it.

    The minimum token belongs to the range that ends there, the last one of the ring.
    """
    return END if token == MINIMUM else token


def token_at(place: int) -> Token:
    """The inverse of `position`."""
    return MINIMUM if place == END else Token(place)


class Range(msgspec.Struct, frozen=True, gc=False, order=True):
    """The tokens in (left, right]; a right edge of `MINIMUM` is the end of the ring."""

    left: BoundedToken
    right: BoundedToken

    def __contains__(self, token: Token) -> bool:
        return self.left < position(token) <= position(self.right)

    def intersects(self, other: Range) -> bool:
        return self.left < position(other.right) and other.left < position(self.right)

    @property
    def touches_minimum(self) -> bool:
        return MINIMUM in (self.left, self.right)

    @property
    def width(self) -> int:
        return position(self.right) - self.left

    def __str__(self) -> str:
        return f"({self.left}, {self.right}]"


FULL = Range(MINIMUM, MINIMUM)


def ranges_between(places: Sequence[int]) -> Iterator[Range]:
    """The ranges that end at the given places, which ascend and end with `END`."""
    left = MINIMUM
    for place in places:
        yield Range(left, token_at(place))
        left = Token(place)


def edges(tokens: Iterable[Token]) -> list[int]:
    """The places where the ranges of a ring with these tokens end; none for an empty ring."""
    places = {position(token) for token in tokens}
    return sorted(places | {END}) if places else []


def coalesce(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The same tokens in as few ranges as possible, in order."""
    merged: list[Range] = []
    for item in sorted(ranges):
        if merged and item.left <= position(merged[-1].right):
            reach = max(position(merged[-1].right), position(item.right))
            merged[-1] = Range(merged[-1].left, token_at(reach))
        else:
            merged.append(item)
    return tuple(merged)


def intersections(ours: Sequence[Range], theirs: Sequence[Range]) -> tuple[Range, ...]:
    """What two coalesced sets of ranges have in common."""
    common = []
    rights = [position(item.right) for item in theirs]
    for item in ours:
        for other in theirs[bisect_left(rights, item.left + 1) :]:
            if not item.intersects(other):
                break
            right = min(position(item.right), position(other.right))
            common.append(Range(max(item.left, other.left), token_at(right)))
    return tuple(common)
