"""Verifying an archive: every file, every entry, the tree and who signed it, in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from audit.anchors import Anchor, Kept, anchors_of, size_of
from audit.archive import CHECKPOINT, MANIFEST, Manifest, read_manifest
from audit.errors import ArchiveError, NotInARowError
from audit.folder import Folder, folder
from audit.history import History
from audit.keys import PublicKey
from audit.passing import Watch, check_entries
from audit.reading import Archive, join, open_archive
from audit.tiles import Place, place_of
from log.chain import Tip
from metadata.cluster import ClusterId
from metadata.epoch import Epoch

_UNSEEN = (
    "the snapshot of epoch {}, where it begins, could not be held against its entry, which is in "
    "the archive before"
)


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """Everything fits together; `anchored_up_to` says how much of it somebody vouches for.

    What lies behind that epoch is consistent, but whoever can write the archive could have
    written all of it. `strays` are files that do not belong to the archive and were not read;
    `unchecked` says in sentences what could not be held against anything.
    """

    archive: str
    cluster: ClusterId
    name: str
    after: Epoch
    tip: Tip
    root: bytes
    anchored_up_to: Epoch
    anchored_by: tuple[str, ...]
    recomputed: bool
    strays: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()

    @property
    def is_anchored(self) -> bool:
        return self.anchored_up_to >= self.tip.epoch

    @property
    def sentence(self) -> str:
        """The verdict in one line."""
        digests = "digests recomputed" if self.recomputed else "digests not recomputed"
        return "; ".join([self._said(), digests, *self.unchecked])

    def _said(self) -> str:
        epochs = f"epochs {self.after + 1} to {self.tip.epoch}"
        if self.after == self.tip.epoch:
            epochs = f"no entries behind epoch {self.after}"
        if not self.anchored_by:
            return f"{epochs}: consistent, not anchored"
        names = ", ".join(self.anchored_by)
        if self.is_anchored:
            return f"{epochs}: verified and anchored by {names}"
        return (
            f"{epochs}: verified and anchored by {names} up to {self.anchored_up_to}; "
            "consistent, not anchored, behind that"
        )


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """The first thing that is wrong: in which file, what, and the first epoch that is in doubt."""

    where: str
    epoch: Epoch | None
    fault: str
    is_misuse: bool = False
    """Nothing is wrong with the archives; they were not named so that they follow one another."""

    @property
    def sentence(self) -> str:
        place = self.where if self.epoch is None else f"{self.where}, epoch {self.epoch}"
        return f"{place}: {self.fault}."


Verdict = Verified | Fault


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What the auditor brings along: keys, checkpoints kept elsewhere, and patience.

    With `recompute` every transformation is executed again and must lead to the digest that
    its entry says.
    """

    keys: tuple[PublicKey, ...] = ()
    checkpoints: tuple[Kept, ...] = ()
    recompute: bool = False
    progress: Watch = lambda _done, _total: None


NOTHING_GIVEN = Given()


def verify(
    place: str | Path | Folder, given: Given = NOTHING_GIVEN, *, before: History | None = None
) -> Verified | Fault:
    """What is to be said about the archive. Reads all of it, a segment at a time.

    `before` is what it continues, verified already: where it begins without a snapshot, digests
    are recomputed from there.
    """
    try:
        files = place if isinstance(place, Folder) else folder(place)
        manifest = read_manifest(files)
        anchors = anchors_of(files, manifest, given.keys, given.checkpoints)
        paths = list(files.paths())
        tiles = _tiles(paths, manifest.tip.epoch)
        beginning = check_entries(
            Archive(files, manifest),
            anchors,
            tiles.values(),
            given.progress,
            recompute=given.recompute,
            before=before,
        )
    except ArchiveError as error:
        return fault_of(error)
    belonging = tiles.keys() | _named(manifest)
    strays = [path for path in paths if path not in belonging]
    verdict = _verdict(manifest, files, anchors, given)
    if isinstance(verdict, Fault):
        return verdict
    if not beginning.hash_seen and verdict.anchored_up_to <= verdict.after:
        # A root that was signed where it begins says nothing of the hash there, if that is not
        # seen to be in the tree. One that was signed later covers it with the first entry.
        verdict = msgspec.structs.replace(verdict, anchored_up_to=Epoch(0), anchored_by=())
    unchecked = [] if beginning.digest_seen else [_UNSEEN.format(manifest.after.epoch)]
    return msgspec.structs.replace(verdict, strays=tuple(strays), unchecked=tuple(unchecked))


def verify_all(places: Sequence[str | Path], given: Given = NOTHING_GIVEN) -> list[Verdict]:
    """On each archive and, where all are sound by themselves, on whether they are one history."""
    spans = [_span(place) for place in places]
    found: dict[int, Verdict] = {}
    for number in sorted(range(len(places)), key=lambda number: spans[number] or (0, 0)):
        ours = msgspec.structs.replace(given, checkpoints=_kept_for(number, spans, given))
        earlier = [places[other] for other in found if isinstance(found[other], Verified)]
        before = _row_of(earlier) if given.recompute else None
        found[number] = verify(places[number], ours, before=before)
    verdicts = [found[number] for number in range(len(places))]
    if len(places) > 1 and not any(isinstance(verdict, Fault) for verdict in verdicts):
        try:
            join([open_archive(place) for place in places])
        except ArchiveError as error:
            verdicts.append(fault_of(error))
    return verdicts


def fault_of(error: ArchiveError) -> Fault:
    is_misuse = isinstance(error, NotInARowError)
    return Fault(where=error.where, epoch=error.epoch, fault=error.fault, is_misuse=is_misuse)


def _row_of(places: Sequence[str | Path]) -> History | None:
    """None where they are not in a row, which is said when all are seen."""
    try:
        return join([open_archive(place) for place in places]) if places else None
    except ArchiveError:
        return None


def _span(place: str | Path) -> tuple[int, int] | None:
    try:
        manifest = read_manifest(folder(place))
    except ArchiveError:
        return None  # Verifying says why.
    return manifest.after.epoch, manifest.tip.epoch


def _kept_for(
    number: int, spans: Sequence[tuple[int, int] | None], given: Given
) -> tuple[Kept, ...]:
    """The checkpoints to hold one of several archives against: those of epochs that it holds.

    Those of none are for the last, or for the first, which then says what is missing.
    """
    known = [span for span in spans if span is not None]
    ours = spans[number]
    if len(known) < len(spans) or ours is None:
        return given.checkpoints
    found = []
    for kept in given.checkpoints:
        size = size_of(kept)
        holding = [span for span in known if span[0] < size <= span[1]]
        beyond = max(known, key=lambda span: span[1]) if size > ours[1] else min(known)
        if ours in (holding or [beyond]):
            found.append(kept)
    return tuple(found)


def _verdict(
    manifest: Manifest, files: Folder, anchors: Sequence[Anchor], given: Given
) -> Verified | Fault:
    signed = [anchor for anchor in anchors if anchor.keys]
    if given.keys and not signed:
        where = CHECKPOINT if manifest.checkpoints else MANIFEST
        return Fault(
            where=where, epoch=None, fault="no checkpoint is signed by a key that was given"
        )
    best = max(signed, key=lambda anchor: anchor.epoch, default=None)
    return Verified(
        archive=files.name,
        cluster=manifest.cluster,
        name=manifest.name,
        after=manifest.after.tip.epoch,
        tip=manifest.tip.tip,
        root=bytes.fromhex(manifest.tip.root),
        anchored_up_to=best.epoch if best else Epoch(0),
        anchored_by=tuple(sorted({key.name for key in best.keys})) if best else (),
        recomputed=given.recompute,
    )


def _tiles(paths: Sequence[str], size: int) -> dict[str, Place]:
    """The files that are tiles of a tree of this size, or parts of them."""
    places = ((path, place_of(path)) for path in paths)
    return {path: place for path, place in places if place and place.is_within(size)}


def _named(manifest: Manifest) -> set[str]:
    return {MANIFEST, CHECKPOINT, *(file.path for file in manifest.files())}
