"""A persistent map with a digest, compared with a dictionary."""

from __future__ import annotations

import pickle
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata import digest
from metadata.hashed_map import HashedMap

KEYS = st.integers(-5, 40) | st.sampled_from([2**62, -(2**62)])
ITEMS = st.dictionaries(KEYS, st.integers(0, 9))
CHANGES = st.lists(
    st.tuples(st.just("put"), ITEMS)
    | st.tuples(st.just("one"), st.tuples(KEYS, st.integers(0, 9)))
    | st.tuples(st.just("drop"), st.lists(KEYS, max_size=8)),
    max_size=12,
)


def apply(changes):
    """The map and the dictionary after the same changes."""
    found: HashedMap[int, int] = HashedMap()
    expected: dict[int, int] = {}
    for kind, change in changes:
        if kind == "put":
            found, expected = found.with_items(change), expected | change
        elif kind == "one":
            key, value = change
            found, expected = found.with_item(key, value), expected | {key: value}
        else:
            found = found.without(change)
            expected = {key: value for key, value in expected.items() if key not in change}
    return found, expected


@settings(max_examples=80)
@given(CHANGES)
def test_behaves_like_a_dictionary(changes):
    found, expected = apply(changes)

    assert dict(found.items()) == expected
    assert list(found) == sorted(expected)
    assert found.values() == [expected[key] for key in sorted(expected)]
    assert len(found) == len(expected)
    assert all(key in found and found[key] == expected[key] for key in expected)
    assert found.get(99) is None
    assert found.get(99, 5) == 5
    assert 99 not in found


@settings(max_examples=80)
@given(CHANGES)
def test_the_digest_does_not_depend_on_the_way_there(changes):
    found, expected = apply(changes)

    scratch = HashedMap(expected)
    backwards: HashedMap[int, int] = HashedMap()
    for key in sorted(expected, reverse=True):
        backwards = backwards.with_item(key, expected[key])

    assert found.digest == scratch.digest == backwards.digest
    assert found == scratch
    assert hash(found) == hash(scratch)


@settings(max_examples=60)
@given(ITEMS, ITEMS)
def test_the_digest_tells_maps_apart(ours, theirs):
    assert (HashedMap(ours).digest == HashedMap(theirs).digest) == (ours == theirs)
    assert (HashedMap(ours) == HashedMap(theirs)) == (ours == theirs)


@settings(max_examples=40)
@given(ITEMS, KEYS, st.integers(0, 9))
def test_a_copy_leaves_the_original_alone(items, key, value):
    original = HashedMap(items)
    before = original.digest

    original.with_item(key, value)
    original.with_items({key: value})
    original.without([key])

    assert dict(original.items()) == items
    assert original.digest == before


def test_an_empty_map_is_nothing():
    assert HashedMap().digest == digest.NOTHING
    assert HashedMap({1: 2}).without([1]).digest == digest.NOTHING
    assert HashedMap({1: 2}).without([5]) == HashedMap({1: 2})
    assert HashedMap({1: 2}) != {1: 2}


def test_shows_its_content_in_order():
    assert repr(HashedMap({2: "b", 1: "a"})) == "HashedMap({1: 'a', 2: 'b'})"


def test_missing_keys_are_errors():
    with pytest.raises(KeyError):
        HashedMap({2: 3})[1]


def test_can_be_pickled():
    original = HashedMap({key: str(key) for key in range(50)})

    again = pickle.loads(pickle.dumps(original))

    assert again == original
    assert again.without(range(25)) == original.without(range(25))


PATHS = st.sampled_from(
    # Paths that share their first bytes make deep trees, which hashes of small keys never do.
    [bytes([a, b, c]) + bytes(29) for a in (0, 1, 17) for b in (0, 1, 16) for c in (0, 1)]
)
LEAVES = st.dictionaries(PATHS, st.binary(min_size=1, max_size=2))


def built(content):
    return digest.updated(
        None, [(path, digest.Leaf(path, sha256(value).digest())) for path, value in content.items()]
    )


@settings(max_examples=150)
@given(LEAVES, LEAVES, st.sets(PATHS))
def test_a_deep_tree_has_one_shape_for_one_content(before, put, drop):
    """Also where leaves go and branches fold up to the one that is left."""
    kept = {path: value for path, value in put.items() if path not in drop}
    added = [(path, digest.Leaf(path, sha256(value).digest())) for path, value in kept.items()]

    tree = digest.updated(built(before), [*added, *((path, None) for path in drop)])

    expected = {path: x for path, x in (before | kept).items() if path not in drop}
    assert tree == built(expected)
    assert digest.root(tree) == digest.root(built(expected))


def test_no_changes_leave_the_very_tree():
    tree = built({bytes(32): b"x"})

    assert digest.updated(tree, []) is tree
    assert digest.root(None) == digest.NOTHING


def test_leaves_and_branches_are_never_mistaken():
    """A value that spells out a branch does not have its digest."""
    left, right = digest.leaf(1, "a"), digest.leaf(2, "b")
    branch = digest.updated(None, [(left.path, left), (right.path, right)])

    forged = digest.leaf(1, left.digest + right.digest)

    assert isinstance(branch, digest.Branch)
    assert digest.root(branch) not in {left.digest, right.digest, forged.digest}


def test_one_byte_string_per_value():
    assert digest.canonical({"b": 1, "a": 2}) == digest.canonical({"a": 2, "b": 1})
    assert digest.canonical([1, 2]) != digest.canonical([2, 1])
    assert digest.digest_of("ab", "c") != digest.digest_of("a", "bc")
