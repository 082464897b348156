"""Cassandra's variant of MurmurHash3, for clusters whose data was placed by it.

It is no library's: bytes of the tail are sign-extended before they are mixed in, the empty key
gives the minimum token, and the minimum token as a hash becomes the maximum.
"""

from __future__ import annotations

from metadata.tokens import MAXIMUM, MINIMUM, Token

_MASK = 2**64 - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_BLOCK_BYTES = 16
_HALF_BYTES = 8


def murmur3_token(key: bytes) -> Token:
    if not key:
        return MINIMUM
    first = _first_half(key)
    token = first - 2**64 if first >= 2**63 else first
    return MAXIMUM if token == MINIMUM else Token(token)


def _first_half(key: bytes) -> int:
    """The first 64 of the 128 bits, with seed 0."""
    whole = len(key) - len(key) % _BLOCK_BYTES
    h1 = h2 = 0
    for at in range(0, whole, _BLOCK_BYTES):
        h1 ^= _mix_first(int.from_bytes(key[at : at + _HALF_BYTES], "little"))
        h1 = ((_rotate(h1, 27) + h2) * 5 + 0x52DCE729) & _MASK
        h2 ^= _mix_second(int.from_bytes(key[at + _HALF_BYTES : at + _BLOCK_BYTES], "little"))
        h2 = ((_rotate(h2, 31) + h1) * 5 + 0x38495AB5) & _MASK
    tail = key[whole:]
    h2 ^= _mix_second(_signed(tail[_HALF_BYTES:]))
    h1 ^= _mix_first(_signed(tail[:_HALF_BYTES]))
    h1 ^= len(key)
    h2 ^= len(key)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    return (_finalized(h1) + _finalized(h2)) & _MASK


def _signed(tail: bytes) -> int:
    """The bytes little end first, each one's sign spread over all bits above it."""
    mixed = 0
    for index, byte in enumerate(tail):
        spread = byte - 256 if byte > 127 else byte  # noqa: PLR2004 - the range of a signed byte
        mixed ^= (spread << (8 * index)) & _MASK
    return mixed


def _mix_first(block: int) -> int:
    return _rotate(block * _C1 & _MASK, 31) * _C2 & _MASK


def _mix_second(block: int) -> int:
    return _rotate(block * _C2 & _MASK, 33) * _C1 & _MASK


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _finalized(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
