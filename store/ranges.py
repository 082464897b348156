"""Ranges of the ring as they lie in a file or a table that is sorted by token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from metadata.tokens import (
    END,
    MAXIMUM,
    MINIMUM,
    Range,
    Token,
    coalesce,
    intersections,
    position,
)


class Span(msgspec.Struct, frozen=True, gc=False, order=True):
    """The tokens from `first` to `last`, both included, as plain numbers."""

    first: Token
    last: Token

    def intersects(self, other: Span) -> bool:
        return self.first <= other.last and other.first <= self.last


WHOLE = Span(MINIMUM, MAXIMUM)


def spans_of(ranges: Iterable[Range]) -> tuple[Span, ...]:
    """In order and disjoint. The minimum token belongs to the ring's last range but sorts first."""
    spans: list[Span] = []
    for item in coalesced(ranges):
        if item.right != MINIMUM:
            spans.append(Span(Token(item.left + 1), item.right))
            continue
        if item.left == MINIMUM:
            return (WHOLE,)
        spans.insert(0, Span(MINIMUM, MINIMUM))
        if item.left < MAXIMUM:
            spans.append(Span(Token(item.left + 1), MAXIMUM))
    return tuple(spans)


def common(ours: Iterable[Span], theirs: Sequence[Span]) -> tuple[Span, ...]:
    """What two ordered, disjoint lists have in common, in order."""
    return tuple(
        Span(max(mine.first, other.first), min(mine.last, other.last))
        for mine in ours
        for other in theirs
        if mine.intersects(other)
    )


def coalesced(ranges: Iterable[Range]) -> tuple[Range, ...]:
    return coalesce(item for item in ranges if item.width > 0)


def overlap(ours: Iterable[Range], theirs: Iterable[Range]) -> tuple[Range, ...]:
    return intersections(coalesced(ours), coalesced(theirs))


def without(ours: Iterable[Range], theirs: Iterable[Range]) -> tuple[Range, ...]:
    """The tokens of ours that are not among theirs."""
    kept: list[Range] = []
    place: int = MINIMUM
    for item in coalesced(theirs):
        if place < item.left:
            kept.append(Range(Token(place), item.left))
        place = position(item.right)
    if place < END:
        kept.append(Range(Token(place), MINIMUM))
    return intersections(coalesced(ours), kept)
