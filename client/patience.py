"""How often, how soon and for how long to try again: the rule, without the waiting."""

from __future__ import annotations

import math

import msgspec

DOUBLINGS_MAX = 32


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of trying again.

    `attempt_timeout_s` bounds one request, `deadline_s` all of them together, and `absent_s` those
    of a question while not one address has taken a connection: most likely there is no cluster.
    Once there was one it is only restarting, and commits wait for it in any case. The pause doubles
    from `pause_first_s` up to `pause_max_s`; what a CMS asks for by Retry-After is granted up to
    `retry_after_max_s`.
    """

    attempt_timeout_s: float = 15.0
    deadline_s: float = 60.0
    absent_s: float = math.inf
    pause_first_s: float = 0.05
    pause_max_s: float = 2.0
    retry_after_max_s: float = 10.0

    def pause_s(self, rounds: int, *, chance: float, retry_after_s: float | None = None) -> float:
        """How long to wait after `rounds` rounds over all addresses failed.

        `chance`, from 0 to 1, spreads clients that failed together over the second half of the
        pause. Nobody waits less than a CMS asked for, or its queue would never empty.
        """
        doubled = self.pause_first_s * 2.0 ** min(rounds - 1, DOUBLINGS_MAX)
        pause = min(doubled, self.pause_max_s)
        asked = min(retry_after_s or 0.0, self.retry_after_max_s)
        return (pause + asked) - pause * (1.0 - chance) / 2.0

    def among(self, addresses: int, *, wait_s: float = 0.0) -> Patience:
        """Of a question that any of several addresses may answer, and may hold for `wait_s`.

        Where there are others, one that hangs takes no more than half the time.
        """
        is_alone = addresses == 1
        share_s = self.deadline_s if is_alone else self.deadline_s / 2
        return msgspec.structs.replace(
            self,
            attempt_timeout_s=min(self.attempt_timeout_s, share_s) + wait_s,
            # Whoever is asked next may hold the question just as long.
            deadline_s=self.deadline_s + wait_s * (1 if is_alone else 2),
        )

    @property
    def for_what_is_there(self) -> Patience:
        """Of a cluster that is known to be."""
        return msgspec.structs.replace(self, absent_s=self.deadline_s)


ORDINARY = Patience()


class Attempts:
    """One request on its way over all addresses.

    Fed with each failure, it says whom to ask next and after which pause, or that time is up.
    A round without a pause goes over all addresses, since the next one may well be up; only
    a CMS that asks for time is given it at once.
    """

    def __init__(self, patience: Patience, addresses: int, *, first: int, now_s: float) -> None:
        assert addresses > 0
        self.address = first
        self.may_have_arrived = False
        self._patience = patience
        self._addresses = addresses
        self._deadline_s = now_s + patience.deadline_s
        self._absent_s = now_s + patience.absent_s
        self._is_absent = True
        self._failures = 0

    def timeout_s(self, now_s: float) -> float:
        """How long the next request may take."""
        return max(0.0, min(self._patience.attempt_timeout_s, self._deadline_s - now_s))

    def failed(
        self,
        now_s: float,
        *,
        chance: float,
        may_have_arrived: bool,
        was_connected: bool = False,
        retry_after_s: float | None = None,
    ) -> float | None:
        """The pause before the next address is asked, or None: the time is up."""
        self._failures += 1
        self.may_have_arrived |= may_have_arrived
        self._is_absent &= not was_connected
        self.address = (self.address + 1) % self._addresses
        rounds, rest = divmod(self._failures, self._addresses)
        pause = 0.0
        if rest == 0 or retry_after_s is not None:
            pause = self._patience.pause_s(
                max(rounds, 1), chance=chance, retry_after_s=retry_after_s
            )
        deadline_s = self._deadline_s
        # Every address is asked before there is said to be no cluster.
        if self._is_absent and rounds:
            deadline_s = min(deadline_s, self._absent_s)
        return pause if now_s + pause < deadline_s else None
