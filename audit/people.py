"""Who says to have committed what, and which role that takes.

An entry holds neither the role nor the token of who sent it. Its actor is what the sender called
itself; a CMS asked for a role that may commit the kind, and nothing here proves that it did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from audit.transition import FORCED, STEPS, Transition

ACTORS_KEPT_MAX = 1_000
OTHERS = "(others)"

NODE, OPERATOR, ADMIN = "node", "operator", "admin"

_NODE = frozenset(
    [
        *STEPS,
        "Register",
        "Startup",
        "Unregister",
        "OpenSession",
        "CloseSession",
        "AdvanceCmsReconfiguration",
    ]
)
_ADMIN = frozenset(
    [
        FORCED,
        "Assassinate",
        "UnsafeJoin",
        "PrepareCmsReconfiguration",
        "CancelCmsReconfiguration",
    ]
)


def role_needed(kind: str) -> str:
    """The least role that may commit a kind; a test compares it with what a CMS asks for."""
    if kind in _NODE:
        return NODE
    return ADMIN if kind in _ADMIN else OPERATOR


class Deeds(msgspec.Struct, frozen=True, kw_only=True):
    """What was committed in one name, of the kinds that take one role; None is no name.

    `role` is the least that may commit these kinds, not one that somebody is known to have held.
    """

    actor: str | None
    role: str
    kinds: dict[str, int]


class People:
    """Counts; actors beyond the bound are counted together."""

    def __init__(self) -> None:
        self._by_actor: dict[str | None, Counter[str]] = {}

    def saw(self, actor: str | None, kind: str) -> None:
        kinds = self._by_actor.get(actor)
        if kinds is None:
            known = actor if len(self._by_actor) < ACTORS_KEPT_MAX else OTHERS
            kinds = self._by_actor.setdefault(known, Counter())
        kinds[kind] += 1

    def deeds(self) -> tuple[Deeds, ...]:
        return deeds_of(self._by_actor)


def deeds_of(by_actor: Mapping[str | None, Mapping[str, int]]) -> tuple[Deeds, ...]:
    """From how many entries of each kind there are of each actor."""
    found: dict[tuple[str | None, str], dict[str, int]] = {}
    for actor, kinds in by_actor.items():
        for kind in sorted(kinds):
            found.setdefault((actor, role_needed(kind)), {})[kind] = kinds[kind]
    ordered = sorted(found, key=lambda pair: (pair[0] or "", pair[1]))
    return tuple(Deeds(actor=who, role=role, kinds=found[who, role]) for who, role in ordered)


def nameless(found: Transition) -> Iterator[str]:
    if found.entry.actor is None and role_needed(found.kind) != NODE:
        yield f"{found.kind} takes the role {role_needed(found.kind)} and names no actor"


def forced(found: Transition) -> Iterator[str]:
    """Metadata was put in the place of what the log led to."""
    components = ", ".join(sorted(found.changed)) or "nothing"
    why = found.entry.reason
    yield (
        f"{found.entry.actor or 'somebody'} forced other metadata, changing {components}; "
        + (f"the reason given: {why}" if why else "no reason is given")
    )


def accepted_loss(found: Transition) -> Iterator[str]:
    if found.accept_loss is not None:
        yield f"{found.kind} was allowed to lose rows: {found.accept_loss}"
