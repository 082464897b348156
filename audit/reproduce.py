"""Whether a release decides as those before it did: every recorded digest, computed again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Protocol

import msgspec

from audit.history import History, check_epoch, nearest_snapshot
from log.chain import Tip
from log.postgres_sessions import Sessions
from log.replay import ReplayError, apply
from metadata.epoch import EMPTY, Epoch

DECIDING = ("metadata", "transformations", "encoding", "log")
"""The packages that take part in turning stored bytes into metadata and its digest."""

LIBRARIES = ("fastavro", "immutables", "msgspec", "numpy", "xxhash")
SOURCES = (".py", ".avsc")
FOLDERS_DEEP_MAX = 8
PROGRESS_EVERY_ENTRIES = 1_000

_FIND = "SELECT epoch, hash FROM reproduced WHERE fingerprint = $1"
# Whoever knows less does not take back what is known of the same log; another log replaces it.
_KEEP = """
INSERT INTO reproduced (fingerprint, version, epoch, hash, reproduced_by)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (fingerprint) DO UPDATE SET
    version = excluded.version, epoch = excluded.epoch, hash = excluded.hash,
    reproduced_at = clock_timestamp(), reproduced_by = excluded.reproduced_by
WHERE $6 OR reproduced.epoch < excluded.epoch
"""


class Release(msgspec.Struct, frozen=True):
    """What is installed: `fingerprint` differs wherever anything that decides does."""

    version: str
    fingerprint: bytes

    def __str__(self) -> str:
        return f"{self.version} ({self.fingerprint.hex()[:12]})"


class NotReproducedError(Exception):
    """The release decides otherwise than the log says. The message is one sentence for people."""

    def __init__(self, release: Release, epoch: Epoch, fault: str) -> None:
        super().__init__(
            f"Release {release} does not reproduce epoch {epoch} of this history: {fault}. It must "
            "not sequence: go back to a release that does, and run `ringlog audit verify` to see "
            "whether the history is sound."
        )
        self.epoch = epoch
        self.fault = fault


class Proofs(Protocol):
    """How far each release was held against this log."""

    async def find(self, release: Release) -> Tip | None: ...

    async def keep(
        self, release: Release, up_to: Tip, *, by: str, is_another_log: bool = False
    ) -> None: ...


class PostgresProofs:
    """Beside the log, so that it is done once for all processes."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def find(self, release: Release) -> Tip | None:
        rows = await self._sessions.fetch(_FIND, release.fingerprint)
        return Tip(Epoch(rows[0]["epoch"]), rows[0]["hash"]) if rows else None

    async def keep(
        self, release: Release, up_to: Tip, *, by: str, is_another_log: bool = False
    ) -> None:
        await self._sessions.fetch(
            _KEEP,
            release.fingerprint,
            release.version,
            up_to.epoch,
            up_to.hash,
            by,
            is_another_log,
        )


def reproduced(
    history: History,
    release: Release,
    *,
    after: Epoch = EMPTY,
    up_to: Epoch | None = None,
    progress: Callable[[Epoch], None] = lambda _: None,
) -> Tip:
    """Execute every entry behind `after` again; one that comes out otherwise is an error."""
    end = history.tip.epoch if up_to is None else up_to
    check_epoch(history, end)
    check_epoch(history, after)
    applied = nearest_snapshot(history, after)
    try:
        for sealed in history.entries(applied.metadata.epoch, end):
            applied = apply(sealed, applied)
            if sealed.epoch % PROGRESS_EVERY_ENTRIES == 0:
                progress(sealed.epoch)
    except ReplayError as error:
        raise NotReproducedError(release, error.epoch, error.fault) from error
    return applied.tip


def installed_release() -> Release:
    """Of the sources as they lie there, the libraries they decide with, and this Python."""
    digest = sha256()
    for package in DECIDING:
        for path, content in _sources(files(package), package, FOLDERS_DEEP_MAX):
            digest.update(sha256(path.encode()).digest() + sha256(content).digest())
    for library in LIBRARIES:
        digest.update(sha256(f"{library} {version(library)}".encode()).digest())
    digest.update("{}.{}".format(*sys.version_info[:2]).encode())
    return Release(version("ringlog"), digest.digest())


def _sources(folder: Traversable, path: str, deep_max: int) -> Iterator[tuple[str, bytes]]:
    """In the order of their names, whatever the disk says."""
    for item in sorted(folder.iterdir(), key=lambda found: found.name):
        inner = f"{path}/{item.name}"
        if item.is_dir() and deep_max:
            yield from _sources(item, inner, deep_max - 1)
        elif item.name.endswith(SOURCES):
            yield inner, item.read_bytes()
