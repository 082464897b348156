"""Roots and proofs are those of RFC 6962, as Go's own transparency-log code computes them."""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.merkle import (
    EMPTY_ROOT,
    consistency_holds,
    inclusion_holds,
    leaf_hash,
    prove_consistency,
    prove_inclusion,
    root_at,
    root_of,
)
from audit.tiles import BUNDLED, Place, TileTree, place_of, subtree_root, tile_bytes, tree_from

VECTORS = json.loads((Path(__file__).parents[1] / "vectors/tlog/vectors.json").read_text())
TREES = {tree["size"]: tree for tree in VECTORS["trees"]}
LARGEST = max(TREES)

# RFC 6962's reference implementation: the eight leaves of its tests, and the roots of 1 to 8.
CT_LEAVES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
CT_ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def leaf(index):
    return sha256(str(index).encode()).digest()


@cache
def grown(size):
    """A tree of this size, and every tile it ever had."""
    tree = TileTree()
    files: dict[Place, bytes] = {}
    for index in range(size):
        files |= {tile.place: tile.data for tile in tree.append(leaf(index))}
    files |= {tile.place: tile.data for tile in tree.partial()}
    return tree, files


def hashes_of(size):
    _, files = grown(size)
    return lambda level, index: subtree_root(level, index, files.__getitem__, size)


def test_roots_are_those_of_the_reference_implementation():
    assert sha256(b"").digest() == EMPTY_ROOT == root_of([])
    hashed = [leaf_hash(item) for item in CT_LEAVES]
    assert [root_of(hashed[:size]).hex() for size in range(1, 9)] == CT_ROOTS


@pytest.mark.parametrize("size", TREES)
def test_roots_and_proofs_are_those_of_go(size):
    tree, hashes = TREES[size], hashes_of(size)
    root = bytes.fromhex(tree["root"])

    assert grown(size)[0].root() == root == root_at(size, hashes)
    for index, proof in tree["inclusion"].items():
        made = prove_inclusion(int(index), size, hashes)
        assert [item.hex() for item in made] == proof
        assert inclusion_holds(leaf_hash(leaf(int(index))), int(index), size, root, made)
    for old, proof in tree["consistency"].items():
        made = prove_consistency(int(old), size, hashes)
        assert [item.hex() for item in made] == proof
        assert consistency_holds(int(old), root_at(int(old), hashes), size, root, made)


def test_a_proof_that_stops_below_the_root_does_not_hold():
    """The tree of 256 is a node of that of 257, and a proof for the one is none for the other."""
    root = grown(256)[0].root()
    proof = prove_inclusion(5, 256, hashes_of(256))

    assert inclusion_holds(leaf_hash(leaf(5)), 5, 256, root, proof)
    assert not inclusion_holds(leaf_hash(leaf(5)), 5, 257, root, proof)
    assert not inclusion_holds(leaf_hash(leaf(5)), 5, 128, root, proof)


sizes = st.sampled_from([5, 13, 257, 600])


@settings(max_examples=60)
@given(sizes, st.data())
def test_a_proof_holds_for_nothing_else(size, data):
    """Another leaf, place, size, root or a changed, missing or added step: no."""
    hashes, root = hashes_of(size), grown(size)[0].root()
    index = data.draw(st.integers(0, size - 1))
    proof = prove_inclusion(index, size, hashes)
    hashed = leaf_hash(leaf(index))
    assert inclusion_holds(hashed, index, size, root, proof)

    assert not inclusion_holds(leaf_hash(leaf(index + 1)), index, size, root, proof)
    assert not inclusion_holds(hashed, (index + 1) % size, size, root, proof)
    assert not inclusion_holds(hashed, index, size, EMPTY_ROOT, proof)
    assert not inclusion_holds(hashed, index, size, root, [*proof, root])
    assert not inclusion_holds(hashed, index, size, root, proof[:-1])
    step = data.draw(st.integers(0, len(proof) - 1))
    assert not inclusion_holds(hashed, index, size, root, [*proof[:step], root, *proof[step + 1 :]])
    assert not inclusion_holds(hashed, size, size, root, proof)


@settings(max_examples=60)
@given(sizes, st.data())
def test_only_a_beginning_is_consistent(size, data):
    hashes, root = hashes_of(size), grown(size)[0].root()
    old = data.draw(st.integers(1, size - 1))
    proof = prove_consistency(old, size, hashes)
    old_root = root_at(old, hashes)
    assert consistency_holds(old, old_root, size, root, proof)

    assert not consistency_holds(old, root, size, root, proof)
    assert not consistency_holds(old, old_root, size, old_root, proof)
    assert not consistency_holds(old, old_root, size, root, proof[:-1])
    assert not consistency_holds(old, old_root, size, root, [*proof, root])
    assert not consistency_holds(size + 1, old_root, size, root, proof)


def test_the_empty_tree_is_the_beginning_of_every_tree():
    root = grown(5)[0].root()

    assert prove_consistency(0, 5, hashes_of(5)) == []
    assert consistency_holds(0, EMPTY_ROOT, 5, root, [])
    assert not consistency_holds(0, root, 5, root, [])
    assert consistency_holds(5, root, 5, root, [])
    assert not consistency_holds(5, EMPTY_ROOT, 5, root, [])


def test_tiles_are_those_that_the_specification_counts():
    """C2SP's example: 70,000 leaves."""
    _, files = grown(LARGEST)

    assert LARGEST == 70_000
    full = [place for place in files if place.width == 256]
    partial = {place for place in files if place.width < 256}
    assert sum(place.level == 0 for place in full) == 273
    assert sum(place.level == BUNDLED for place in full) == 273
    assert sum(place.level == 1 for place in full) == 1
    assert partial == {
        Place(BUNDLED, 273, 112),
        Place(0, 273, 112),
        Place(1, 1, 17),
        Place(2, 0, 1),
    }
    assert all(len(data) == tile_bytes(place) for place, data in files.items())


@pytest.mark.parametrize(
    ("place", "path"),
    [
        (Place(0, 1234067), "tile/0/x001/x234/067"),
        (Place(0, 0), "tile/0/000"),
        (Place(1, 1, 17), "tile/1/001.p/17"),
        (Place(BUNDLED, 1000, 3), "tile/entries/x001/000.p/3"),
    ],
)
def test_paths_are_those_of_the_specification(place, path):
    assert place.path == path
    assert place_of(path) == place


@pytest.mark.parametrize(
    "path",
    [
        "tile/0/x000/001",
        "tile/8/000",
        "tile/0/1",
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/00/000",
    ],
)
def test_other_paths_are_no_tiles(path):
    assert place_of(path) is None


@pytest.mark.parametrize("size", [1, 255, 256, 257, 600, 70_000])
def test_a_tree_goes_on_from_its_right_edge(size):
    """However it is cut, it ends in the same root and the same tiles."""
    _, files = grown(size)

    tree = tree_from(size, files.__getitem__)

    assert tree.root() == grown(size)[0].root()
    assert tree.partial() == grown(size)[0].partial()


def test_a_tree_that_was_taken_up_again_fills_the_same_tiles():
    _, files = grown(257)
    tree = tree_from(257, files.__getitem__)

    filled = [tile for index in range(257, 600) for tile in tree.append(leaf(index))]

    assert {tile.place: tile.data for tile in [*filled, *tree.partial()]}.items() <= grown(600)[
        1
    ].items()
    assert tree.root().hex() == TREES[600]["root"]
