"""Audits of a long archive, each in a process of its own, beside bare decoding of the same files.

The log is mostly simple entries; one in two hundred is a step of a move of a node. Times are the
processor's: each of these is one thread at work, and what else the machine does is no part of it.
Those of Spark are by the clock, once it is up, and its memory is that of all its processes; those
of looks at single epochs are told by both.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from uuid import UUID

import fastavro
from rich.console import Console
from rich.table import Table as Printed

from audit.bisect import first_true
from audit.exporting import begin_export
from audit.expressions import parse
from audit.folder import folder
from audit.history import metadata_at
from audit.keys import generate
from audit.reading import Archive, open_archive
from audit.replay import audited
from audit.report import Made, report_on_archives
from audit.reproduce import Release, reproduced
from audit.verify import NOTHING_GIVEN, Given, Verified, verify
from bench.audit_spark import peak_bytes, replay_on_spark
from bench.core import CLUSTER, accepted, bare, register
from encoding.entries import Entry, EntryId
from encoding.images import encode_image
from encoding.registry import released
from log.chain import seal
from log.replay import NOTHING_APPLIED, Applied
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.locks import SequenceId
from metadata.schema import Simple
from metadata.tokens import Token
from snapshots.policy import Cadence
from snapshots.store import Snapshot
from transformations.ending import RetireSequence
from transformations.extensions import SetExtension
from transformations.initialize import Initialize
from transformations.join import UnsafeJoin
from transformations.kinds import AnyTransformation
from transformations.move import FinishMove, MidMove, PrepareMove, StartMove
from transformations.schema import CreateKeyspace

ENTRIES = 100_000
ENTRIES_FULL = 1_000_000
NODES = 12
NAMES = 50
MOVE_EVERY = 1_000
LOOKS = 200
SEED = 8
HEADER_BYTES = 10
FINGERPRINT = slice(2, HEADER_BYTES)
BARE = "bare decode"
LEFT_OUT_OF_FULL = ("verify --recompute", "report")
"""They execute everything once more, as others do; a full run should take ten minutes."""


def main() -> int:
    arguments = _arguments()
    if arguments.measure:
        print(json.dumps(MEASURES[arguments.measure](Path(arguments.archive))))
        return 0
    entries = ENTRIES_FULL if arguments.full else arguments.entries
    with tempfile.TemporaryDirectory(prefix="ringlog-bench-") as place:
        archive = Path(place) / "archive"
        began_s = time.process_time()
        written = write_archive(archive, entries)
        took_s = time.process_time() - began_s
        print(f"{entries:,} entries, {written / 1e6:.1f} MB in files, written in {took_s:.1f} s")
        names = [name for name in MEASURES if not (arguments.full and name in LEFT_OUT_OF_FULL)]
        _print({name: _measured(name, archive) for name in names}, entries)
    return 0


def write_archive(archive: Path, entries: int) -> int:
    """As a log of that length would be exported, with snapshots as a CMS takes them."""
    with begin_export(folder(archive)) as running:
        applied, cadence = NOTHING_APPLIED, Cadence()
        for number, transformation in enumerate(transformations(entries), start=1):
            outcome = accepted(transformation, applied.metadata)
            entry = Entry(
                cluster=outcome.after.cluster.id,
                epoch=outcome.after.epoch,
                entry_id=EntryId(UUID(int=number)),
                transformation=transformation,
                result=outcome.result,
                digest=outcome.after.digest,
                actor="bench",
                reason=None,
                committed_at=1_700_000_000_000_000 + number,
                committed_by="cms-1",
            )
            sealed = seal(entry, applied.hash)
            applied, cadence = Applied(outcome.after, sealed.hash), cadence.after(sealed)
            running.take(bare(sealed))
            if cadence.due:
                running.keep(_snapshot(applied))
                cadence = Cadence()
        running.finish([generate("bench.example")])
    return sum(path.stat().st_size for path in archive.rglob("*") if path.is_file())


def transformations(entries: int) -> Iterator[AnyTransformation]:
    yield Initialize(name="bench", cluster=CLUSTER)
    yield CreateKeyspace(name="shop", replication=Simple(factor=3))
    for node in range(1, NODES + 1):
        yield register(node)
        yield UnsafeJoin(node=NodeId(node), tokens=(Token(node * 1_000_000),))
    chance = random.Random(SEED)
    number = 2 + 2 * NODES
    while number < entries:
        if number % MOVE_EVERY == 0 and number + 5 <= entries:
            yield from _move(number + 1, chance)
            number += 5
        else:
            yield SetExtension(name=f"name{number % NAMES}", value=str(number))
            number += 1


def _move(epoch: int, chance: random.Random) -> Iterator[AnyTransformation]:
    node = NodeId(chance.randint(1, NODES))
    yield PrepareMove(node=node, tokens=(Token(chance.randint(-(10**12), 10**12)),))
    for step in (StartMove, MidMove, FinishMove, RetireSequence):
        yield step(sequence=SequenceId(epoch))


def _snapshot(applied: Applied) -> Snapshot:
    metadata = applied.metadata
    return Snapshot(
        epoch=metadata.epoch,
        digest=metadata.digest,
        hash=applied.hash,
        image=encode_image(metadata),
    )


def decode_bare(place: Path) -> dict[str, float]:
    """What fastavro needs to read the containers, and the entry in each of their payloads."""
    schemas = {item.fingerprint: item.parsed() for item in released()}

    def decode() -> None:
        for path in sorted((place / "segments").iterdir()):
            for stored in fastavro.reader(BytesIO(path.read_bytes())):
                assert isinstance(stored, dict)
                payload = stored["payload"]
                schema = schemas[payload[FINGERPRINT]]
                fastavro.schemaless_reader(BytesIO(payload[HEADER_BYTES:]), schema, None)

    return _timed(decode)


def look_around(place: Path) -> dict[str, float]:
    """The metadata at random epochs, as `ringlog audit show --at` gets it from an open archive.

    Whoever asks waits by the clock; the processor's time tells how much of that is work.
    """
    archive = open_archive(place)
    chance = random.Random(SEED)
    waited_s, worked_s = [], []
    for _ in range(LOOKS):
        epoch = Epoch(chance.randint(1, archive.tip.epoch))
        began_s, work_began_s = time.perf_counter(), time.process_time()
        metadata_at(archive, epoch)
        waited_s.append(time.perf_counter() - began_s)
        worked_s.append(time.process_time() - work_began_s)
    figures = {**_quantiles("clock", waited_s), **_quantiles("processor", worked_s)}
    return {**figures, "took_s": sum(worked_s), "peak_bytes": peak_bytes()}


def _quantiles(name: str, taken_s: list[float]) -> dict[str, float]:
    found = statistics.quantiles(taken_s, n=100)
    return {f"{name}_p50_s": found[49], f"{name}_p99_s": found[98]}


def _verify(place: Path, given: Given = NOTHING_GIVEN) -> None:
    verdict = verify(place, given)
    assert isinstance(verdict, Verified), verdict


def _replay(archive: Archive) -> None:
    report = audited(archive)
    assert report.holds, report.findings


def _bisect(archive: Archive, text: str) -> None:
    """Over all of it: true at no epoch."""
    assert first_true(archive, parse(text), after=Epoch(0), up_to=archive.tip.epoch) is None


def _timed(work: Callable[[], object]) -> dict[str, float]:
    began_s = time.process_time()
    work()
    return {"took_s": time.process_time() - began_s, "peak_bytes": peak_bytes()}


MEASURES: dict[str, Callable[[Path], dict[str, float]]] = {
    BARE: decode_bare,
    "verify": lambda place: _timed(lambda: _verify(place)),
    "verify --recompute": lambda place: _timed(lambda: _verify(place, Given(recompute=True))),
    "reproduce": lambda place: _timed(
        lambda: reproduced(open_archive(place), Release("bench", bytes(32)))
    ),
    "replay with rules": lambda place: _timed(lambda: _replay(open_archive(place))),
    "replay on Spark, 1 core": lambda place: replay_on_spark(place, cores=1),
    "replay on Spark, 2 cores": lambda place: replay_on_spark(place, cores=2),
    "report": lambda place: _timed(
        lambda: report_on_archives([str(place)], NOTHING_GIVEN, Made("bench", "now"))
    ),
    "bisect, of what changes": lambda place: _timed(
        lambda: _bisect(open_archive(place), f"len(extensions) > {NAMES}")
    ),
    "bisect, of what does not": lambda place: _timed(
        lambda: _bisect(open_archive(place), "len(keyspaces) > 1")
    ),
    "show --at": look_around,
}


def _measured(name: str, archive: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.audit", "--measure", name, "--archive", str(archive)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: dict[str, float] = json.loads(done.stdout)
    print(f"{name}: {found['took_s']:.1f} s", flush=True)
    return found


def _print(figures: dict[str, dict[str, float]], entries: int) -> None:
    table = Printed(title=f"{entries:,} entries")
    for column in ("work", "s", "entries/s", "of bare decode", "peak memory"):
        table.add_column(column, justify="left" if column == "work" else "right")
    bare_s = figures[BARE]["took_s"]
    for name, found in figures.items():
        peak = f"{found['peak_bytes'] / 1e6:.0f} MB"
        if "clock_p50_s" in found:
            for time_of in ("clock", "processor"):
                half, most = (found[f"{time_of}_{part}_s"] * 1e3 for part in ("p50", "p99"))
                took = f"p50 {half:.0f} ms, p99 {most:.0f} ms"
                table.add_row(f"{name}, {LOOKS} random epochs, {time_of}", took, "", "", peak)
            continue
        took_s = found["took_s"]
        rate, ratio = f"{entries / took_s:,.0f}", f"{bare_s / took_s:.2f}×"
        table.add_row(name, f"{took_s:.2f}", rate, ratio, peak)
    Console(width=110).print(table)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=ENTRIES, help="how long the log is")
    parser.add_argument("--full", action="store_true", help=f"a log of {ENTRIES_FULL:,} entries")
    parser.add_argument("--measure", choices=MEASURES, help=argparse.SUPPRESS)
    parser.add_argument("--archive", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
