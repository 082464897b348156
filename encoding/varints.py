"""Avro's numbers and byte strings, and a place in the bytes that are read."""

from __future__ import annotations

_MORE = 0x80
_VARINT_BYTES_MAX = 10


class DamagedError(ValueError):
    """The bytes are not what a writer wrote. The message says what is wrong, as half a sentence."""


def encoded_long(value: int) -> bytes:
    """Avro's zigzag varint, for numbers that are never negative."""
    rest = value << 1
    out = bytearray()
    while rest >= _MORE:
        out.append(rest % _MORE | _MORE)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def encoded_bytes(data: bytes) -> bytes:
    return encoded_long(len(data)) + data


class Cursor:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    @property
    def is_at_end(self) -> bool:
        return self.at == len(self._data)

    def take(self, size: int) -> bytes:
        end = self.at + size
        if size < 0 or end > len(self._data):
            raise DamagedError("it is damaged or cut short")
        taken = self._data[self.at : end]
        self.at = end
        return taken

    def long(self) -> int:
        value = 0
        for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
            if self.at >= len(self._data):
                break
            byte = self._data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < _MORE:
                return (value >> 1) ^ -(value & 1)
        raise DamagedError("it is damaged: a number does not end")

    def bytes(self) -> bytes:
        return self.take(self.long())

    def expect_end(self) -> None:
        if not self.is_at_end:
            raise DamagedError("it is damaged: something follows where a block should end")
