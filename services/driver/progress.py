"""How far movements are, in rows and bytes, and when they will be done."""

from __future__ import annotations

from collections.abc import Callable

from metadata.locks import SequenceId
from movement.asking import NO_TASKS, Tasks
from services.http.progress import Moved

SURE_AFTER_S = 1.0
"""Before that a rate says nothing."""
NO_EXECUTOR = "Spark has no executor: start workers for it, or free some that others have taken."


class Meter:
    """One movement. What was found done from an earlier attempt counts, but not for the rate."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since_s = clock()
        self._phase = "starting"
        self._tasks = NO_TASKS
        self._rows: dict[str, int] = {}
        self._bytes: dict[str, int] = {}
        self._shares: dict[str, float] = {}
        self._found: set[str] = set()
        self._news_s = self._since_s

    def say(self, phase: str) -> None:
        self._phase = phase
        self._news_s = self._clock()

    def expect(self, part: str, rows: int, size_bytes: int) -> None:
        self._rows[part], self._bytes[part] = rows, size_bytes
        self._shares.setdefault(part, 0.0)

    def advance(self, part: str, share: float) -> None:
        """Never back, also when a job is run again."""
        before = self._shares.get(part, 0.0)
        self._shares[part] = max(before, min(1.0, share))
        if self._shares[part] > before:
            self._news_s = self._clock()

    def settle(self, part: str, rows: int, size_bytes: int) -> None:
        """It is done, and this is how much it was; what was expected is forgotten."""
        self.expect(part, rows, size_bytes)
        self.advance(part, 1.0)

    def find_done(self, part: str, rows: int, size_bytes: int) -> None:
        self._found.add(part)
        self.settle(part, rows, size_bytes)

    def see(self, tasks: Tasks) -> None:
        """What Spark is at now. A task that is done brings it further, whatever it was for."""
        if (tasks.done, tasks.all) != (self._tasks.done, self._tasks.all):
            self.say(self._phase)
        self._tasks = tasks

    @property
    def moved(self) -> Moved:
        elapsed_s = self._clock() - self._since_s
        done, total = self._sum(self._rows), sum(self._rows.values())
        fresh = done - sum(self._rows[part] for part in self._found)
        rate = fresh / elapsed_s if elapsed_s >= SURE_AFTER_S else 0.0
        return Moved(
            phase=self._phase,
            detail=NO_EXECUTOR if self._tasks.all and not self._tasks.executors else "",
            rows_done=done,
            rows_total=total,
            bytes_done=self._sum(self._bytes),
            bytes_total=sum(self._bytes.values()),
            rows_per_s=rate,
            left_s=(total - done) / rate if rate > 0 else None,
            stalled_s=self._clock() - self._news_s,
        )

    def _sum(self, sizes: dict[str, int]) -> int:
        return sum(int(size * self._shares[part]) for part, size in sizes.items())


class Meters:
    """The movements that run now."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._running: dict[SequenceId, Meter] = {}

    def begin(self, sequence: SequenceId) -> Meter:
        self._running[sequence] = Meter(self._clock)
        return self._running[sequence]

    def end(self, sequence: SequenceId) -> None:
        self._running.pop(sequence, None)

    def moved(self, sequence: SequenceId) -> Moved | None:
        found = self._running.get(sequence)
        return None if found is None else found.moved
