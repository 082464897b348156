"""Progress in a dictionary, for tests and for a CMS that is alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

from metadata.epoch import Epoch
from metadata.locks import SequenceId
from services.cms.progress.store import RATES_MAX, SILENT_AFTER_S, Kept, Known


class MemoryProgress:
    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._rows: dict[SequenceId, tuple[Kept, float]] = {}
        self._rates: dict[SequenceId, float] = {}

    async def keep(self, told: Sequence[Kept]) -> None:
        now_s = self._clock_s()
        for item in told:
            before = self._rows.get(item.sequence)
            if (
                before is not None
                and before[0].driver != item.driver
                and now_s - before[1] < SILENT_AFTER_S
            ):
                continue
            self._rows[item.sequence] = item, now_s
            if item.rows_per_s is not None:
                self._rates[item.sequence] = item.rows_per_s

    async def known(self) -> Sequence[Known]:
        now_s = self._clock_s()
        return [
            Known(
                sequence=sequence, driver=kept.driver, driven=kept.driven, age_s=now_s - received_s
            )
            for sequence, (kept, received_s) in sorted(self._rows.items())
        ]

    async def rates(self) -> Sequence[float]:
        newest = sorted(self._rates, reverse=True)[:RATES_MAX]
        return [self._rates[sequence] for sequence in newest]

    async def forget_others(self, in_progress: Collection[SequenceId], *, up_to: Epoch) -> None:
        over = [name for name in self._rows if name <= up_to and name not in in_progress]
        for sequence in over:
            del self._rows[sequence]
        for sequence in sorted(self._rates, reverse=True)[RATES_MAX:]:
            del self._rates[sequence]
