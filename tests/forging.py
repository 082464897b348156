"""Changing archives behind everybody's back, as clumsily or as carefully as a forger would."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import msgspec

from audit.archive import (
    CHECKPOINT,
    MANIFEST,
    Manifest,
    Segment,
    decode_manifest,
    encode_manifest,
    read_manifest,
)
from audit.codecs import DEFAULT
from audit.containers import entry_container
from audit.folder import folder
from audit.reading import Archive
from audit.segments import schema_notes
from log.entry import SealedEntry
from metadata.epoch import Epoch

Entries = list[SealedEntry]


def without_snapshots(place: Path) -> Path:
    """As earlier releases wrote an archive behind one that had no snapshot at its end."""
    manifest = read_manifest(folder(place))
    for file in manifest.snapshots:
        (place / file.path).unlink()
    bare = msgspec.structs.replace(manifest, snapshots=())
    (place / MANIFEST).write_bytes(encode_manifest(bare))
    return place


class Forger:
    """Works on a copy; chance comes from a seed."""

    def __init__(self, archive: Path, copy: Path, seed: int) -> None:
        # Links cost no copying; `put` gives a file that changes a body of its own.
        shutil.copytree(archive, copy, copy_function=os.link)
        self.archive = copy
        self.chance = random.Random(seed)

    @property
    def files(self) -> list[str]:
        found = (path for path in self.archive.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.archive)) for path in found)

    @property
    def manifest(self) -> Manifest:
        return decode_manifest(self.get(MANIFEST))

    def get(self, path: str) -> bytes:
        return (self.archive / path).read_bytes()

    def put(self, path: str, data: bytes) -> None:
        whole = self.archive / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.unlink(missing_ok=True)
        whole.write_bytes(data)

    def any_file(self) -> str:
        """Each kind of file as often as the others, though most are tiles."""
        kinds = sorted({path.partition("/")[0] for path in self.files})
        kind = self.chance.choice(kinds)
        return self.chance.choice([path for path in self.files if path.partition("/")[0] == kind])

    def any_segment(self) -> Segment:
        return self.chance.choice(self.manifest.segments)

    def rewrite(
        self, segment: Segment, change: Callable[[Entries], Entries], codec: str = DEFAULT
    ) -> None:
        """Change the entries of a segment, and mend the manifest so that the file fits it."""
        archive = Archive(folder(self.archive), self.manifest)
        entries = list(archive.entries(Epoch(segment.first - 1), Epoch(segment.last)))
        changed = change(entries)
        data = entry_container(changed, schema_notes(item.payload for item in changed), codec)
        self.put(segment.path, data)
        mended = msgspec.structs.replace(
            segment,
            sha256=sha256(data).hexdigest(),
            size_bytes=len(data),
            payload_bytes=sum(len(item.payload) for item in changed),
        )
        segments = tuple(
            mended if item.path == segment.path else item for item in self.manifest.segments
        )
        self.mend(segments=segments)

    def mend(self, **changes: object) -> None:
        self.put(MANIFEST, encode_manifest(msgspec.structs.replace(self.manifest, **changes)))

    def leave_checkpoints_of(self, original: Path) -> None:
        """Nobody else can sign, but signatures that there are can be left where they were."""
        manifest = read_manifest(folder(original))
        for file in manifest.checkpoints:
            self.put(file.path, (original / file.path).read_bytes())
        self.put(CHECKPOINT, (original / CHECKPOINT).read_bytes())
        self.mend(checkpoints=manifest.checkpoints)
