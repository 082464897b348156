"""An archive fills an empty database, and the cluster goes on as if nothing had happened."""

from __future__ import annotations

from uuid import UUID

import asyncpg
import msgspec
import pytest

from audit.archive import MANIFEST, encode_manifest, read_manifest
from audit.errors import ArchiveError
from audit.exporting import export, export_live, stored_entries
from audit.folder import folder
from audit.importing import Importer, ImportRefusedError, Target, import_archive
from audit.lineage import PostgresLineages
from audit.reading import join, open_archive
from audit.verify import Given, Verified, verify
from log.chain import NO_ENTRIES, NO_HASH, Tip, seal
from log.postgres import PostgresLog
from log.postgres_sessions import Sessions
from log.replay import replay
from log.store import Appended, StoreUnavailableError
from metadata.epoch import Epoch
from snapshots.postgres import PostgresSnapshots
from snapshots.restore import newest_usable
from tests.archives import KEY, archived, committed, entries_of
from transformations.extensions import SetExtension

ENTRIES = entries_of(2500)
BY = Importer(name="operator", lineage=UUID(int=7), anchored_by=("ringlog.example/log",))


@pytest.fixture
async def sessions(database):
    sessions = Sessions(database)
    yield sessions
    await sessions.close()


@pytest.fixture
def target(sessions):
    return Target(
        log=PostgresLog(sessions),
        snapshots=PostgresSnapshots(sessions),
        lineages=PostgresLineages(sessions),
    )


@pytest.fixture
def archive(tmp_path):
    archived(tmp_path, ENTRIES, snapshots={1200})
    return open_archive(tmp_path)


async def test_a_cluster_goes_on_from_its_archive(target, archive, tmp_path):
    """Same tip, same digest, same answers to retries; and the next export extends the archive."""
    lineage = await import_archive(archive, target, BY)

    assert await target.log.tip() == archive.tip == lineage.tip
    restored = await newest_usable(target.snapshots, target.log, up_to=Epoch(2500), report=print)
    assert restored == replay(ENTRIES)
    listed = await target.snapshots.listed(up_to=Epoch(2500), limit=10)
    assert [info.epoch for info in listed] == [2500, 1200]
    decisions = await target.log.decisions([ENTRIES[5].entry_id])
    assert decisions[ENTRIES[5].entry_id].epoch == 6
    step = committed(SetExtension(name="later", value="1"), restored)
    assert isinstance(await target.log.append([step.sealed], onto=archive.tip), Appended)

    await export_live(
        stored_entries(target.log, after=Epoch(2499)),
        folder(tmp_path),
        snapshots=target.snapshots,
        keys=[KEY],
    )
    verdict = verify(tmp_path, Given(keys=(KEY.public,), recompute=True))
    assert isinstance(verdict, Verified)
    assert verdict.tip == Tip(Epoch(2501), step.sealed.hash)


async def test_a_new_line_of_history_is_recorded_and_stays(target, archive, database):
    lineage = await import_archive(archive, target, BY)

    assert list(await target.lineages.recorded()) == [lineage]
    assert lineage.root == bytes.fromhex(archive.manifest.tip.root)
    connection = await asyncpg.connect(database)
    with pytest.raises(asyncpg.RestrictViolationError):
        await connection.execute("DELETE FROM lineage")
    await connection.close()


async def test_a_log_that_is_there_is_not_overwritten(target, archive):
    other = entries_of(3, salt="other")
    await target.log.append(other, onto=NO_ENTRIES)

    with pytest.raises(ImportRefusedError, match="its log ends at epoch 3; make a new one"):
        await import_archive(archive, target, BY)
    assert (await target.log.tip()).epoch == 3
    assert list(await target.lineages.recorded()) == []


class BreakingLog:
    """Loses the connection after some batches."""

    def __init__(self, log, batches):
        self._log = log
        self._batches = batches
        self.tip = log.tip

    async def append(self, entries, *, onto):
        self._batches -= 1
        if self._batches < 0:
            raise StoreUnavailableError("gone")
        return await self._log.append(entries, onto=onto)


@pytest.mark.parametrize("batches", [0, 1, 2])
async def test_an_import_that_was_broken_off_goes_on(target, archive, batches):
    breaking = msgspec.structs.replace(target, log=BreakingLog(target.log, batches))
    with pytest.raises(StoreUnavailableError):
        await import_archive(archive, breaking, BY)
    assert (await target.log.tip()).epoch == batches * 1000

    await import_archive(archive, target, BY)

    assert await target.log.tip() == archive.tip
    assert len(await target.lineages.recorded()) == 1
    await import_archive(archive, target, BY)


async def test_an_import_that_was_overtaken_is_refused(target, archive):
    """A log service that ran meanwhile has committed something of its own."""
    breaking = msgspec.structs.replace(target, log=BreakingLog(target.log, 1))
    with pytest.raises(StoreUnavailableError):
        await import_archive(archive, breaking, BY)
    step = committed(SetExtension(name="meanwhile", value="1"), replay(ENTRIES[:1000]))
    await target.log.append([step.sealed], onto=await target.log.tip())

    with pytest.raises(ImportRefusedError, match="went another way than the archive"):
        await import_archive(archive, target, BY)


class RivalledLog(BreakingLog):
    """Somebody else appends in between."""

    async def append(self, entries, *, onto):
        self._batches -= 1
        if self._batches < 0:
            step = committed(SetExtension(name="rival", value="1"), replay(ENTRIES[: onto.epoch]))
            await self._log.append([step.sealed], onto=onto)
        return await self._log.append(entries, onto=onto)


async def test_a_rival_makes_the_import_stop(target, archive):
    rivalled = msgspec.structs.replace(target, log=RivalledLog(target.log, 1))

    with pytest.raises(ImportRefusedError, match="Somebody else appends to the log behind epoch"):
        await import_archive(archive, rivalled, BY)


async def test_archives_are_imported_together_or_not_at_all(target, tmp_path):
    archived(tmp_path / "first", ENTRIES[:1200], snapshots=set())
    first = open_archive(tmp_path / "first")
    export(ENTRIES[1200:], folder(tmp_path / "second"), continuing=first)
    second = open_archive(tmp_path / "second")

    with pytest.raises(ArchiveError, match="it begins after epoch 1200: add what goes before"):
        await import_archive(second, target, BY)
    await import_archive(join([first, second]), target, BY)

    assert (await target.log.tip()).hash == ENTRIES[-1].hash


async def test_what_is_not_so_is_not_imported(target, tmp_path):
    """An entry that claims a digest the metadata does not have, chained as it should be."""
    entries, tip = [], NO_HASH
    for sealed in ENTRIES[:1500]:
        entry = sealed.entry
        if entry.epoch == 1300:
            entry = msgspec.structs.replace(entry, digest=bytes(32))
        entries.append(seal(entry, tip))
        tip = entries[-1].hash
    export(entries, folder(tmp_path))

    with pytest.raises(ArchiveError, match="epoch 1300: the metadata has another digest"):
        await import_archive(open_archive(tmp_path), target, BY)
    assert (await target.log.tip()).epoch == 1000


async def test_a_damaged_archive_is_not_imported(target, archive, tmp_path):
    manifest = read_manifest(folder(tmp_path))
    path = tmp_path / manifest.segments[0].path
    path.write_bytes(path.read_bytes()[:-1])

    with pytest.raises(ArchiveError, match="is not the file of the manifest"):
        await import_archive(archive, target, BY)
    assert encode_manifest(manifest) == (tmp_path / MANIFEST).read_bytes()
