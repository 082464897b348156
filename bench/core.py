"""The pure core: replay against bare decoding, planning at three sizes, the digest, memory."""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from io import BytesIO
from uuid import UUID

from fastavro import schemaless_reader
from rich.console import Console
from rich.table import Table as Printed

from encoding.entries import Entry, EntryId
from encoding.images import encode_image
from encoding.registry import Document, newest
from log.chain import seal
from log.entry import SealedEntry
from log.replay import NOTHING_APPLIED, Applied, replay
from metadata.cluster import NOTHING_YET, ClusterMetadata
from metadata.columns import ColumnType
from metadata.directory import NodeId
from metadata.image import image_of, metadata_of
from metadata.locks import SequenceId
from metadata.schema import Column, Network, Simple
from metadata.tokens import MAXIMUM, MINIMUM, Token
from transformations.directory import Register
from transformations.ending import RetireSequence
from transformations.extensions import SetExtension
from transformations.initialize import Initialize
from transformations.join import FinishJoin, MidJoin, PrepareJoin, StartJoin, UnsafeJoin
from transformations.kinds import AnyTransformation, execute
from transformations.outcome import Accepted
from transformations.schema import CreateKeyspace, CreateTable

ENTRIES = 20_000
TABLES = 10_000
ROUNDS = 5
TOKENS_PER_NODE = 16
DATACENTERS = ("dc1", "dc2", "dc3")
RACKS = 3
SEED = 20
HEADER_BYTES = 10
CLUSTER = str(UUID(int=1))


def accepted(transformation: AnyTransformation, metadata: ClusterMetadata) -> Accepted:
    outcome = execute(transformation, metadata)
    assert isinstance(outcome, Accepted), outcome
    return outcome


def history(transformations: list[AnyTransformation]) -> list[SealedEntry]:
    """Committed, encoded and sealed."""
    applied: Applied = NOTHING_APPLIED
    entries = []
    for number, transformation in enumerate(transformations, start=1):
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
        applied = Applied(outcome.after, sealed.hash)
        entries.append(bare(sealed))
    return entries


def bare(sealed: SealedEntry) -> SealedEntry:
    """Without what sealing remembers, as a store would give it."""
    return SealedEntry(
        epoch=sealed.epoch,
        entry_id=sealed.entry_id,
        kind=sealed.kind,
        payload=sealed.payload,
        previous_hash=sealed.previous_hash,
        hash=sealed.hash,
    )


def simple_histories() -> dict[str, list[AnyTransformation]]:
    founded: AnyTransformation = Initialize(name="bench", cluster=CLUSTER)
    registers = [register(number) for number in range(1, ENTRIES)]
    settings = [
        SetExtension(name=f"key{number % 1000}", value=f"value {number}")
        for number in range(1, ENTRIES)
    ]
    return {"Register": [founded, *registers], "SetExtension": [founded, *settings]}


def register(number: int) -> Register:
    return Register(
        host_id=f"host-{number}",
        addresses={"native": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}:9042"},
        datacenter=DATACENTERS[number % len(DATACENTERS)],
        rack=f"r{number // len(DATACENTERS) % RACKS}",
        version="1.0.0",
    )


def seconds(work: object, rounds: int = ROUNDS) -> float:
    """The best of several rounds."""
    best = float("inf")
    for _ in range(rounds):
        gc.collect()
        started = time.perf_counter()
        work()  # type: ignore[operator] # any callable
        best = min(best, time.perf_counter() - started)
    return best


def bench_replay(console: Console) -> None:
    table = printed("replay of simple entries", "kind", "bare decode/s", "replay/s", "ratio")
    for kind, transformations in simple_histories().items():
        entries = history(transformations)
        schemas = {item.kind: newest(item.kind).parsed() for item in entries}

        def decode(
            entries: list[SealedEntry] = entries, schemas: dict[str, Document] = schemas
        ) -> None:
            for item in entries:
                schemaless_reader(BytesIO(item.payload[HEADER_BYTES:]), schemas[item.kind], None)

        plain = seconds(decode)
        full = seconds(lambda entries=entries: replay(entries))
        size = len(entries)
        table.add_row(kind, f"{size / plain:,.0f}", f"{size / full:,.0f}", f"{plain / full:.2f}")
    console.print(table)


def cluster(nodes: int) -> tuple[ClusterMetadata, random.Random]:
    """One more node is registered than has joined."""
    rng = random.Random(SEED)
    metadata = accepted(Initialize(name="bench", cluster=CLUSTER), NOTHING_YET).after
    for number in range(1, nodes + 2):
        metadata = accepted(register(number), metadata).after
    for number in range(1, nodes + 1):
        verb = UnsafeJoin(node=NodeId(number), tokens=tokens(rng))
        metadata = accepted(verb, metadata).after
    replication = Network(dict.fromkeys(DATACENTERS, 3))
    return accepted(CreateKeyspace(name="shop", replication=replication), metadata).after, rng


def tokens(rng: random.Random) -> tuple[Token, ...]:
    return tuple(Token(rng.randint(MINIMUM, MAXIMUM)) for _ in range(TOKENS_PER_NODE))


def bench_join(console: Console) -> None:
    """Digest included, because every entry carries it."""
    steps = (StartJoin, MidJoin, FinishJoin, RetireSequence)
    table = printed(
        f"a join, {TOKENS_PER_NODE} tokens a node, 3 datacenters × RF 3, ms",
        *("nodes", "prepare", "start", "mid", "finish", "retire", "memory, MB", "image, MB"),
    )
    for nodes in (10, 100, 1000):
        metadata, rng = cluster(nodes)
        memory = memory_bytes(metadata)
        verb = PrepareJoin(node=NodeId(nodes + 1), tokens=tokens(rng))
        times = [milliseconds(verb, metadata)]
        outcome = accepted(verb, metadata)
        assert outcome.result.sequence is not None, outcome
        sequence = SequenceId(outcome.result.sequence)
        for step in steps:
            verb_of_step = step(sequence=sequence)
            times.append(milliseconds(verb_of_step, outcome.after))
            outcome = accepted(verb_of_step, outcome.after)
        megabytes = len(encode_image(metadata)) / 1e6
        cells = [f"{value:.2f}" for value in times]
        table.add_row(str(nodes), *cells, f"{memory / 1e6:.1f}", f"{megabytes:.2f}")
    console.print(table)


def memory_bytes(metadata: ClusterMetadata) -> int:
    """Of a copy that shares nothing with the original."""
    image = image_of(metadata)
    gc.collect()
    tracemalloc.start()
    rebuilt = metadata_of(image)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert rebuilt.digest == metadata.digest
    return used


def milliseconds(verb: AnyTransformation, metadata: ClusterMetadata) -> float:
    return 1000 * seconds(lambda: accepted(verb, metadata).after.digest)


def bench_tables(console: Console) -> None:
    table = printed(
        f"{TABLES:,} tables one by one, microseconds each",
        "tables so far",
        "decide",
        "of it the digest",
    )
    metadata = accepted(Initialize(name="bench", cluster=CLUSTER), NOTHING_YET).after
    metadata = accepted(CreateKeyspace(name="shop", replication=Simple(3)), metadata).after
    columns = (Column("key", ColumnType.STRING), Column("value", ColumnType.BIGINT))
    chunk = TABLES // 10
    for number in range(0, TABLES, chunk):
        spent = digesting = 0.0
        for index in range(number, number + chunk):
            verb = CreateTable(
                keyspace="shop", name=f"t{index}", columns=columns, partition_key=("key",)
            )
            started = time.perf_counter()
            metadata = accepted(verb, metadata).after
            decided = time.perf_counter()
            assert metadata.digest
            digesting += time.perf_counter() - decided
            spent += time.perf_counter() - started
        row = (number + chunk, 1e6 * spent / chunk, 1e6 * digesting / chunk)
        table.add_row(f"{row[0]:,}", f"{row[1]:.1f}", f"{row[2]:.1f}")
    console.print(table)


def printed(title: str, *columns: str) -> Printed:
    table = Printed(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def main() -> None:
    console = Console()
    bench_replay(console)
    bench_join(console)
    bench_tables(console)


if __name__ == "__main__":
    main()
