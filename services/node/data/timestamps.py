"""The timestamps that a node gives to writes: its clock, but never the same one twice."""

from __future__ import annotations

from collections.abc import Callable


class Timestamps:
    """Microseconds since 1970. A clock that is set back is waited for by counting on."""

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self._clock_us = clock_us
        self._last_us = 0

    def following(self) -> int:
        """Later than all that this gave before."""
        self._last_us = max(self._clock_us(), self._last_us + 1)
        return self._last_us

    def beating(self, held_us: int) -> int:
        """Later than one that is held somewhere, for the write that met it and no other.

        It is not counted on from: a client may give any timestamp to a row of its own, and that
        must not move the clock under the rows of all others.
        """
        return max(self.following(), held_us + 1)
