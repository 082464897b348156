"""What a database says of itself, to somebody who changes nothing."""

import shutil

import asyncpg
import pytest

from migrations.files import FOLDER, load
from migrations.looking import LookError, look

NAMES = tuple(migration.name for migration in load())


async def test_a_database_that_is_up_to_date(database):
    seen = await look(database, timeout_s=30.0)
    assert (seen.missing, seen.unknown, seen.lax, seen.tip, dict(seen.published)) == (
        *((), (), (), 0, {}),
    )
    assert seen.major >= 15
    assert abs(seen.skew_s) < 60


async def test_one_that_no_migration_has_seen_stays_as_it_is(blank_database):
    assert (await look(blank_database, timeout_s=30.0)).missing == NAMES
    assert (await look(blank_database, timeout_s=30.0)).missing == NAMES


async def test_one_of_a_later_release_and_one_whose_topic_is_behind(database, tmp_path):
    older = tmp_path / "older"
    shutil.copytree(FOLDER, older)
    (older / f"{NAMES[-1]}.sql").unlink()
    assert (await look(database, timeout_s=30.0, folder=older)).unknown == NAMES[-1:]
    connection = await asyncpg.connect(database)
    await connection.execute("INSERT INTO fanout_positions (topic, epoch) VALUES ('t', 7)")
    await connection.close()
    assert dict((await look(database, timeout_s=30.0)).published) == {"t": 7}


@pytest.mark.parametrize(
    "dsn", ["postgresql://u:secret@127.0.0.1:9/x", "postgresql://u:secret@127.0.0.1:nine/x"]
)
async def test_one_that_cannot_be_asked_is_a_sentence_without_its_password(dsn):
    with pytest.raises(LookError) as caught:
        await look(dsn, timeout_s=5.0)
    assert "secret" not in str(caught.value)
