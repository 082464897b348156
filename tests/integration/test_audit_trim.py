"""`ringlog audit trim`: only what an archive holds goes, and nothing that anybody needs."""

from __future__ import annotations

import json
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import asyncpg
import msgspec
import pytest

from audit.exporting import export, export_live, stored_entries
from audit.folder import folder
from audit.importing import Importer, Target, import_archive
from audit.lineage import PostgresLineages
from audit.reading import open_archive
from audit.verify import Given, Verified, verify
from log.chain import Tip, seal
from log.postgres import PostgresLog
from log.postgres_room import divide, make_room
from log.postgres_sessions import Sessions
from log.replay import replay
from log.store import Appended, TrimmedError
from metadata.epoch import Epoch
from migrations.apply import apply
from migrations.failure import MigrationError
from snapshots.postgres import PostgresSnapshots
from snapshots.restore import newest_usable
from tests.archives import KEY, committed, entries_of, snapshot_of, snapshots_at
from tests.forging import without_snapshots
from tests.integration.trimmed import SIZE, asked, audit, filled, signed_archive, trimmed
from transformations.extensions import SetExtension

ENTRIES = entries_of(3200)
EVERYTHING = {"entries_max": 10_000, "bytes_max": 1_000_000_000}
TRIM = "SELECT trim_log($1, $2, $3, 'there', '{}', 'test')"


@pytest.fixture
async def sessions(database):
    sessions = Sessions(database)
    yield sessions
    await sessions.close()


@pytest.fixture
async def live(database, tmp_path):
    """A log of 3,200 entries, and an archive that holds 2,900 of them."""
    await filled(database, ENTRIES)
    signed_archive(tmp_path / "archive", ENTRIES[:2900], snapshots_at(ENTRIES[:1500], {1500}))
    return database


async def first_epoch(dsn):
    (row,) = await asked(dsn, "SELECT min(epoch) AS first FROM log_entries")
    return row["first"]


async def test_whole_partitions_go_and_everything_is_answered_alike(live, sessions, tmp_path):
    log = PostgresLog(sessions)
    ids = [sealed.entry_id for sealed in ENTRIES]
    before = await log.decisions(ids)

    said = await trimmed(live, tmp_path / "archive", 2500)
    assert said.exit_code == 0, said.output
    assert "Would let go of epochs 1 to 1999" in said.output
    assert await first_epoch(live) == 1

    done = await trimmed(live, tmp_path / "archive", 2500, "--yes", "--json")

    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["seam"] == 1999
    assert await first_epoch(live) == 2000
    assert await log.decisions(ids) == before
    assert await log.hash_at(Epoch(7)) == ENTRIES[6].hash
    assert await log.tip() == Tip(Epoch(3200), ENTRIES[-1].hash)
    (seam, *rest) = await log.read_after(Epoch(1998), **EVERYTHING)
    assert (seam.hash, len(rest)) == (ENTRIES[1998].hash, 1201)
    with pytest.raises(TrimmedError, match="up to epoch 1999 are no longer kept") as gone:
        await log.read_after(Epoch(1997), **EVERYTHING)
    assert gone.value.archive == str(tmp_path / "archive")
    snapshots = PostgresSnapshots(sessions)
    restored = await newest_usable(snapshots, log, up_to=Epoch(1999), report=print)
    assert replay(rest, restored) == replay(ENTRIES)
    again = await trimmed(live, tmp_path / "archive", 2500, "--yes")
    assert "nothing to trim" in again.output


async def test_the_log_and_its_archive_go_on_across_the_seam(
    live, sessions, tmp_path, blank_database
):
    log, snapshots = PostgresLog(sessions), PostgresSnapshots(sessions)
    archive = tmp_path / "archive"
    assert (await trimmed(live, archive, 2900, "--yes")).exit_code == 0
    step = committed(SetExtension(name="later", value="1"), replay(ENTRIES))
    assert isinstance(await log.append([step.sealed], onto=await log.tip()), Appended)

    entries = stored_entries(log, after=Epoch(2899))
    await export_live(entries, folder(archive), snapshots=snapshots, keys=[KEY])

    verdict = verify(archive, Given(keys=(KEY.public,), recompute=True))
    assert isinstance(verdict, Verified)
    assert verdict.tip.epoch == 3201
    done = await trimmed(live, archive, 3201, "--yes")
    assert "epochs 2000 to 2999" in done.output
    assert await first_epoch(live) == 3000

    imported = await audit("import", archive, RINGLOG_POSTGRES_DSN=blank_database)
    assert imported.exit_code == 0, imported.output
    (row,) = await asked(blank_database, "SELECT count(*) AS rows FROM log_entries")
    assert row["rows"] == 3201


async def test_an_archive_that_ends_at_the_seam_goes_on(live, sessions, tmp_path):
    """The last entry of the archive comes again in an export, and is the one at the seam."""
    signed_archive(tmp_path / "short", ENTRIES[:1999])
    assert (await trimmed(live, tmp_path / "short", 1999, "--yes")).exit_code == 0

    await export_live(
        stored_entries(PostgresLog(sessions), after=Epoch(1998)),
        folder(tmp_path / "short"),
        snapshots=PostgresSnapshots(sessions),
    )

    assert open_archive(tmp_path / "short").tip.hash == ENTRIES[-1].hash


async def test_archives_that_follow_one_another_hold_it_together(live, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    key = signed_archive(first, ENTRIES[:1500])
    export(ENTRIES[1500:2900], folder(second), keys=[KEY], continuing=open_archive(first))

    alone = await trimmed(live, second, 2500, "--yes")
    assert alone.exit_code == 1
    assert "name the archive before it" in alone.output
    both = ("--archive", first, "--archive", second)
    done = await audit(
        "trim", "--up-to", 2500, *both, "--key", key, "--yes", RINGLOG_POSTGRES_DSN=live
    )

    assert done.exit_code == 0, done.output
    assert await first_epoch(live) == 2000


async def test_archives_in_a_row_are_all_executed_again(live, tmp_path):
    """Also one that begins without a snapshot: it is executed on what the one before it ends in."""
    first, second = tmp_path / "first", tmp_path / "second"
    key = signed_archive(first, ENTRIES[:1500])
    digest = msgspec.structs.replace(ENTRIES[1500].entry, digest=bytes(32))
    false = seal(digest, ENTRIES[1499].hash)
    export([false], folder(second), keys=[KEY], continuing=open_archive(first))
    without_snapshots(second)
    both = ("--archive", first, "--archive", second)

    said = await audit(
        *("trim", "--up-to", 1501, *both, "--key", key, "--yes"), RINGLOG_POSTGRES_DSN=live
    )

    assert said.exit_code == 1
    assert "epoch 1501: the metadata has another digest than the entry says" in said.output
    assert await first_epoch(live) == 1


async def test_a_checkpoint_is_held_against_the_archive_that_holds_its_epoch(live, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    key = signed_archive(first, ENTRIES[:1500])
    export(ENTRIES[1500:2900], folder(second), keys=[KEY], continuing=open_archive(first))
    both = ("--archive", second, "--archive", first)
    kept = ("--checkpoint", first / "checkpoint", "--checkpoint", second / "checkpoint")

    done = await audit(
        *("trim", "--up-to", 2500, *both, *kept, "--key", key, "--yes"), RINGLOG_POSTGRES_DSN=live
    )

    assert done.exit_code == 0, done.output
    assert await first_epoch(live) == 2000


async def test_a_partition_stays_if_it_holds_anything_beyond(live, tmp_path):
    done = await trimmed(live, tmp_path / "archive", 998, "--yes")
    assert "nothing to trim" in done.output
    done = await trimmed(live, tmp_path / "archive", 999, "--yes")
    assert "epochs 1 to 999" in done.output
    assert await first_epoch(live) == 1000


async def test_what_no_archive_holds_is_not_trimmed(live, tmp_path):
    archive = tmp_path / "archive"
    beyond = await trimmed(live, archive, 2901, "--yes")
    assert beyond.exit_code == 1
    assert "ends at epoch 2900: export up to 2901 first" in beyond.output

    signed_archive(tmp_path / "other", entries_of(2900, salt="x"))
    other = await trimmed(live, tmp_path / "other", 2500, "--yes")
    assert other.exit_code == 1
    assert "another history than the log" in other.output

    segment = next((archive / "segments").iterdir())
    data = bytearray(segment.read_bytes())
    data[-100] ^= 1
    segment.write_bytes(data)
    damaged = await trimmed(live, archive, 2500, "--yes")
    assert damaged.exit_code == 1
    assert "Nothing is trimmed" in damaged.output
    assert await first_epoch(live) == 1


async def test_an_archive_that_nobody_signed_is_not_enough(live, tmp_path):
    unsigned = await audit(
        *("trim", "--up-to", 2500, "--archive", tmp_path / "archive", "--yes"),
        RINGLOG_POSTGRES_DSN=live,
    )
    assert unsigned.exit_code == 2
    assert "--key" in unsigned.output
    archive = tmp_path / "half"
    signed_archive(archive, ENTRIES[:1500])
    export(ENTRIES[1499:2900], folder(archive))
    half = await trimmed(live, archive, 2500, "--yes")
    assert half.exit_code == 1
    assert "signed up to epoch 1500 only, and 1999 is to go" in half.output
    assert await first_epoch(live) == 1


async def with_seam_snapshot(dsn, epoch=999):
    sessions = Sessions(dsn)
    snapshot = snapshot_of(replay(ENTRIES[:epoch]))
    await PostgresSnapshots(sessions).save(snapshot, created_by="test")
    await sessions.close()


async def refused(dsn, *arguments, match):
    connection = await asyncpg.connect(dsn)
    try:
        with pytest.raises(asyncpg.RestrictViolationError, match=match):
            await connection.execute(TRIM, *arguments)
    finally:
        await connection.close()
    assert await first_epoch(dsn) == 1


async def test_the_function_itself_sees_whether_it_may(live):
    """Whoever calls it, and whatever they say of an archive."""
    root, right = bytes(32), ENTRIES[998].hash
    await refused(live, 999, right, root, match="there is no snapshot of epoch 999")
    await with_seam_snapshot(live)
    await refused(live, 999, bytes(32), root, match="epoch 999 has another hash")
    await refused(live, 1999, ENTRIES[1998].hash, root, match="does not end at epoch 1999")
    await refused(live, 998, ENTRIES[997].hash, root, match="does not end at epoch 998")


async def test_the_newest_entry_always_stays(database):
    await filled(database, ENTRIES[:999])
    await with_seam_snapshot(database)
    await refused(database, 999, ENTRIES[998].hash, bytes(32), match="the log ends at epoch 999")


TAMPERED = {
    "does not continue the chain": "UPDATE log_entries SET payload = payload || '\\x00' "
    "WHERE epoch = 500",
    "there are 998 rows": "DELETE FROM log_entries WHERE epoch = 500",
    "could not be answered": "DELETE FROM decisions WHERE epoch = 500",
}


@pytest.mark.parametrize("fault", TAMPERED)
async def test_evidence_of_tampering_is_not_dropped(live, fault):
    """A superuser went round the triggers; the rows are all that shows it."""
    await with_seam_snapshot(live)
    await asked(live, "ALTER TABLE log_entries DISABLE TRIGGER ALL")
    for number in range(4):
        await asked(live, f"ALTER TABLE log_entries_{number} DISABLE TRIGGER ALL")
    await asked(live, "ALTER TABLE decisions DISABLE TRIGGER ALL")
    await asked(live, TAMPERED[fault])

    await refused(live, 999, ENTRIES[998].hash, bytes(32), match=fault)


async def test_a_seam_cannot_be_undone(live, tmp_path):
    assert (await trimmed(live, tmp_path / "archive", 2500, "--yes")).exit_code == 0

    for statement in (
        "DELETE FROM log_seams",
        "UPDATE log_seams SET archive = 'elsewhere'",
        "TRUNCATE log_seams",
        "DELETE FROM snapshots WHERE epoch = 1999",
        "UPDATE snapshots SET image = '' WHERE epoch = 999",
        "UPDATE log_partitioning SET epochs_per_partition = 5000",
        "DELETE FROM log_partitioning",
    ):
        with pytest.raises(asyncpg.RestrictViolationError):
            await asked(live, statement)
    with pytest.raises(asyncpg.RestrictViolationError, match="epoch 1999 had another hash"):
        await asked(live, TRIM, 1999, bytes(32), bytes(32))
    await asked(live, "DELETE FROM snapshots WHERE epoch = 1500")


async def test_only_the_function_removes_entries(live):
    """For a daily user that is no superuser; the log belongs to a role that nobody logs in as."""
    name = f"daily_{uuid4().hex}"
    await asked(live, f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
    try:
        await asked(live, f"GRANT SELECT, INSERT ON log_entries TO {name}")
        connection = await asyncpg.connect(live)
        await connection.execute(f"SET ROLE {name}")
        for statement in (
            "DROP TABLE log_entries_0",
            "ALTER TABLE log_entries DETACH PARTITION log_entries_0",
            "ALTER TABLE log_entries_0 DISABLE TRIGGER ALL",
            "DELETE FROM log_entries WHERE epoch = 1",
            "INSERT INTO log_seams SELECT * FROM log_seams",
            f"SELECT trim_log(999, '', '', 'x', '{{}}', '{name}')",
            "SELECT divide_log(5000)",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
        await connection.close()
        (row,) = await asked(
            live,
            "SELECT rolcanlogin, pg_has_role($1, 'ringlog_trimmer', 'MEMBER') AS is_member, "
            "(SELECT tableowner FROM pg_tables WHERE tablename = 'log_entries_0') AS owner "
            "FROM pg_roles WHERE rolname = 'ringlog_trimmer'",
            name,
        )
        assert dict(row) == {"rolcanlogin": False, "is_member": False, "owner": "ringlog_trimmer"}
    finally:
        await asked(live, f"DROP OWNED BY {name}")
        await asked(live, f"DROP ROLE {name}")


async def test_partitions_are_cut_before_the_log_begins(database, sessions):
    assert await divide(sessions, 2000)
    assert await divide(sessions, SIZE)
    await make_room(sessions, Epoch(0))
    (row,) = await asked(database, "SELECT newest_log_partition() AS newest")
    assert row["newest"] == 65
    await filled(database, ENTRIES[:1])
    assert not await divide(sessions, 2000)
    assert await divide(sessions, SIZE)
    with pytest.raises(asyncpg.CheckViolationError):
        await asked(database, "INSERT INTO log_partitioning VALUES (false, 1)")


async def test_an_import_fills_small_partitions(database, sessions, tmp_path):
    signed_archive(tmp_path / "archive", ENTRIES)
    await divide(sessions, SIZE)
    target = Target(
        log=PostgresLog(sessions),
        snapshots=PostgresSnapshots(sessions),
        lineages=PostgresLineages(sessions),
    )
    by = Importer(name="operator", lineage=UUID(int=7))
    await import_archive(open_archive(tmp_path / "archive"), target, by)

    assert (await target.log.tip()).hash == ENTRIES[-1].hash


async def test_a_restored_log_is_cut_as_finely_as_is_wanted(blank_database, tmp_path):
    """It cannot be chosen afterwards, and the CMS comes only then."""
    archive = tmp_path / "archive"
    signed_archive(archive, ENTRIES)
    wanted = {"RINGLOG_POSTGRES_DSN": blank_database, "RINGLOG_PARTITION_EPOCHS": str(SIZE)}
    wrong = await audit("import", archive, **{**wanted, "RINGLOG_PARTITION_EPOCHS": "999"})
    assert wrong.exit_code == 2

    imported = await audit("import", archive, **wanted)
    again = await audit("import", archive, "--partition-epochs", 2000, **wanted)

    assert imported.exit_code == 0, imported.output
    assert "begun with partitions of another size, and keeps it" in again.output
    done = await trimmed(blank_database, archive, 2500, "--yes")
    assert "Let go of epochs 1 to 1999" in done.output


async def test_a_database_owner_who_is_no_superuser_hands_the_log_over(blank_database, tmp_path):
    name, secret = f"owner_{uuid4().hex}", uuid4().hex
    database = urlsplit(blank_database).path[1:]
    await asked(blank_database, f"CREATE ROLE {name} LOGIN PASSWORD '{secret}'")
    address = urlsplit(blank_database)
    theirs = address._replace(
        netloc=f"{name}:{secret}@{address.netloc.rpartition('@')[2]}"
    ).geturl()
    try:
        await asked(blank_database, f"ALTER DATABASE {database} OWNER TO {name}")
        with pytest.raises(MigrationError, match=f"run: GRANT ringlog_trimmer TO {name}"):
            await apply(theirs)
        await asked(blank_database, f"GRANT ringlog_trimmer TO {name}")
        await apply(theirs)
        await filled(theirs, ENTRIES[:1200])
        # Needed once; from here on the owner of the database cannot become the log's.
        await asked(blank_database, f"REVOKE ringlog_trimmer FROM {name}")
        signed_archive(tmp_path / "archive", ENTRIES[:1200])
        for statement in (
            "ALTER TABLE log_entries DETACH PARTITION log_entries_0",
            "ALTER TABLE log_entries_0 DISABLE TRIGGER ALL",
            "DELETE FROM log_entries",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await asked(theirs, statement)

        done = await trimmed(theirs, tmp_path / "archive", 1200, "--yes")

        assert done.exit_code == 0, done.output
        assert await first_epoch(theirs) == 1000
        sessions = Sessions(theirs)
        await make_room(sessions, Epoch(1200))
        step = committed(SetExtension(name="later", value="1"), replay(ENTRIES[:1200]))
        log = PostgresLog(sessions)
        assert isinstance(await log.append([step.sealed], onto=await log.tip()), Appended)
        await sessions.close()
    finally:
        await asked(blank_database, f"REASSIGN OWNED BY {name} TO CURRENT_USER")
        await asked(blank_database, f"DROP OWNED BY {name}")
        await asked(blank_database, f"DROP ROLE {name}")
