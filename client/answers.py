"""What a CMS says, as values."""

from __future__ import annotations

from typing import Any

import msgspec

from encoding.entries import EntryId
from log.entry import SealedEntry
from metadata.epoch import Epoch
from transformations.outcome import Result

Plain = dict[str, Any]
"""An object as the JSON has it; views of the metadata are for people and keep this form."""


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """In the log, durably, at `epoch`. `entries` are those since the proposal's `last_known`."""

    epoch: Epoch
    entry_id: EntryId
    result: Result
    hash: bytes
    entries: tuple[SealedEntry, ...] = ()


class Span(msgspec.Struct, frozen=True):
    """A range that is in the way; tokens are text as everywhere in JSON."""

    left: str
    right: str


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """Refused for good under this entry id; whoever wants to try again takes a new one.

    `code` is stable, `detail` is for people. `index` is the place in an atomic batch.
    """

    code: str
    detail: str
    epoch: Epoch | None = None
    remedy: str | None = None
    sequence: int | None = None
    step: str | None = None
    ranges: tuple[Span, ...] = ()
    index: int | None = None


Outcome = Committed | Rejected


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem document; members that this release does not know are ignored."""

    status: int = 0
    code: str = ""
    title: str = ""
    detail: str = ""
    epoch: Epoch | None = None
    remedy: str | None = None
    sequence: int | None = None
    step: str | None = None
    ranges: tuple[Span, ...] = ()
    index: int | None = None

    @property
    def sentence(self) -> str:
        said = self.detail or self.title or self.code or f"The CMS answered {self.status}"
        return said if said.endswith((".", "!", "?")) else f"{said}."

    def as_rejected(self) -> Rejected:
        return Rejected(
            code=self.code,
            detail=self.detail or self.title,
            epoch=self.epoch,
            remedy=self.remedy,
            sequence=self.sequence,
            step=self.step,
            ranges=self.ranges,
            index=self.index,
        )


class CommitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A commit as it comes over the wire."""

    epoch: Epoch
    entry_id: EntryId
    result: Result = Result()
    hash: str
    entries: tuple[msgspec.Raw, ...] = ()


class BatchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    outcomes: tuple[msgspec.Raw, ...]


class Cms(msgspec.Struct, frozen=True, kw_only=True):
    """One address, as it looked from here."""

    url: str
    alive: bool
    ready: bool


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The newest epoch, the cluster that was founded (if one was) and who serves it."""

    epoch: Epoch
    cluster: str | None
    name: str | None
    partitioner: str | None
    cms: tuple[Cms, ...]
