"""Which operations run under which epoch: the rule behind "has applied", without the waiting."""

from __future__ import annotations

from collections import Counter

from metadata.epoch import Epoch


class Admission:
    """Counts replica reads and writes by the epoch of the metadata that let them in."""

    def __init__(self) -> None:
        self._running: Counter[Epoch] = Counter()

    @property
    def running(self) -> int:
        return self._running.total()

    def admit(self, epoch: Epoch) -> None:
        self._running[epoch] += 1

    def release(self, epoch: Epoch) -> None:
        assert self._running[epoch] > 0, epoch
        self._running[epoch] -= 1
        if not self._running[epoch]:
            del self._running[epoch]

    def drained(self, watermark: Epoch) -> Epoch:
        """The highest epoch up to the watermark that nothing admitted under an older one outlasts.

        An operation that was let in by version E may be wrong by E + 1, so while it runs the
        node has not applied E + 1.
        """
        return min((*self._running, watermark))
