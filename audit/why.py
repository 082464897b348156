"""The chain of entries that led to this owner of this token."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from audit import subjects
from audit.blame import blamed, entry_at
from audit.history import History, metadata_at
from audit.subjects import Subject
from audit.transition import STEPS
from audit.travel import UnknownSubjectError, placement_of
from encoding.entries import Entry
from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.locks import SequenceId
from metadata.tokens import Token

STEPS_SOUGHT_ENTRIES_MAX = 100_000
"""How far behind a step the later steps of its sequence are looked for."""


class Link(msgspec.Struct, frozen=True):
    """One entry of the chain, and its part in it."""

    entry: Entry
    part: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Why does `node` own `token` of `keyspace` at `at`?"""

    keyspace: str
    token: Token
    node: NodeId
    at: Epoch


def why(history: History, asked: Asked) -> list[Link]:
    """How the node became known, got its tokens and became an owner, in the order of the log."""
    metadata = metadata_at(history, asked.at).metadata
    _check_owner(metadata, asked)
    links: dict[Epoch, Link] = {}
    for link in _links(history, asked):
        links.setdefault(link.entry.epoch, link)
    return [links[epoch] for epoch in sorted(links)]


def _check_owner(metadata: ClusterMetadata, asked: Asked) -> None:
    placement = placement_of(metadata, asked.keyspace)
    groups = (placement.readers(asked.token), placement.writers(asked.token))
    owners = sorted({node for group in groups if group for node in group.owners})
    if asked.node not in owners:
        raise UnknownSubjectError(
            f"Node {asked.node} does not own token {asked.token} of {asked.keyspace} at epoch "
            f"{asked.at}; its owners are {owners}."
        )


def _links(history: History, asked: Asked) -> Iterator[Link]:
    node, at = asked.node, asked.at
    for side, verb in (("readers", "reads"), ("writers", "writes")):
        part = f"since then node {node} {verb} token {asked.token} of {asked.keyspace}"
        yield from _cause(history, _ownership(asked, side), at, part)
    created = f"since then keyspace {asked.keyspace} has this replication"
    yield from _cause(history, subjects.keyspace(asked.keyspace), at, created)
    tokens = f"since then node {node} has these tokens"
    yield from _cause(history, subjects.tokens_of(node), at, tokens)
    yield from _cause(history, _known(node), at, f"node {node} became known")


def _cause(history: History, subject: Subject, at: Epoch, part: str) -> Iterator[Link]:
    """The entry that made the subject what it is, with all steps of the sequence it belongs to."""
    found = blamed(history, subject, at)
    if found is None:
        return
    yield Link(found.entry, part)
    if found.entry.kind in STEPS:
        yield from _steps(history, found.entry, at)


def _steps(history: History, entry: Entry, at: Epoch) -> Iterator[Link]:
    sequence = entry.result.sequence or getattr(entry.transformation, "sequence", None)
    if sequence is None:
        return
    running = metadata_at(history, entry.epoch).metadata.sequences.find(SequenceId(sequence))
    taken = () if running is None else running.taken
    for item in taken:
        step = entry_at(history, item.epoch).entry
        yield Link(step, f"{item.step} of sequence {sequence}")
    yield from _later_steps(history, sequence, entry.epoch, at)


def _later_steps(history: History, sequence: int, after: Epoch, at: Epoch) -> Iterator[Link]:
    end = Epoch(min(at, after + STEPS_SOUGHT_ENTRIES_MAX))
    for sealed in history.entries(after, end):
        step = STEPS.get(sealed.kind)
        if step is None or getattr(sealed.entry.transformation, "sequence", None) != sequence:
            continue
        yield Link(sealed.entry, f"{step} of sequence {sequence}")
        if sealed.kind == "RetireSequence":
            return


def _ownership(asked: Asked, side: str) -> Subject:
    """Whether the node is among the readers, or the writers, of the token."""
    whole = subjects.token(asked.keyspace, asked.token)

    def owns(metadata: ClusterMetadata) -> bool:
        shown = whole.shown(metadata)
        return shown is not None and asked.node in shown[side]

    # Not the group's own epoch: that moves whenever any of its owners does.
    return Subject(whole.name, owns, whole.changed_by)


def _known(node: NodeId) -> Subject:
    return Subject(
        f"node {node}",
        lambda metadata: metadata.directory.find(node) is not None,
        lambda metadata: metadata.directory.epoch,
    )
