"""The address book of the CMS in the metadata, kept true to the processes that run.

Nodes learn from it where to commit. It changes by one reconfiguration at a time and by one member
at a time, additions first; whoever died in between has left a reconfiguration that anybody goes on
with, or cancels where it leads to addresses at which nobody answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from client.answers import Rejected
from client.client import Client
from metadata.locks import SequenceId
from services.local.failure import LocalServerError
from transformations.cms import (
    AdvanceCmsReconfiguration,
    CancelCmsReconfiguration,
    NewMember,
    PrepareCmsReconfiguration,
)
from transformations.outcome import Reason

COMPONENT = "cms"
STAND_IN = "_stand_in"
ROUNDS_MAX = 1_000
"""Each member takes three at most; the rest is for those who change the book at the same time."""

_OVERTAKEN = frozenset(
    reason.value
    for reason in (
        Reason.SEQUENCE_IN_PROGRESS,
        Reason.UNKNOWN_SEQUENCE,
        Reason.WRONG_STEP,
        Reason.MEMBER_EXISTS,
        Reason.UNKNOWN_MEMBER,
    )
)
"""Somebody else has changed the book meanwhile."""


class Listing(msgspec.Struct, frozen=True):
    name: str
    url: str


class Unfinished(msgspec.Struct, frozen=True, kw_only=True):
    """A reconfiguration that has steps left."""

    id: SequenceId
    index: int
    add: tuple[Listing, ...] = ()
    remove: tuple[str, ...] = ()


class Book(msgspec.Struct, frozen=True):
    """The component `cms`, as a CMS shows it."""

    members: tuple[Listing, ...] = ()
    reconfiguration: Unfinished | None = None


Step = PrepareCmsReconfiguration | AdvanceCmsReconfiguration | CancelCmsReconfiguration


def member_names(urls: Mapping[str, str]) -> dict[str, str]:
    """As the address book takes them: it has no hyphens."""
    return {name.replace("-", "_"): url for name, url in urls.items()}


def due(book: Book, wanted: Mapping[str, str]) -> Step | None:
    """The next step towards a book that has exactly `wanted`: names and where each answers."""
    assert wanted, "somebody has to be a member"
    running = book.reconfiguration
    if running is not None:
        if _leads_astray(running, book.members, wanted):
            return CancelCmsReconfiguration(sequence=running.id)
        return AdvanceCmsReconfiguration(sequence=running.id, step=running.index)
    known = {member.name for member in book.members}
    add = [NewMember(name, url) for name, url in sorted(wanted.items()) if name not in known]
    remove = _wrong(book.members, wanted)
    if len(book.members) + len(add) - len(remove) < 1:
        # All have moved. A name is in the book once, and the book is never empty.
        name, url = min(wanted.items())
        add = [NewMember(f"{name}{STAND_IN}", url)]
    if not add and not remove:
        return None
    return PrepareCmsReconfiguration(add=tuple(add), remove=tuple(remove))


async def agree(client: Client, wanted: Mapping[str, str], *, actor: str) -> None:
    """Return once the book has exactly `wanted`."""
    for _ in range(ROUNDS_MAX):
        book = msgspec.convert(await client.component(COMPONENT), Book)
        step = due(book, wanted)
        if step is None:
            return
        outcome = await client.commit(step, actor=actor)
        if isinstance(outcome, Rejected) and outcome.code not in _OVERTAKEN:
            raise LocalServerError(f"The CMS members cannot be listed: {outcome.detail}.")
    raise LocalServerError("The list of CMS members does not come to rest: somebody changes it.")


def _wrong(members: Sequence[Listing], wanted: Mapping[str, str]) -> list[str]:
    return [member.name for member in members if wanted.get(member.name) != member.url]


def _leads_astray(
    running: Unfinished, members: Sequence[Listing], wanted: Mapping[str, str]
) -> bool:
    """Whether it cannot end well: nobody answers where it leads, or it takes away who does."""
    right = {member.name for member in members} - set(_wrong(members, wanted))
    to_nobody = any(member.url not in wanted.values() for member in running.add)
    return to_nobody or not right.isdisjoint(running.remove)
