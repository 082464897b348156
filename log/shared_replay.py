"""Replaying once for many followers in one process."""

from __future__ import annotations

from collections import OrderedDict

from log.entry import SealedEntry
from log.replay import Applied, apply

KEPT_MAX = 4096


class SharedReplay:
    """Applies each entry once, for all followers that are given it.

    `apply` is pure: the same entry onto the same version is the same version, whoever asks. So
    only what is the same bytes onto the very same object is taken from memory, and a follower
    that was told anything else finds out by itself.
    """

    def __init__(self, kept_max: int = KEPT_MAX) -> None:
        self._kept: OrderedDict[bytes, tuple[SealedEntry, Applied, Applied]] = OrderedDict()
        self._kept_max = kept_max

    def apply(self, sealed: SealedEntry, onto: Applied) -> Applied:
        found = self._kept.get(sealed.hash)
        if found is not None and found[1] is onto and found[0] == sealed:
            return found[2]
        after = apply(sealed, onto)
        self._kept[sealed.hash] = (sealed, onto, after)
        if len(self._kept) > self._kept_max:
            self._kept.popitem(last=False)
        return after
