"""Long logs that cost little to make, and archives of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest

from audit.exporting import export
from audit.folder import folder
from audit.keys import PrivateKey
from encoding.entries import Entry, EntryId
from encoding.images import encode_image
from log.chain import seal
from log.entry import SealedEntry
from log.replay import NOTHING_APPLIED, Applied, replayed
from snapshots.store import Snapshot
from tests.builders import CLUSTER, accepted
from transformations.extensions import SetExtension
from transformations.initialize import Initialize
from transformations.kinds import AnyTransformation, execute

OTHER_CLUSTER = "00000000-0000-4000-8000-000000000002"
KEY = PrivateKey("ringlog.example/log", bytes(range(32)))
OTHER_KEY = PrivateKey("ringlog.example/log", bytes(range(1, 33)))
NAMES = 50
"""How many extensions are set over and over, so that the metadata stays small."""


class Step(NamedTuple):
    sealed: SealedEntry
    applied: Applied


def long_log(length: int, *, cluster: str = CLUSTER, salt: str = "") -> Iterator[Step]:
    """A founding entry and extensions; with another salt the log is another from epoch 2 on."""
    onto = NOTHING_APPLIED
    for number in range(length):
        transformation: AnyTransformation = (
            SetExtension(name=f"name{number % NAMES}", value=f"{salt}{number}")
            if number
            else Initialize(name="archived", cluster=cluster)
        )
        step = committed(transformation, onto)
        onto = step.applied
        yield step


def committed(transformation: AnyTransformation, onto: Applied) -> Step:
    outcome = accepted(execute(transformation, onto.metadata))
    after = outcome.after
    sealed = seal(
        Entry(
            cluster=after.cluster.id,
            epoch=after.epoch,
            entry_id=EntryId(UUID(int=after.epoch)),
            transformation=transformation,
            result=outcome.result,
            digest=after.digest,
            actor=None,
            reason=None,
            committed_at=1_750_000_000_000_000 + after.epoch,
            committed_by="cms1",
        ),
        onto.hash,
    )
    return Step(sealed, Applied(after, sealed.hash))


def entries_of(length: int, **kinds: str) -> list[SealedEntry]:
    return [step.sealed for step in long_log(length, **kinds)]


def snapshot_of(applied: Applied) -> Snapshot:
    return Snapshot(
        epoch=applied.metadata.epoch,
        digest=applied.metadata.digest,
        hash=applied.hash,
        image=encode_image(applied.metadata),
    )


def snapshots_at(entries: Iterable[SealedEntry], epochs: set[int]) -> list[Snapshot]:
    return [
        snapshot_of(applied) for applied in replayed(entries) if applied.metadata.epoch in epochs
    ]


def archived(
    path: Path, entries: list[SealedEntry], *, signed_at: Iterable[int] = (), snapshots: set[int]
) -> Path:
    """An archive that grew by several exports, signed at the end of each."""
    before = 0
    for size in [*signed_at, len(entries)]:
        export(
            entries[max(before - 1, 0) : size],
            folder(path),
            snapshots=snapshots_at(entries[:size], {e for e in snapshots if before < e <= size}),
            keys=[KEY],
        )
        before = size
    return path


SMALL = 3000
SMALL_SEGMENT = 500


def small_archive(path: Path, entries: list[SealedEntry]) -> Path:
    """Some segments, three checkpoints and three snapshots."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("audit.segments.SEGMENT_ENTRIES_MAX", SMALL_SEGMENT)
        return archived(path, entries, signed_at=[1000, 2100], snapshots={700, 1500, 3000})
