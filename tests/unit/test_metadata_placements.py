"""Groups of owners, range by range."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.placements import Group, Placements, ReplicaGroups, RingPlacement, build, settled
from metadata.schema import PlacementKey
from metadata.tokens import END, MINIMUM, Range, Token, position, token_at

KEY = PlacementKey("simple:1")


def groups(content):
    """Groups from `{place: (owner, epoch)}`."""
    return build(
        (place, Group((NodeId(owner),), Epoch(epoch))) for place, (owner, epoch) in content.items()
    )


def shown(found):
    return {
        place: (group.owners[0], group.epoch)
        for place, group in zip(found.places, found.groups, strict=True)
    }


RING = {100: (1, 5), 200: (2, 6), END: (3, 7)}


@pytest.mark.parametrize(
    ("token", "owner"),
    [(MINIMUM + 1, 1), (100, 1), (101, 2), (200, 2), (201, 3), (MINIMUM, 3)],
)
def test_finds_the_group_of_a_token(token, owner):
    placement = RingPlacement(groups(RING), groups(RING))

    reader, writer = placement.readers(Token(token)), placement.writers(Token(token))

    assert reader is not None
    assert reader.owners == (owner,)
    assert writer == reader


def test_nobody_owns_a_token_of_an_empty_ring():
    empty = RingPlacement()

    assert empty.readers(Token(0)) is None
    assert list(empty.read_groups()) == list(empty.write_groups()) == []
    assert list(ReplicaGroups().overlapping(Range(Token(1), Token(2)))) == []


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (100, 200, [200]),
        (50, 100, [100]),
        (50, 101, [100, 200]),
        (MINIMUM, MINIMUM, [100, 200, END]),
        (199, 200, [200]),
        (200, MINIMUM, [END]),
    ],
)
def test_finds_the_groups_that_a_range_overlaps_whole(left, right, expected):
    found = list(groups(RING).overlapping(Range(Token(left), Token(right))))

    assert [position(span.right) for span, _ in found] == expected
    assert [span.left for span, _ in found] == [
        {100: MINIMUM, 200: 100, END: 200}[place] for place in expected
    ]


def test_a_split_changes_no_owner_and_no_epoch():
    found = groups(RING).split([Token(150), Token(50), Token(MINIMUM), Token(200)])

    assert shown(found) == {50: (1, 5), 100: (1, 5), 150: (2, 6), 200: (2, 6), END: (3, 7)}


def test_a_merge_takes_the_later_epoch():
    alike = {50: (1, 5), 100: (1, 9), 150: (2, 8), 200: (2, 6), END: (2, 7)}

    found = groups(alike).merge(map(Token, (50, 150, 200, MINIMUM, 77)))

    assert shown(found) == {100: (1, 9), END: (2, 8)}


def test_only_what_has_the_same_owners_merges():
    with pytest.raises(AssertionError):
        groups(RING).merge([Token(100)])


def test_a_range_that_keeps_its_owners_keeps_its_epoch():
    spans = [
        (Range(MINIMUM, Token(100)), (NodeId(1),)),
        (Range(Token(100), Token(200)), (NodeId(9),)),
    ]

    found = groups(RING).with_owners(spans, Epoch(50))

    assert shown(found) == RING | {200: (9, 50)}


def test_what_does_not_change_is_the_very_same():
    ring = groups(RING)

    assert ring.split([Token(100)]) is ring
    assert ring.merge([]) is ring
    assert ring.with_owners([(Range(MINIMUM, Token(100)), (NodeId(1),))], Epoch(50)) is ring


PLACES = st.sampled_from([10, 20, 30, 40])


@settings(max_examples=100)
@given(
    st.dictionaries(PLACES, st.tuples(st.integers(1, 3), st.integers(1, 9))),
    st.lists(PLACES),
    st.dictionaries(PLACES, st.integers(1, 3)),
)
def test_the_digest_does_not_depend_on_the_way_there(content, cuts, owners):
    """Split, change owners, split again: the same as building what came out."""
    changes = [(Range(Token(0), token_at(place)), (NodeId(x),)) for place, x in owners.items()]

    split = groups(content | {END: (1, 1)}).split([*map(Token, cuts), *map(Token, owners)])
    found = split.with_owners(changes, Epoch(10))

    assert found.digest == groups(shown(found)).digest
    assert found.places == tuple(sorted({*content, *cuts, *owners, END}))
    assert found == groups(shown(found))


def test_knows_who_is_involved():
    reading = RingPlacement(groups(RING), groups(RING | {100: (4, 8)}))

    assert [node for node in range(1, 6) if reading.involves(NodeId(node))] == [1, 2, 3, 4]


def test_a_settled_placement_reads_what_it_writes():
    placement = settled([(100, (NodeId(1),)), (END, (NodeId(2),))], Epoch(3))

    assert placement.reads is placement.writes
    assert shown(placement.reads) == {100: (1, 3), END: (2, 3)}


def test_placements_are_listed_by_key():
    one, two = settled([(END, (NodeId(1),))], Epoch(1)), settled([(END, (NodeId(2),))], Epoch(1))
    other = PlacementKey("simple:0")

    placements = Placements(placed={KEY: one}).with_placements({other: two})

    assert placements.items() == [(other, two), (KEY, one)]
    assert placements.find(other) is two
    assert placements.without(other).placed == {KEY: one}
    assert placements.without(other).find(other) is None
    assert placements.digest != placements.without(other).digest
