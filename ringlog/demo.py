"""A printed story: a cluster is founded, nodes join, one is refused, one turns back."""

from __future__ import annotations

import asyncio
from uuid import UUID

from rich.console import Console
from rich.table import Table

from encoding.entries import Entry, EntryId
from log.chain import seal
from log.memory import MemoryLog
from log.replay import NOTHING_APPLIED, Applied, replay
from log.store import Appended
from metadata.allocation import allocate
from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.locks import SequenceId
from metadata.placements import Group
from metadata.schema import Simple
from metadata.tokens import MINIMUM, Range, Token
from transformations.directory import Register
from transformations.ending import CancelSequence, RetireSequence
from transformations.initialize import Initialize
from transformations.join import FinishJoin, MidJoin, PrepareJoin, StartJoin, UnsafeJoin
from transformations.kinds import AnyTransformation, execute, kind_of
from transformations.outcome import Rejected, Result
from transformations.schema import CreateKeyspace

DATACENTER = "dc1"
MICROSECONDS_PER_ENTRY = 1_000_000
ENTRIES_MAX = 10_000
BYTES_MAX = 1 << 30


class Story:
    """Commits to a log in memory and tells what happened."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._log = MemoryLog()
        self._applied = NOTHING_APPLIED

    @property
    def metadata(self) -> ClusterMetadata:
        return self._applied.metadata

    def say(self, text: str) -> None:
        self._console.print(f"\n[bold]{text}[/bold]")

    async def commit(self, transformation: AnyTransformation, *, why: str = "") -> Result | None:
        """Decide and append; None if it was refused."""
        outcome = execute(transformation, self.metadata)
        kind = kind_of(transformation)
        if isinstance(outcome, Rejected):
            self._console.print(
                f"  [red]refused[/red]  {kind}: {outcome.detail}\n"
                f"           code {outcome.reason}; {outcome.remedy}"
            )
            return None
        after = outcome.after
        entry = Entry(
            cluster=after.cluster.id,
            epoch=after.epoch,
            entry_id=EntryId(UUID(int=after.epoch)),
            transformation=transformation,
            result=outcome.result,
            digest=after.digest,
            actor="demo",
            reason=why or None,
            committed_at=after.epoch * MICROSECONDS_PER_ENTRY,
            committed_by="demo",
        )
        sealed = seal(entry, self._applied.hash)
        appended = await self._log.append([sealed], onto=self._applied.tip)
        assert isinstance(appended, Appended), appended
        self._applied = Applied(after, sealed.hash)
        self._console.print(
            f"  [green]epoch {after.epoch:2}[/green] {kind:15} digest {after.digest.hex()[:12]}…"
        )
        return outcome.result

    def draw(self) -> None:
        """The placements at this epoch, one line a range."""
        sequences = self.metadata.sequences.in_progress.values()
        for key, placement in self.metadata.placements.items():
            steps = ", ".join(f"{item.kind} {item.id} after {item.last}" for item in sequences)
            table = Table(title=f"epoch {self.metadata.epoch}, {key}{steps and f', {steps}'}")
            for title in ("range", "readers", "writers", "last change"):
                table.add_column(title)
            pairs = zip(placement.read_groups(), placement.write_groups(), strict=True)
            for (span, readers), (_, writers) in pairs:
                moving = "[yellow]" if readers.owners != writers.owners else ""
                changed = f"reads {readers.epoch}, writes {writers.epoch}"
                table.add_row(_range(span), _names(readers), f"{moving}{_names(writers)}", changed)
            self._console.print(table)

    async def verify(self) -> None:
        entries = await self._log.read_after(
            NOTHING_APPLIED.tip.epoch, entries_max=ENTRIES_MAX, bytes_max=BYTES_MAX
        )
        again = replay(entries)
        assert again.metadata.digest == self.metadata.digest
        self._console.print(
            f"  {len(entries)} entries, {sum(len(item.payload) for item in entries)} bytes: chain, "
            f"outcomes and digests hold\n  digest {again.metadata.digest.hex()}"
        )


def _range(span: Range) -> str:
    return f"({_short(span.left)}, {_short(span.right)}]"


def _short(token: Token) -> str:
    """A token as a percentage of the ring: easier on the eye than nineteen digits."""
    return "min" if token == MINIMUM else f"{(token - MINIMUM) / 2**64:.0%}"


def _names(group: Group) -> str:
    return " ".join(f"n{node}" for node in group.owners)


def tokens_for(metadata: ClusterMetadata, rack: str) -> tuple[Token, ...]:
    ring = {node: metadata.ring.tokens_of(node) for node in metadata.ring.by_node}
    racks = {node: place.rack for node, place in metadata.locations().items()}
    return allocate(ring, racks, rack=rack, factor=2, count=1)


async def found(story: Story) -> None:
    story.say("A cluster is founded, and three nodes take their first tokens at once.")
    await story.commit(
        Initialize(name="demo", cluster=str(UUID(int=1))), why="to show how it works"
    )
    await story.commit(CreateKeyspace(name="shop", replication=Simple(2)))
    for number in range(1, 7):
        await story.commit(
            Register(
                host_id=f"host-{number}",
                addresses={"native": f"10.0.0.{number}:9042"},
                datacenter=DATACENTER,
                rack=f"r{number}",
                version="1.0",
            )
        )
    for number in range(1, 4):
        tokens = tokens_for(story.metadata, f"r{number}")
        await story.commit(UnsafeJoin(node=NodeId(number), tokens=tokens))
    story.draw()


async def join(story: Story) -> None:
    story.say("Node 4 joins step by step: it writes before it reads, and reads move in one epoch.")
    sequence = await prepare(story, NodeId(4))
    story.draw()
    for step in (StartJoin, MidJoin, FinishJoin):
        await story.commit(step(sequence=sequence))
        story.draw()
    await story.commit(RetireSequence(sequence=sequence))


async def overlap_and_cancel(story: Story) -> None:
    story.say("Nodes 5 and 6 want to join where their ranges overlap. The second is told why not.")
    sequence = await prepare(story, NodeId(5))
    near = Token(story.metadata.sequences.in_progress[sequence].tokens[0] + 1)
    await story.commit(PrepareJoin(node=NodeId(6), tokens=(near,)))
    story.say(
        "Node 5 gets as far as reading, then turns back. The added writers stay until RETIRE."
    )
    await story.commit(StartJoin(sequence=sequence))
    await story.commit(MidJoin(sequence=sequence))
    await story.commit(CancelSequence(sequence=sequence), why="the disk is smaller than thought")
    story.draw()
    await story.commit(RetireSequence(sequence=sequence))
    story.draw()


async def prepare(story: Story, node: NodeId) -> SequenceId:
    tokens = tokens_for(story.metadata, f"r{node}")
    result = await story.commit(PrepareJoin(node=node, tokens=tokens))
    assert result is not None, node
    assert result.sequence is not None, node
    return SequenceId(result.sequence)


async def tell(console: Console) -> None:
    story = Story(console)
    await found(story)
    await join(story)
    await overlap_and_cancel(story)
    story.say("The whole log, replayed from nothing:")
    await story.verify()


def main() -> None:
    asyncio.run(tell(Console()))


if __name__ == "__main__":
    main()
