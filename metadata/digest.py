"""The state digest: a hash tree over keyed values, kept incrementally.

The tree is a trie over SHA-256 of the key, sixteen ways at each level. Its shape depends only
on which keys are present, never on the order in which they came, so a tree built from scratch
and one kept through a thousand changes have the same root. Leaves and branches are hashed with
different first bytes; forging a root therefore means forging SHA-256.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import msgspec

DIGEST_BYTES = 32
NOTHING = b"\x00" * DIGEST_BYTES
"""The root of a tree without leaves, and the place of a child that is not there."""

_WAYS = 16
_LEAF, _BRANCH = b"\x00", b"\x01"
_encoder = msgspec.msgpack.Encoder(order="deterministic")


def canonical(value: object) -> bytes:
    """One byte string per value: structs by field name with defaults left out, maps sorted.

    Leaving defaults out lets a later release add a field without changing the digests of
    metadata that does not use it.
    """
    return _encoder.encode(value)


def digest_of(*parts: object) -> bytes:
    return sha256(_encoder.encode(parts)).digest()


class Leaf(msgspec.Struct, frozen=True, gc=False):
    """One key's place in the tree (the hash of the key) and the hash of key and value."""

    path: bytes
    digest: bytes


class Branch(msgspec.Struct, frozen=True, gc=False):
    """Sixteen subtrees, at least two leaves among them, and their digests side by side."""

    digest: bytes
    children: tuple[Tree, ...]
    digests: bytes


Tree = Leaf | Branch | None
Change = tuple[bytes, Leaf | None]
"""A path, and what is there from now on."""


def leaf(key: object, value: object) -> Leaf:
    encoded = _encoder.encode(key)
    content = _LEAF + encoded + _encoder.encode(value)
    return Leaf(sha256(encoded).digest(), sha256(content).digest())


def path_of(key: object) -> bytes:
    return sha256(_encoder.encode(key)).digest()


def root(tree: Tree) -> bytes:
    return NOTHING if tree is None else tree.digest


def put(tree: Tree, item: Leaf, depth: int = 0) -> Tree:
    """The tree with one leaf put: the change that almost every entry makes."""
    if not isinstance(tree, Branch):
        present = [] if tree is None or tree.path == item.path else [tree]
        return _built([*present, item], depth)
    way = _way(item.path, depth)
    child = put(tree.children[way], item, depth + 1)
    assert child is not None, way
    children = (*tree.children[:way], child, *tree.children[way + 1 :])
    at = way * DIGEST_BYTES
    digests = tree.digests[:at] + child.digest + tree.digests[at + DIGEST_BYTES :]
    return Branch(sha256(_BRANCH + digests).digest(), children, digests)


def updated(tree: Tree, changes: Iterable[Change]) -> Tree:
    """The tree with some leaves put or taken away; each path at most once."""
    listed = list(changes)
    return _updated(tree, listed, 0) if listed else tree


def _updated(tree: Tree, changes: list[Change], depth: int) -> Tree:
    if not isinstance(tree, Branch):
        return _grown(tree, changes, depth)
    children = list(tree.children)
    groups: dict[int, list[Change]] = {}
    for change in changes:
        groups.setdefault(_way(change[0], depth), []).append(change)
    for way, group in groups.items():
        children[way] = _updated(children[way], group, depth + 1)
    return _branch(children)


def _grown(present: Leaf | None, changes: list[Change], depth: int) -> Tree:
    """Changes to a place where there was one leaf or none."""
    leaves = [item for _, item in changes if item is not None]
    if present is not None and all(path != present.path for path, _ in changes):
        leaves.append(present)
    return _built(leaves, depth)


def _built(leaves: list[Leaf], depth: int) -> Tree:
    if len(leaves) <= 1:
        return leaves[0] if leaves else None
    groups: dict[int, list[Leaf]] = {}
    for item in leaves:
        groups.setdefault(_way(item.path, depth), []).append(item)
    children: list[Tree] = [None] * _WAYS
    for way, group in groups.items():
        children[way] = _built(group, depth + 1)
    return _branch(children)


def _branch(children: list[Tree]) -> Tree:
    """A place with one leaf below it is that leaf: shape must not tell what was there before."""
    present = [child for child in children if child is not None]
    if not present or (len(present) == 1 and isinstance(present[0], Leaf)):
        return present[0] if present else None
    digests = b"".join([NOTHING if child is None else child.digest for child in children])
    return Branch(sha256(_BRANCH + digests).digest(), tuple(children), digests)


def _way(path: bytes, depth: int) -> int:
    byte = path[depth >> 1]
    return byte & 15 if depth & 1 else byte >> 4
