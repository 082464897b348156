"""The timestamps that a node gives to writes: its clock, but never the same one twice."""

from __future__ import annotations

from collections.abc import Callable


class Timestamps:
    """Microseconds since 1970. A clock that is set back is waited for by counting on."""

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self._clock_us = clock_us
        self._last_us = 0

    def following(self, held_us: int = 0) -> int:
        """Later than all that were given before, and than the one that is held somewhere."""
        self._last_us = max(self._clock_us(), self._last_us + 1, held_us + 1)
        return self._last_us
