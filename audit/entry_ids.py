"""Whether an entry id came before, for a history of any length."""

from __future__ import annotations

from array import array

from encoding.entries import EntryId

_EMPTY = 0
_SLOTS_MIN = 1024
_MASK = 2**64 - 1


class EntryIds:
    """A table of fingerprints at 12 to 24 bytes an entry: a set of ids would take ten times that.

    While it is doubled it takes 36.

    Fingerprints have 64 bits under a key of each run's own, so nobody can choose ids that are
    taken for one another, and among a million honest ones a mistake is less likely than 1 in 10^7.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._slots = _blank(_SLOTS_MIN)
        self._count = 0

    def is_new(self, entry_id: EntryId) -> bool:
        """True the first time; from then on the id is known."""
        if not self._put(self._fingerprint(entry_id)):
            return False
        self._count += 1
        if 3 * self._count > 2 * len(self._slots):
            self._grow()
        return True

    def _fingerprint(self, entry_id: EntryId) -> int:
        return hash(self._key + entry_id.bytes) & _MASK or 1

    def _put(self, fingerprint: int) -> bool:
        slots, mask = self._slots, len(self._slots) - 1
        place = fingerprint & mask
        while slots[place] != _EMPTY:
            if slots[place] == fingerprint:
                return False
            place = (place + 1) & mask
        slots[place] = fingerprint
        return True

    def _grow(self) -> None:
        full = self._slots
        self._slots = _blank(2 * len(full))
        for fingerprint in full:
            if fingerprint != _EMPTY:
                self._put(fingerprint)


def _blank(slots: int) -> array[int]:
    return array("Q", [_EMPTY]) * slots
