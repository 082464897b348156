"""When to ask the log: the rule, without the waiting."""

from __future__ import annotations

from log.backoff import Backoff
from metadata.epoch import EMPTY, Epoch

CHECK_EVERY_S = 2.0
"""Fan-out may lose everything and say nothing; this is how long that goes unnoticed."""
GAP_PAUSE_S = 0.02
"""Most gaps close by themselves, when what was overtaken arrives."""
IN_VAIN_PAUSE_S = 0.5
"""Whoever announces what is not in the log must not make everybody ask for it."""
JUMPS_TRIED_MAX = 3
"""Who cannot fetch a snapshot so many times in a row takes the entries: they come in pieces."""
UNANSWERED = Backoff(first_s=0.1, last_s=5.0)


class Asking:
    """Rarely while fan-out brings everything, soon after a gap, all the time while it is silent.

    `is_silent` says that nobody announces entries: then the log is asked to answer when there is
    something. It ends when fan-out is heard of again. Where fan-out only tells of entries and
    brings none, no gap closes by itself and `gap_pause_s` is nothing.
    """

    def __init__(self, *, is_fanned_out: bool, gap_pause_s: float = GAP_PAUSE_S) -> None:
        self.is_silent = not is_fanned_out
        self._gap_pause_s = gap_pause_s
        self._gap: tuple[Epoch, float] | None = None
        self._answered_s = float("-inf")
        self._not_before_s = float("-inf")
        self._failures = 0

    def heard(self) -> None:
        self.is_silent = False

    def pause_s(self, missing: Epoch | None, now_s: float) -> float:
        """How long the log need not be asked; not at all if this is not positive."""
        if missing is None:
            self._gap = None
            due_s = now_s if self.is_silent else self._answered_s + CHECK_EVERY_S
        else:
            if self._gap is None or self._gap[0] != missing:
                self._gap = (missing, now_s)
            due_s = self._gap[1] + self._gap_pause_s
        return max(due_s, self._not_before_s) - now_s

    def answered(self, now_s: float, *, unannounced: bool, in_vain: bool) -> None:
        """The log answered; `unannounced` if with entries that nobody had told us of, `in_vain`
        if without those that somebody had."""
        self._answered_s = now_s
        self._failures = 0
        self.is_silent |= unannounced
        if in_vain:
            self._not_before_s = now_s + IN_VAIN_PAUSE_S

    def failed(self, now_s: float, *, chance: float) -> None:
        """It did not: each time it is left alone for longer; `chance` spreads those who wait."""
        self._failures += 1
        self._not_before_s = now_s + UNANSWERED.pause_s(self._failures, chance=chance)


class Jumping:
    """Whether a snapshot is worth asking for: not again where the entries up to it will do."""

    def __init__(self) -> None:
        self._useless = EMPTY
        self._failures = 0

    def is_worthwhile(self, epoch: Epoch) -> bool:
        """For somebody who is at this epoch."""
        return epoch >= self._useless

    def jumped(self) -> None:
        self._failures = 0

    def failed(self, epoch: Epoch, *, is_damaged: bool) -> None:
        """The snapshot at this epoch did not come; one that is damaged stays so."""
        self._failures += 1
        if is_damaged or self._failures >= JUMPS_TRIED_MAX:
            self._useless, self._failures = epoch, 0

    def trimmed(self) -> None:
        """Nothing but the snapshot leads on, whatever it was like the last time."""
        self._useless = EMPTY
