"""The Merkle tree of RFC 6962: roots, and proofs that a leaf is in a tree and one tree in another.

The leaf of an entry is its hash in the chain, 32 bytes: it stands for the payload and for all
history before it, and fits a tile bundle however large the entry is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256

EMPTY_ROOT = sha256(b"").digest()
PROOF_HASHES_MAX = 64
"""No tree that can be counted needs more."""

Hashes = Callable[[int, int], bytes]
"""The root of the n-th whole subtree of 2**level leaves, by level and n."""


def leaf_hash(leaf: bytes) -> bytes:
    return sha256(b"\x00" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


def root_of(hashes: Sequence[bytes]) -> bytes:
    """The root over hashes of neighbouring subtrees of one size; the last may be smaller."""
    if not hashes:
        return EMPTY_ROOT
    row = hashes
    while len(row) > 1:
        above = [
            sha256(b"\x01" + left + right).digest()
            for left, right in zip(row[::2], row[1::2], strict=False)
        ]
        # The one without a neighbour goes up as it is.
        row = [*above, row[-1]] if len(row) % 2 else above
    return row[0]


def root_at(size: int, hashes: Hashes) -> bytes:
    return _range_root(0, size, hashes) if size else EMPTY_ROOT


def prove_inclusion(index: int, size: int, hashes: Hashes) -> list[bytes]:
    """What together with leaf `index` gives the root of the tree of `size` leaves."""
    assert 0 <= index < size, (index, size)
    start, end = 0, size
    proof = []
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            proof.append(_range_root(middle, end, hashes))
            end = middle
        else:
            proof.append(_range_root(start, middle, hashes))
            start = middle
    return proof[::-1]


def prove_consistency(old: int, size: int, hashes: Hashes) -> list[bytes]:
    """What shows that the tree of `old` leaves is the beginning of the tree of `size`."""
    assert 0 <= old <= size, (old, size)
    if old in {0, size}:
        return []
    return list(_consistency(old, 0, size, hashes))[::-1]


def inclusion_holds(
    leaf: bytes, index: int, size: int, root: bytes, proof: Sequence[bytes]
) -> bool:
    """RFC 9162 section 2.1.3.2, written apart from what makes the proofs; `leaf` is hashed."""
    if not 0 <= index < size:
        return False
    place, last, found = index, size - 1, leaf
    for step in proof:
        if last == 0:
            return False
        if place % 2 or place == last:
            found = node_hash(step, found)
            while place % 2 == 0 and place:
                place, last = place >> 1, last >> 1
        else:
            found = node_hash(found, step)
        place, last = place >> 1, last >> 1
    return last == 0 and found == root


def consistency_holds(
    old: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]
) -> bool:
    """RFC 9162 section 2.1.4.2; the empty tree is the beginning of every tree."""
    if not 0 <= old <= size:
        return False
    if old in {0, size}:
        return not proof and old_root == (root if old == size else EMPTY_ROOT)
    # A whole old tree is a node of the new one, so it is left out of the proof.
    path = [old_root, *proof] if old & (old - 1) == 0 else [*proof]
    if not path:
        return False
    place, last = old - 1, size - 1
    while place % 2:
        place, last = place >> 1, last >> 1
    of_old = of_new = path[0]
    for step in path[1:]:
        if last == 0:
            return False
        if place % 2 or place == last:
            of_old, of_new = node_hash(step, of_old), node_hash(step, of_new)
            while place % 2 == 0 and place:
                place, last = place >> 1, last >> 1
        else:
            of_new = node_hash(of_new, step)
        place, last = place >> 1, last >> 1
    return last == 0 and of_old == old_root and of_new == root


def _consistency(old: int, start: int, end: int, hashes: Hashes) -> Iterator[bytes]:
    """From the root downwards: the other side at each turn, then the last node of the old tree."""
    while old != end:
        middle = start + _split(end - start)
        if old <= middle:
            yield _range_root(middle, end, hashes)
            end = middle
        else:
            yield _range_root(start, middle, hashes)
            start = middle
    if start > 0:
        yield _range_root(start, end, hashes)


def _range_root(start: int, end: int, hashes: Hashes) -> bytes:
    """The root over leaves that make one node; `start` is a multiple of its first part's size."""
    parts = []
    while start < end:
        size = 1 << (end - start).bit_length() - 1
        level = size.bit_length() - 1
        parts.append(hashes(level, start >> level))
        start += size
    root = parts.pop()
    while parts:
        root = node_hash(parts.pop(), root)
    return root


def _split(size: int) -> int:
    """The largest power of two below `size`."""
    return 1 << (size - 1).bit_length() - 1
