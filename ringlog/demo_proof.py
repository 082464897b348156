"""What the demo proves at the end: of the rows, of the log, and of each node's own files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from log.entry import SealedEntry
from log.replay import replay
from metadata.directory import NodeId, NodeState
from metadata.receipts import Receipt
from metadata.tokens import FULL
from ringlog.demo_cluster import DemoCluster
from ringlog.demo_quorum import Ownership, QuorumReader
from ringlog.demo_rows import Rows
from ringlog.demo_show import Show
from services.local.looking import look
from services.node.data.plane import FOLDER
from services.node.running import FILE
from store.database import opened
from store.folder import folder_at
from store.store import SCHEMAS, Store
from transformations.join import MidJoin
from transformations.leave import MidLeave
from transformations.replace import MidReplace


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """What the receipts in the log say of one sequence."""

    sequence: int
    kind: str
    rows: int
    ranges: int
    sources: frozenset[NodeId]
    targets: frozenset[NodeId]
    is_proved: bool


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What one node has in its own files, and what it should have by the metadata."""

    name: str
    ranges: int
    owned: int
    found: int
    outside: int

    @property
    def is_exact(self) -> bool:
        return self.found == self.owned and self.outside == 0


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """`names` are those of the nodes that are in at the end."""

    names: Mapping[NodeId, str]
    rows: int
    entries: int
    moved: tuple[Moved, ...]
    held: tuple[Held, ...]
    violations: tuple[str, ...]

    @property
    def have_held(self) -> bool:
        """Whether every promise was kept."""
        proved = bool(self.moved) and all(item.is_proved for item in self.moved)
        exact = bool(self.held) and all(item.is_exact for item in self.held)
        return proved and exact and not self.violations


async def findings_of(cluster: DemoCluster, rows: Rows, show: Show) -> Findings:
    """Read everything at quorum, stop the cluster, and look into its files."""
    entries = await cluster.log()
    ownership = Ownership(replay(entries).metadata)
    nodes = await _members(cluster)
    urls = {node: cluster.process(name).url for name, node in nodes.items()}
    reader = QuorumReader(cluster.ask, ownership, urls)
    keys = rows.book.keys
    with show.counting("rows read at quorum", len(keys)) as tell:
        checked = await reader.check(rows.book, tell)
    show.say("All rows are read. The cluster is stopped, and the files of each node are opened …")
    await cluster.stop()
    return Findings(
        names={node: name for name, node in nodes.items()},
        rows=checked,
        entries=len(entries),
        moved=tuple(receipts(entries)),
        held=tuple(await held_by(ownership, nodes, cluster.state.path, keys)),
        violations=(*rows.violations, *reader.violations),
    )


async def _members(cluster: DemoCluster) -> dict[str, NodeId]:
    seats = (await look(cluster.client)).seats
    return {
        item.name: seats[item.url].id
        for item in cluster.nodes.values()
        if seats[item.url].state is NodeState.JOINED
    }


def receipts(entries: Iterable[SealedEntry]) -> list[Moved]:
    found = []
    for sealed in entries:
        step = sealed.entry.transformation
        if isinstance(step, MidJoin | MidLeave | MidReplace):
            kind = sealed.kind.removeprefix("Mid").lower()
            found.append(_moved(step.sequence, kind, step.receipts))
    return found


def _moved(sequence: int, kind: str, listed: Sequence[Receipt]) -> Moved:
    return Moved(
        sequence=sequence,
        kind=kind,
        rows=sum(item.target_rows.rows for item in listed),
        ranges=len(listed),
        sources=frozenset(source.node for item in listed for source in item.sources),
        targets=frozenset(item.target for item in listed),
        is_proved=bool(listed) and all(item.source == item.target_rows for item in listed),
    )


async def held_by(
    ownership: Ownership, nodes: Mapping[str, NodeId], folder: Path, keys: Iterable[str]
) -> list[Held]:
    """Count the rows in the files of nodes that do not run any more."""
    owned = Counter(node for key in keys for node in ownership.owners(ownership.key(key)))
    found = []
    for name, node in nodes.items():
        ranges = ownership.ranges(node)
        async with opened(folder / name / FILE, SCHEMAS) as database:
            store = Store(database, folder_at(str((folder / name / FOLDER).absolute())))
            inside = await store.count(ownership.table, ranges)
            everything = await store.count(ownership.table, (FULL,))
        found.append(
            Held(
                name=name,
                ranges=len(ranges),
                owned=owned[node],
                found=inside.rows,
                outside=everything.rows - inside.rows,
            )
        )
    return found
