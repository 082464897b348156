"""How a follower stands: whether what it has can be relied on, and if not, why."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class State(StrEnum):
    STARTING = "starting"
    """The log has not answered yet; what is at hand may be late."""
    FOLLOWING = "following"
    AWAY = "away"
    """The log did not answer the last time; what is at hand is right and may be late."""
    HELD_UP = "held_up"
    """What comes next cannot be kept just now; what is at hand is right and may be late."""
    DIVERGED = "diverged"
    """The log holds another history than this follower has applied."""
    STOPPED = "stopped"
    """An entry of the log could not be applied or kept; nothing will be any more."""


TRUSTED = frozenset({State.STARTING, State.FOLLOWING, State.AWAY, State.HELD_UP})
"""Late at worst. In any other state a follower serves nothing."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """`since_s` is by the clock of the follower; `detail` is a sentence, empty if all is well."""

    state: State
    since_s: float
    detail: str = ""

    @property
    def is_trusted(self) -> bool:
        return self.state in TRUSTED

    def become(self, state: State, now_s: float, detail: str = "") -> Standing:
        """The same moment as long as the state is the same."""
        since_s = self.since_s if state is self.state else now_s
        return Standing(state=state, since_s=since_s, detail=detail)


def begun(doubt: str, now_s: float) -> Standing:
    """How a start stands: `doubt` is why the log did not agree before it, until it does."""
    state = State.DIVERGED if doubt else State.STARTING
    return Standing(state=state, since_s=now_s, detail=doubt)
