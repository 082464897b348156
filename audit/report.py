"""A report on a history: whether it can be trusted, what happened, and what proves it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

import msgspec

from audit.errors import ArchiveError
from audit.history import History
from audit.keys import PublicKey
from audit.notes import NoteError
from audit.reading import Archive, join, open_archive
from audit.replay import Progress, Report, audited
from audit.report_chronicle import Chronicle, Chronicler
from audit.stored_checkpoints import read_checkpoint
from audit.verify import Given, Verdict, Verified, verify_all
from metadata.epoch import EMPTY, Epoch

CHECKPOINTS_SHOWN_MAX = 50

Watch = Callable[[Progress], None]


class Trust(StrEnum):
    """What is said on top, from the worst to the best."""

    TAMPERED = "tampered"
    BROKEN = "broken"
    MISUSED = "misused"
    UNRECOMPUTED = "unrecomputed"
    UNANCHORED = "unanchored"
    ANCHORED = "anchored"


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """An archive, or a running cluster, and what verifying it came to."""

    name: str
    holds: bool
    is_anchored: bool
    said: str
    is_misuse: bool = False


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint of the archive: names on it, and those whose key was given and did sign it."""

    where: str
    epoch: int
    root: str
    names: tuple[str, ...]
    signed_by: tuple[str, ...]


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """The entries behind `after` up to `tip`; no `replay` where there was nothing to begin from."""

    cluster: str
    name: str
    after: Epoch
    tip: Epoch
    hash: str
    root: str | None
    replay: Report | None
    chronicle: Chronicle


class Made(msgspec.Struct, frozen=True):
    """By which release of ours, and when."""

    release: str
    at: str


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """`contents` are missing where nothing of the history could be read."""

    made: Made
    sources: tuple[Examined, ...]
    contents: Contents | None
    keys: tuple[str, ...] = ()
    proofs: tuple[Proof, ...] = ()

    @property
    def trust(self) -> Trust:
        faulty = [source for source in self.sources if not source.holds]
        if faulty and all(source.is_misuse for source in faulty):
            return Trust.MISUSED
        if faulty or self.contents is None:
            return Trust.TAMPERED
        if self.contents.replay is None:
            return Trust.UNRECOMPUTED
        if not self.contents.replay.holds:
            return Trust.BROKEN
        is_anchored = all(source.is_anchored for source in self.sources)
        return Trust.ANCHORED if is_anchored else Trust.UNANCHORED

    @property
    def holds(self) -> bool:
        return self.trust in (Trust.UNANCHORED, Trust.ANCHORED)

    @property
    def headline(self) -> str:
        match self.trust:
            case Trust.TAMPERED:
                return "This history was tampered with, or is damaged. Do not rely on it."
            case Trust.BROKEN:
                return "The files are intact, but this history does not hold."
            case Trust.MISUSED:
                return "These archives do not follow one another. Nothing is said of what they say."
            case Trust.UNRECOMPUTED:
                return (
                    "The files are intact, but not recomputed: the history begins without a "
                    "snapshot. Name the archive before it, too."
                )
            case Trust.UNANCHORED:
                return "Everything fits together, but nobody vouches for all of it."
            case Trust.ANCHORED:
                return "Verified: these are the entries that were signed, and they hold."


def report_on_archives(
    places: Sequence[str], given: Given, made: Made, progress: Watch = lambda _: None
) -> AuditReport:
    """One history in archives that follow one another; what is wrong with them is in the report."""
    verdicts = verify_all(places, given)
    examined = tuple(map(_examined, verdicts, (*places, "")))
    keys = tuple(key.text for key in given.keys)
    try:
        archives = [open_archive(place) for place in places]
        history = archives[0] if len(archives) == 1 else join(archives)
    except ArchiveError:
        # Which verifying has told.
        return AuditReport(made=made, sources=examined, contents=None, keys=keys)
    last = archives[-1].manifest
    contents = _contents(history, history.after.epoch, progress)
    return AuditReport(
        made=made,
        sources=examined,
        contents=msgspec.structs.replace(
            contents, cluster=last.cluster, name=last.name, root=last.tip.root
        ),
        keys=keys,
        proofs=tuple(_proofs(archives, given.keys)),
    )


def report_on_live(
    history: History, where: str, made: Made, progress: Watch = lambda _: None
) -> AuditReport:
    """A running cluster: what came was held against its hashes, and nobody vouches for it."""
    said = "hashes were checked as the entries came; consistent, not anchored"
    source = Examined(name=where, holds=True, is_anchored=False, said=said)
    return AuditReport(made=made, sources=(source,), contents=_contents(history, EMPTY, progress))


def _examined(verdict: Verdict, place: str) -> Examined:
    """What is wrong with several together is of no place."""
    if isinstance(verdict, Verified):
        is_anchored, said = verdict.is_anchored, verdict.sentence
        return Examined(name=place, holds=True, is_anchored=is_anchored, said=said)
    return Examined(
        name=place or verdict.where,
        holds=False,
        is_anchored=False,
        said=verdict.sentence,
        is_misuse=verdict.is_misuse,
    )


def _contents(history: History, after: Epoch, progress: Watch) -> Contents:
    chronicler = Chronicler()
    replay: Report | None = None
    try:
        replay = audited(history, after=after, progress=progress, step=chronicler.apply)
    except ArchiveError:
        # It begins behind another archive and has no snapshot of where it begins.
        assert after != EMPTY
    return Contents(
        cluster="" if replay is None else replay.cluster,
        name=chronicler.name,
        after=after,
        tip=history.tip.epoch,
        hash=history.tip.hash.hex(),
        root=None,
        replay=replay,
        chronicle=chronicler.chronicle(),
    )


def _proofs(archives: Sequence[Archive], keys: Sequence[PublicKey]) -> list[Proof]:
    """The newest checkpoints; one that cannot be read is a fault that verifying told already."""
    files = [(archive, file) for archive in archives for file in archive.manifest.checkpoints]
    found = []
    for archive, file in files[-CHECKPOINTS_SHOWN_MAX:]:
        try:
            signed = read_checkpoint(archive.files, file)
            signers = signed.verified_by(keys)
        except (ArchiveError, NoteError):
            continue
        proof = Proof(
            where=file.path,
            epoch=file.epoch,
            root=signed.checkpoint.root.hex(),
            names=tuple(item.name for item in signed.note.signatures),
            signed_by=tuple(key.name for key in signers),
        )
        found.append(proof)
    return found
