"""Two exports into one archive at once: one goes on and the other is told; nothing is lost."""

from __future__ import annotations

import os

import pytest
from pyarrow import fs

from audit.errors import ArchiveError
from audit.exporting import begin_export, export
from audit.folder import Folder, folder
from audit.signing import sign_archive
from audit.verify import Given, Verified, verify
from tests.archives import KEY, entries_of

ENTRIES = entries_of(80)


class Bucket(Folder):
    """A file system that keeps nobody out, as object stores do."""

    @property
    def _is_local(self):
        return False


@pytest.fixture
def bucket(tmp_path):
    return Bucket(fs.LocalFileSystem(), str(tmp_path), str(tmp_path))


def assert_sound(place, tip):
    verdict = verify(place, Given())
    assert isinstance(verdict, Verified), verdict
    assert verdict.tip.epoch == tip
    assert verdict.strays == ()


def test_a_second_export_is_refused_while_one_runs(tmp_path):
    export(ENTRIES[:50], folder(tmp_path))
    with begin_export(folder(tmp_path)) as running:
        running.take(ENTRIES[50])
        with pytest.raises(ArchiveError, match="somebody else writes to it: wait until"):
            export(ENTRIES[49:60], folder(tmp_path))
        with pytest.raises(ArchiveError, match="somebody else writes to it"):
            sign_archive(folder(tmp_path), [KEY])
        running.finish()
    assert_sound(tmp_path, 51)
    export(ENTRIES[50:60], folder(tmp_path))
    assert_sound(tmp_path, 60)


def test_an_export_that_was_overtaken_writes_nothing_down(bucket):
    """It resumed at 50, and meanwhile another one wrote that segment anew."""
    export(ENTRIES[:50], bucket)
    with begin_export(bucket) as late:
        export(ENTRIES[49:60], bucket)
        late.take(ENTRIES[50])
        with pytest.raises(ArchiveError, match="somebody else wrote to the archive meanwhile"):
            late.finish()
    assert isinstance(verify(bucket), Verified)
    export(ENTRIES[59:80], bucket)
    assert_sound(bucket, 80)


def test_files_that_another_export_took_for_remains_are_missed(bucket):
    export(ENTRIES[:50], bucket)
    with begin_export(bucket) as early:
        early.take(ENTRIES[50])
        real = bucket.settle

        def swept():
            with begin_export(bucket):
                pass  # It finds a segment that no manifest names.
            real()

        bucket.settle = swept
        with pytest.raises(ArchiveError, match=r"segments/.*: somebody else removed it meanwhile"):
            early.finish()
        bucket.settle = real
    assert_sound(bucket, 50)


def test_a_manifest_that_was_begun_meanwhile_is_not_written_over(bucket):
    with begin_export(bucket) as late:
        export(ENTRIES[:60], bucket)
        late.take(ENTRIES[0])
        with pytest.raises(ArchiveError, match="somebody else wrote to the archive meanwhile"):
            late.finish()
    assert isinstance(verify(bucket), Verified)


@pytest.mark.parametrize("path", ["segments/000000000001-000000000050.avro", "manifest.json"])
def test_what_is_no_regular_file_is_not_waited_for(tmp_path, path):
    export(ENTRIES[:50], folder(tmp_path))
    (tmp_path / path).unlink()
    os.mkfifo(tmp_path / path)

    assert verify(tmp_path).sentence == f"{path}: it is not a regular file."
