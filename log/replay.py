"""Applying committed entries to metadata, and noticing whatever is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from encoding.entries import Entry, decode_entry
from encoding.errors import DecodeError
from log.chain import NO_HASH, Tip, link
from log.entry import SealedEntry
from metadata.cluster import NOTHING_YET, ClusterMetadata
from metadata.epoch import Epoch
from transformations.kinds import execute
from transformations.outcome import Outcome, Rejected


class ReplayError(Exception):
    """The history cannot be right from this epoch on. Whoever meets it stops.

    `epoch` is where an entry was expected and `fault` says what is wrong with what was there.
    """

    def __init__(self, epoch: Epoch, fault: str) -> None:
        super().__init__(f"epoch {epoch}: {fault}")
        self.epoch = epoch
        self.fault = fault


class Applied(msgspec.Struct, frozen=True):
    """Metadata, and the hash of the last entry that led to it."""

    metadata: ClusterMetadata
    hash: bytes

    @property
    def tip(self) -> Tip:
        return Tip(self.metadata.epoch, self.hash)


NOTHING_APPLIED = Applied(NOTHING_YET, NO_HASH)


def replay(entries: Iterable[SealedEntry], onto: Applied = NOTHING_APPLIED) -> Applied:
    """Where the entries lead; `onto` is nothing, a restored snapshot or the last replay."""
    applied = onto
    for sealed in entries:
        applied = apply(sealed, applied)
    return applied


def replayed(entries: Iterable[SealedEntry], onto: Applied = NOTHING_APPLIED) -> Iterator[Applied]:
    """Every step of the way, for those who look at each version of the metadata."""
    applied = onto
    for sealed in entries:
        applied = apply(sealed, applied)
        yield applied


def apply(sealed: SealedEntry, onto: Applied) -> Applied:
    """One entry further, if it is the next one and everything about it is true."""
    metadata = onto.metadata
    epoch = Epoch(metadata.epoch + 1)
    if sealed.epoch != epoch:
        raise ReplayError(epoch, f"the entry of epoch {sealed.epoch} is in its place")
    if sealed.previous_hash != onto.hash:
        raise ReplayError(epoch, "its previous hash is not the hash of the entry before it")
    if link(onto.hash, sealed.payload) != sealed.hash:
        raise ReplayError(epoch, "its hash does not fit its payload: one of them was changed")
    entry = _decoded(sealed, epoch)
    outcome = _executed(entry, metadata)
    if isinstance(outcome, Rejected):
        raise ReplayError(epoch, f"{sealed.kind} is refused: {outcome.detail} ({outcome.reason})")
    after = outcome.after
    if after.epoch != epoch or after.digest != entry.digest:
        raise ReplayError(epoch, "the metadata has another digest than the entry says")
    if after.cluster.id != entry.cluster:
        raise ReplayError(epoch, f"it belongs to cluster {entry.cluster}")
    if outcome.result != entry.result:
        raise ReplayError(epoch, f"its result is {outcome.result}, not {entry.result}")
    return Applied(after, sealed.hash)


def _decoded(sealed: SealedEntry, epoch: Epoch) -> Entry:
    try:
        entry = decode_entry(sealed.payload)
    except DecodeError as error:
        raise ReplayError(epoch, str(error)) from error
    if (entry.epoch, entry.entry_id, entry.kind) != (sealed.epoch, sealed.entry_id, sealed.kind):
        raise ReplayError(epoch, "its epoch, entry id or kind is not what its payload says")
    # Whoever audits looks at it again; from here on it is what the payload says.
    sealed.__dict__["entry"] = entry
    return entry


def _executed(entry: Entry, metadata: ClusterMetadata) -> Outcome:
    """Whatever goes wrong in here, an auditor is told the epoch."""
    try:
        return execute(entry.transformation, metadata)
    except Exception as error:
        raise ReplayError(entry.epoch, f"{entry.kind} cannot be executed: {error!r}") from error
