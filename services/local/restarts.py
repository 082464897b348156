"""How soon a process that died is started again."""

from __future__ import annotations

import msgspec

PAUSE_FIRST_S = 0.1
PAUSE_MAX_S = 5.0
STEADY_S = 10.0


class Restarts(msgspec.Struct, frozen=True):
    """Deaths in a row, none of them after a steady run.

    A process that ran for a while is back at once; one that dies as soon as it starts is tried
    ever more rarely, so that it neither floods its log nor takes the machine from the others.
    """

    in_a_row: int = 0

    def after(self, ran_s: float) -> Restarts:
        """One more death, of a process that lived for `ran_s`."""
        return Restarts(1 if ran_s >= STEADY_S else self.in_a_row + 1)

    @property
    def pause_s(self) -> float:
        """Doubling from the first death on."""
        doublings = min(max(self.in_a_row - 1, 0), 16)
        return min(PAUSE_FIRST_S * 2.0**doublings, PAUSE_MAX_S)
