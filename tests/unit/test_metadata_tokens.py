"""Ranges between tokens, compared with plain sets on a tiny ring."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.limits import Address, ExtensionName, Label, Name, PlaceName, Url, Uuid
from metadata.tokens import (
    END,
    FULL,
    MAXIMUM,
    MINIMUM,
    Range,
    Token,
    coalesce,
    edges,
    intersections,
    position,
    ranges_between,
    token_at,
)

# A ring of twelve places: both ends of the real one, and what lies between pretends to be near.
SMALL = [MINIMUM, *range(10), MAXIMUM]
TOKENS = [*SMALL[1:], MINIMUM]
"""In the order in which ranges come by them: the minimum token is the last."""


@st.composite
def spans(draw):
    left, right = sorted(draw(st.lists(st.integers(0, 12), min_size=2, max_size=2, unique=True)))
    return Range(Token(SMALL[left]), Token([*SMALL[1:], MINIMUM][right - 1]))


def members(ranges):
    return {token for token in TOKENS for span in ranges if token in span}


@given(st.lists(spans(), max_size=6))
def test_coalesced_ranges_have_the_same_tokens_in_fewest_ranges(ranges):
    found = coalesce(ranges)

    assert members(found) == members(ranges)
    assert list(found) == sorted(found)
    assert all(position(left.right) < right.left for left, right in pairwise(found))


@given(st.lists(spans(), max_size=6), st.lists(spans(), max_size=6))
def test_intersections_have_the_common_tokens(ours, theirs):
    found = intersections(coalesce(ours), coalesce(theirs))

    assert members(found) == members(ours) & members(theirs)
    assert coalesce(found) == coalesce(intersections(coalesce(theirs), coalesce(ours)))


@given(spans(), spans())
def test_ranges_intersect_where_they_share_a_token(ours, theirs):
    assert ours.intersects(theirs) == bool(members([ours]) & members([theirs]))
    assert ours.intersects(theirs) == theirs.intersects(ours)


@given(st.lists(st.sampled_from(TOKENS)))
def test_the_ranges_of_a_ring_cover_it_once(tokens):
    found = list(ranges_between(edges(tokens)))

    assert members(found) == (set(TOKENS) if tokens else set())
    assert sum(len(members([span])) for span in found) == len(members(found))
    assert {span.right for span in found} == ({*tokens, MINIMUM} if tokens else set())


@pytest.mark.parametrize("token", [MINIMUM, MINIMUM + 1, -1, 0, MAXIMUM])
def test_a_place_leads_back_to_its_token(token):
    assert token_at(position(Token(token))) == token
    assert (position(Token(token)) == END) == (token == MINIMUM)


def test_a_range_has_its_right_end_and_not_its_left_one():
    span = Range(Token(1), Token(3))

    assert [token for token in range(5) if Token(token) in span] == [2, 3]
    assert str(span) == "(1, 3]"
    assert span.width == 2


def test_the_minimum_token_belongs_to_the_last_range():
    first, last = Range(MINIMUM, Token(0)), Range(Token(0), MINIMUM)

    assert MINIMUM not in first
    assert MINIMUM in last
    assert first.touches_minimum
    assert last.touches_minimum
    assert not Range(Token(0), Token(1)).touches_minimum
    assert first.width + last.width == FULL.width == 2**64


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (Name, ["a", "_", "A1_" * 16], ["", "1a", "a-b", "a" * 49, "a\n", "ä"]),
        (ExtensionName, ["a/b:c.d-e"], ["", "-a", "a b", "a\n"]),
        (PlaceName, ["dc-1.a:b", "1"], ["", "a,b", "a=b", "-a", "a\n"]),
        (Label, ["a b", "ä"], ["", "a\nb", "a\n", "x" * 129]),
        (Address, ["host:1", "[::1]:65535"], ["host", "host:", ":1", "a b:1", "host:1\n"]),
        (Url, ["http://a:1", "https://b"], ["ftp://a", "http://", "http://a b", "http://a\n"]),
        (Uuid, ["00000000-0000-4000-8000-00000000000f"], ["0" * 36, "", "A" * 36]),
    ],
)
def test_names_are_what_they_say(kind, good, bad):
    for text in good:
        assert msgspec.convert(text, kind) == text
    for text in bad:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(text, kind)
