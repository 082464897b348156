"""How long to wait before trying again: the rule, without the waiting."""

from __future__ import annotations

import msgspec

DOUBLINGS_MAX = 32


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """The pause doubles from `first_s` up to `last_s`."""

    first_s: float = 0.05
    last_s: float = 5.0

    def pause_s(self, failures: int, *, chance: float) -> float:
        """The pause after so many failures in a row.

        `chance`, from 0 to 1, spreads those who failed together over its second half.
        """
        assert failures > 0
        doubled = self.first_s * 2.0 ** min(failures - 1, DOUBLINGS_MAX)
        return min(doubled, self.last_s) * (1.0 + chance) / 2.0


class Delay(msgspec.Struct, frozen=True, kw_only=True):
    """Something is away and will be tried again; `failures` in a row so far."""

    error: Exception
    failures: int
    pause_s: float


def ignore_delay(_delay: Delay) -> None:
    """For those who need not know."""
