"""A history as Spark tables: archives and running clusters, versions, changes, and streams."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

import ringlog
from audit.history import metadata_at
from audit.reading import open_archive
from audit.table_rows import ITEMS
from audit.tables import SCHEMAS, Part, Table, batches, parts
from encoding.json import entry_json
from metadata.epoch import Epoch
from ringlog.spark import Narrowing, narrowed
from ringlog.spark_source import SourceError, asked_for, asked_for_stream, opened, whole_part
from tests.archives import archived, entries_of, small_archive
from tests.golden.history import history as golden
from tests.histories import kept
from tests.integration.test_cms_reads import populated
from tests.integration.test_cms_serving import served

ENTRIES = golden().entries
LENGTH = len(ENTRIES)
STATE = (Table.NODES, Table.PLACEMENTS, Table.SEQUENCES)
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "spark-source.md"
TIMEOUT_S = 300
STARTS_MAX = 8

# Each query starts processes, which takes its time on a busy machine.
pytestmark = pytest.mark.timeout(2 * TIMEOUT_S)

on_session = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return str(archived(tmp_path_factory.mktemp("golden") / "a", ENTRIES, snapshots={20, 40}))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """3,000 entries in six segments, with snapshots in between."""
    return small_archive(tmp_path_factory.mktemp("small") / "a", entries_of(3000))


def rows_of(history, part):
    return [row for batch in batches(history, part) for row in batch.to_pylist()]


def test_every_entry_is_a_row():
    rows = rows_of(kept(ENTRIES), Part(table=Table.ENTRIES, after=Epoch(0), up_to=Epoch(LENGTH)))

    for row, sealed in zip(rows, ENTRIES, strict=True):
        told = entry_json(sealed.entry, previous_hash=sealed.previous_hash, entry_hash=sealed.hash)
        assert row["epoch"] == sealed.epoch
        assert row["hash"] == sealed.hash
        assert row["committed_at"].timestamp() * 1e6 == pytest.approx(told["committed_at"])
        assert {"entry_id", "kind", "actor", "reason", "committed_by"} <= row.keys()
        assert all(row[name] == told[name] for name in ("entry_id", "kind", "actor", "reason"))


@pytest.mark.parametrize("table", STATE)
def test_changes_lead_from_one_version_to_any_other(table):
    """Whatever the parts in which they are read."""
    history = kept(ENTRIES, every=10)
    items, _ = ITEMS[table]
    standing = {}
    keys = {
        Table.NODES: ("node",),
        Table.SEQUENCES: ("sequence",),
        Table.PLACEMENTS: ("placement", "role", "left", "right"),
    }[table]
    changed = []
    for after in range(0, LENGTH, 7):
        up_to = Epoch(min(after + 7, LENGTH))
        changed += rows_of(history, Part(table=table, after=Epoch(after), up_to=up_to))
    for row in changed:
        key, change = tuple(row[name] for name in keys), row["change"]
        assert (key in standing) == (change != "insert"), row
        standing[key] = row
        if change == "delete":
            del standing[key]

    assert changed == sorted(changed, key=lambda row: row["epoch"])
    last = rows_of(history, Part(table=table, after=None, up_to=Epoch(LENGTH)))
    assert len(last) == len(items(metadata_at(history, Epoch(LENGTH)).metadata)) == len(standing)
    for row in last:
        told = standing[tuple(row[name] for name in keys)]
        assert {**told, "epoch": LENGTH, "change": None} == row


def test_receipts_are_those_of_the_steps():
    history = kept(ENTRIES)
    rows = rows_of(history, Part(table=Table.RECEIPTS, after=Epoch(0), up_to=Epoch(LENGTH)))

    expected = [
        (sealed.epoch, receipt.left, receipt.right, receipt.target, receipt.source.rows)
        for sealed in ENTRIES
        for receipt in getattr(sealed.entry.transformation, "receipts", ())
    ]
    assert expected
    names = ("epoch", "left", "right", "target", "rows")
    assert [tuple(row[name] for name in names) for row in rows] == expected


def test_parts_begin_at_snapshots_and_leave_nothing_out(small):
    history = open_archive(small)
    found = parts(history, Part(table=Table.ENTRIES, after=Epoch(0), up_to=Epoch(3000)))

    assert [(part.after, part.up_to) for part in found] == [(0, 1500), (1500, 3000)]
    assert parts(history, Part(table=Table.NODES, after=None, up_to=Epoch(9)))[0].after is None
    assert parts(history, Part(table=Table.NODES, after=Epoch(5), up_to=Epoch(5))) == []


@pytest.mark.parametrize(
    ("filters", "after", "up_to", "kinds"),
    [
        ([EqualTo(("epoch",), 7)], 6, 7, None),
        ([GreaterThan(("epoch",), 7), LessThanOrEqual(("epoch",), 9)], 7, 9, None),
        ([GreaterThanOrEqual(("epoch",), 7), LessThan(("epoch",), 9)], 6, 8, None),
        ([In(("epoch",), (9, 3, 4)), IsNotNull(("epoch",))], 2, 9, None),
        ([In(("epoch",), (None, 9, 3))], 2, 9, None),
        ([In(("epoch",), (None,))], 0, 100, None),
        ([EqualTo(("kind",), "Register")], 0, 100, {"Register"}),
        (
            [In(("kind",), ("Register", "Startup")), EqualTo(("kind",), "Startup")],
            0,
            100,
            {"Startup"},
        ),
        ([EqualTo(("actor",), "ada")], 0, 100, None),
    ],
)
def test_filters_narrow_down_what_is_read(filters, after, up_to, kinds):
    narrowing = Narrowing()
    for each in filters:
        narrowing = narrowed(narrowing, each)
    whole = Part(table=Table.ENTRIES, after=Epoch(0), up_to=Epoch(100))

    found = narrowing.of(whole)

    assert (found.after, found.up_to, found.kinds) == (after, up_to, kinds and frozenset(kinds))
    version = Part(table=Table.NODES, after=None, up_to=Epoch(100))
    assert narrowing.of(version) == version


def test_what_is_of_another_kind_is_not_decoded():
    history = kept(ENTRIES)
    wanted = Part(
        table=Table.ENTRIES, after=Epoch(0), up_to=Epoch(LENGTH), kinds=frozenset(["Register"])
    )

    rows = rows_of(history, wanted)

    decoded = [
        sealed for sealed in history.entries(Epoch(0), Epoch(LENGTH)) if "entry" in sealed.__dict__
    ]
    assert [row["epoch"] for row in rows] == [sealed.epoch for sealed in decoded]
    assert {row["kind"] for row in rows} == {"Register"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "Name one history"),
        ({"path": "a", "url": "http://b"}, "Name one history"),
        ({"url": "ftp://b"}, "does not begin with http"),
        ({"path": "a", "table": "edges"}, "There is no table edges: choose one of entries, nodes"),
        ({"path": "a", "asofepoch": "x"}, "asOfEpoch is 'x' and must be a whole number"),
        ({"path": "a", "fromEpoch": "0"}, "fromEpoch is 0 and must be 1 or more"),
        ({"path": "a", "maxEntriesPerTrigger": "0"}, "must be 1 or more"),
        ({"path": "a", "asOfEpoch": "3", "fromEpoch": "2"}, "give one or the other"),
        ({"path": "a", "fromEpoch": "9", "toEpoch": "3"}, "is before fromEpoch"),
        ({"path": "a", "tabel": "nodes"}, "There is no option tabel: use path, url"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options, sentence):
    with pytest.raises(SourceError, match=sentence):
        asked_for(options)


def test_a_stream_has_no_end():
    with pytest.raises(SourceError, match="A stream goes on for ever"):
        asked_for_stream({"path": "a", "asOfEpoch": "3"})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"asOfEpoch": "65"}, "There is no epoch 65 in this history: it ends at 64"),
        ({"toEpoch": "65"}, "it ends at 64"),
        ({"fromEpoch": "66"}, "it ends at 64"),
    ],
)
def test_epochs_that_are_not_there_are_refused(archive, options, sentence):
    asked = asked_for({"path": archive, **options})

    with pytest.raises(SourceError, match=sentence), opened(asked) as history:
        whole_part(history, asked)


async def asked_of(warm_spark, work):
    """What `work` makes of a reader of the source."""

    def asked(session):
        ringlog.register_spark_source(session)
        return work(session)

    return await warm_spark.run("source", asked)


@on_session
async def test_spark_reads_all_tables_of_an_archive(warm_spark, archive):
    history = open_archive(archive)

    def read(session):
        def rows(table, at):
            # A reader keeps what it was told, so each question has its own.
            reader = session.read.format("ringlog").options(table=table.value, **at_option(at))
            return reader.load(archive).collect()

        return {(table, at): rows(table, at) for table in Table for at in (None, 30)}

    def at_option(at):
        return {} if at is None else {"asOfEpoch": at}

    found = await asked_of(warm_spark, read)

    for (table, at), rows in found.items():
        asked = asked_for({"path": archive, "table": table.value, **at_option(at and str(at))})
        expected = rows_of(history, whole_part(history, asked))
        assert len(rows) == len(expected), table
        for row, told in zip(rows, expected, strict=True):
            plain = row.asDict(recursive=True)
            assert list(plain) == SCHEMAS[table].names
            # Python has no map in Arrow, and Spark no zones in times.
            for name in plain.keys() & {"addresses", "committed_at"}:
                told[name] = dict(told[name]) if name == "addresses" else plain[name]
            assert plain == told


@on_session
async def test_spark_reads_only_what_is_asked_for(warm_spark, small, tmp_path):
    """Segments that no wanted epoch is in need not even be there."""
    copy = tmp_path / "copy"
    shutil.copytree(small, copy)
    segments = sorted((copy / "segments").iterdir())
    for path in [*segments[:3], *segments[4:]]:
        path.unlink()

    def read(session):
        entries = session.read.format("ringlog").load(str(copy))
        wanted = entries.where("epoch > 1600 and epoch <= 1700")
        return wanted.count(), wanted.where("kind = 'Initialize'").count()

    assert await asked_of(warm_spark, read) == (100, 0)
    with pytest.raises(PySparkException, match=r"epoch (1|2001): it is missing"):
        await raised(warm_spark, lambda s: s.read.format("ringlog").load(str(copy)).count())


async def raised(warm_spark, work):
    """The error as Spark raises it, and not in the words of a driver."""

    def caught(session):
        try:
            return work(session)
        except PySparkException as error:
            return error

    error = await asked_of(warm_spark, caught)
    assert isinstance(error, PySparkException), error
    raise error


@on_session
async def test_spark_tells_what_is_wrong(warm_spark, archive, small, tmp_path):
    def reading(place, **options):
        return lambda s: s.read.format("ringlog").options(**options).load(place).count()

    with pytest.raises(PySparkException, match="There is no table edges"):
        await raised(warm_spark, reading(archive, table="edges"))
    with pytest.raises(PySparkException, match="There is no epoch 65 in this history"):
        await raised(warm_spark, reading(archive, table="nodes", asOfEpoch=65))
    with pytest.raises(PySparkException, match="cannot be reached"):
        await raised(warm_spark, reading("http://127.0.0.1:1"))


def patiently(work):
    """Spark gives a stream's process ten seconds to start, which a busy machine may not have."""

    def tried(session):
        for _ in range(STARTS_MAX - 1):
            try:
                return work(session)
            except StreamingQueryException as error:
                if "failed to connect back" not in str(error):
                    raise
        return work(session)

    return tried


@on_session
async def test_a_stream_gives_each_epoch_once(warm_spark, tmp_path):
    """In batches of a bounded size, over a restart from the checkpoint and a history that grew."""
    place, out = tmp_path / "archive", tmp_path / "out"
    entries = entries_of(150)
    sizes: list[int] = []

    def drain(session):
        stream = session.readStream.format("ringlog").option("maxEntriesPerTrigger", 40)
        written = (
            stream.load(str(place))
            .select("epoch", "kind")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(out))
        )
        assert written.awaitTermination(TIMEOUT_S)
        sizes.extend(item["numInputRows"] for item in written.recentProgress)
        return [row.epoch for row in session.read.parquet(str(out)).collect()]

    archived(place, entries[:70], snapshots={30})
    first = await asked_of(warm_spark, patiently(drain))
    archived(place, entries, signed_at=[70], snapshots={30})
    second = await asked_of(warm_spark, patiently(drain))

    assert sorted(first) == list(range(1, 71))
    assert sorted(second) == list(range(1, 151))
    assert max(sizes) <= 40


@on_session
async def test_spark_reads_a_running_cluster(warm_spark):
    async with served() as client:
        await populated(client)
        url = str(client.session._base_url)
        tip = client.engine.applied.metadata

        def read(session):
            reader = session.read.format("ringlog").option("url", url)
            nodes = reader.option("table", "nodes").load()
            changes = reader.option("table", "nodes").option("fromEpoch", 1).load()
            entries = reader.option("table", "entries").option("fromEpoch", 3).load()
            return nodes.count(), changes.where("change = 'insert'").count(), entries.count()

        found = await asked_of(warm_spark, read)

    assert found == (len(tip.directory.nodes), len(tip.directory.nodes), tip.epoch - 2)


@on_session
async def test_the_guide(warm_spark, tmp_path):
    """Its code runs, in order, and prints what stands there."""
    place = archived(tmp_path / "backup", ENTRIES, snapshots={20, 40})
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    program = "\n".join(body for kind, body in blocks if kind == "python")
    program = program.replace("backup/", f"{place}/").replace("out/", f"{tmp_path}/out/")
    printed: list[str] = []
    names = {"print": lambda *words: printed.append(" ".join(map(str, words)))}

    await asked_of(warm_spark, patiently(lambda _: exec(program, names)))

    expected = [line for kind, body in blocks if kind == "text" for line in body.splitlines()]
    assert expected
    assert [line for line in expected if line not in "\n".join(printed)] == []


def test_the_example_and_the_verb_run_by_themselves(archive):
    """Each with a Spark of its own."""
    root = Path(__file__).parents[2]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for words, printed in (
        ([sys.executable, str(root / "examples" / "spark_source.py"), archive], "Register"),
        (
            ["ringlog", "audit", "replay", "--archive", archive, "--spark", "local[2]"],
            "the history holds",
        ),
    ):
        done = subprocess.run(
            words,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert printed in done.stdout
