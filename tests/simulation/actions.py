"""Random changes to a cluster: what to ask the real core for, and how the model calls it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from metadata.barriers import Evidence, Level, moved_with_tables, voter_groups
from metadata.cluster import ClusterMetadata
from metadata.columns import ColumnType
from metadata.directory import Location, NodeId, NodeState
from metadata.image import image_of
from metadata.plans import Step
from metadata.receipts import Figures, Receipt, Source
from metadata.schema import Column, Network, Simple
from metadata.sequences import Sequence, SequenceKind
from metadata.tokens import MAXIMUM, MINIMUM, Range, Token
from tests.simulation.model import Op
from transformations import cms, extensions, initialize, join, leave, move, replace, schema
from transformations.cms import NewMember
from transformations.directory import AlterTopology, Register, Startup, Unregister
from transformations.ending import CancelSequence, RetireSequence
from transformations.sessions import CloseSession, Errand, OpenSession

NODES_MAX = 50
SEQUENCES_MAX = 5
KEYSPACES_MAX = 4


class Action(NamedTuple):
    """A transformation to execute, and the model's name for it, if the model knows the kind."""

    transformation: Any
    op: Op | None = None


class Setting(NamedTuple):
    """What kind of cluster a seed makes."""

    datacenters: int
    racks: int
    tokens: int
    factor: int
    sequences: int
    with_tables: bool


def random_setting(rng: random.Random) -> Setting:
    return Setting(
        datacenters=rng.choice([1, 1, 2, 3]),
        racks=rng.randint(1, 4),
        tokens=rng.choice([1, 1, 2, 4, 16]),
        factor=rng.randint(1, 5),
        sequences=rng.choice([1, 3, SEQUENCES_MAX]),
        with_tables=rng.random() < 0.5,
    )


class Actions:
    """Draws the next action from what the metadata is now; many of them deserve a refusal."""

    def __init__(self, rng: random.Random, setting: Setting) -> None:
        self._rng = rng
        self._setting = setting
        self._made = 0

    def draw(self, metadata: ClusterMetadata) -> Action | None:
        """None where the chosen kind makes no sense yet."""
        sequences = metadata.sequences.in_progress.values()
        nodes = len(metadata.ring.by_node)
        weights: dict[Callable[[ClusterMetadata], Action | None], float] = {
            self._register: 4 if nodes < NODES_MAX else 0.2,
            self._join: 8 if nodes < NODES_MAX else 0.5,
            self._unsafe_join: 3 if nodes < self._setting.factor + 1 else 0.3,
            self._leave: 1 if nodes < NODES_MAX / 2 else 4,
            self._assassinate: 0.3,
            self._move: 2,
            self._replace: 2,
            self._advance: 14 if sequences else 0,
            self._wrong_step: 0.5 if sequences else 0,
            self._cancel: 2 if sequences else 0,
            self._keyspace: 2,
            self._table: 1 if self._setting.with_tables else 0.7,
            self._topology: 1,
            self._directory: 1,
            self._other: 3,
        }
        if not sequences and not len(metadata.schema.keyspaces):
            return self._keyspace(metadata)
        if len(sequences) >= self._setting.sequences:
            return self._advance_or_turn_back(metadata)
        chosen = self._rng.choices(list(weights), list(weights.values()))[0]
        return chosen(metadata)

    def _location(self) -> tuple[str, str]:
        datacenter = self._rng.randint(1, self._setting.datacenters)
        return f"dc{datacenter}", f"r{self._rng.randint(1, self._setting.racks)}"

    def _node(self, metadata: ClusterMetadata, *states: NodeState) -> NodeId | None:
        """Mostly a node in one of the states; now and then any node, or none that exists."""
        if self._rng.random() < 0.03:
            return NodeId(self._rng.randint(1, metadata.directory.next_node))
        fitting = [node.id for node in metadata.directory.nodes.values() if node.state in states]
        return self._rng.choice(fitting) if fitting else None

    def _tokens(self, metadata: ClusterMetadata) -> tuple[Token, ...]:
        tokens = {self._rng.randint(MINIMUM, MAXIMUM) for _ in range(self._setting.tokens)}
        if self._rng.random() < 0.08:
            tokens.add(self._rng.choice([MINIMUM, MAXIMUM, 0]))
        if self._rng.random() < 0.02 and metadata.ring.tokens:
            tokens.add(self._rng.choice(metadata.ring.tokens))
        return tuple(Token(token) for token in sorted(tokens))

    def _replication(self) -> tuple[Any, tuple]:
        factor = self._rng.randint(1, self._setting.factor)
        if self._rng.random() < 0.4:
            return Simple(factor), ("simple", factor)
        names = [f"dc{number + 1}" for number in range(self._setting.datacenters)]
        chosen = sorted(self._rng.sample(names, self._rng.randint(1, len(names))))
        factors = {name: self._rng.randint(1, self._setting.factor) for name in chosen}
        return Network(factors), ("network", tuple(sorted(factors.items())))

    def _register(self, metadata: ClusterMetadata) -> Action:
        datacenter, rack = self._location()
        self._made += 1
        node = metadata.directory.next_node
        register = Register(
            host_id=f"host-{self._made}",
            addresses={"native": f"10.0.0.1:{self._made}"},
            datacenter=datacenter,
            rack=rack,
            version="1",
        )
        return Action(register, Op("register", node=node, datacenter=datacenter, rack=rack))

    def _join(self, metadata: ClusterMetadata) -> Action | None:
        node = self._node(metadata, NodeState.REGISTERED, NodeState.LEFT)
        if node is None:
            return None
        tokens = self._tokens(metadata)
        return Action(
            join.PrepareJoin(node=node, tokens=tokens), Op("prepare_join", node, tokens=tokens)
        )

    def _unsafe_join(self, metadata: ClusterMetadata) -> Action | None:
        node = self._node(metadata, NodeState.REGISTERED)
        if node is None:
            return None
        tokens = self._tokens(metadata)
        verb = join.UnsafeJoin(node=node, tokens=tokens, accept_loss="a simulated cluster")
        return Action(verb, Op("unsafe_join", node, tokens=tokens))

    def _leave(self, metadata: ClusterMetadata) -> Action | None:
        node = self._node(metadata, NodeState.JOINED)
        if node is None:
            return None
        force = self._rng.random() < 0.2
        loss = "a simulated cluster" if force else None
        verb = leave.PrepareLeave(node=node, force=force, accept_loss=loss)
        return Action(verb, Op("prepare_leave", node, force=force))

    def _assassinate(self, metadata: ClusterMetadata) -> Action | None:
        node = self._node(metadata, NodeState.JOINED)
        if node is None:
            return None
        verb = leave.Assassinate(node=node, accept_loss="a simulated cluster")
        return Action(verb, Op("assassinate", node))

    def _move(self, metadata: ClusterMetadata) -> Action | None:
        node = self._node(metadata, NodeState.JOINED)
        if node is None:
            return None
        kept = [t for t in metadata.ring.tokens_of(node) if self._rng.random() < 0.3]
        tokens = tuple(sorted({*self._tokens(metadata), *kept}))
        return Action(
            move.PrepareMove(node=node, tokens=tokens), Op("prepare_move", node, tokens=tokens)
        )

    def _replace(self, metadata: ClusterMetadata) -> Action | None:
        node = self._node(metadata, NodeState.REGISTERED)
        replaced = self._node(metadata, NodeState.JOINED)
        if node is None or replaced is None or node == replaced:
            return None
        verb = replace.PrepareReplace(
            node=node, replaced=replaced, accept_loss="a simulated cluster"
        )
        return Action(verb, Op("prepare_replace", node, replaced=replaced))

    def _sequence(self, metadata: ClusterMetadata) -> Sequence:
        return self._rng.choice(metadata.sequences.in_progress.values())

    def _advance(self, metadata: ClusterMetadata) -> Action:
        sequence = self._sequence(metadata)
        return Action(step_of(metadata, sequence), Op(str(sequence.due), sequence=int(sequence.id)))

    def _advance_or_turn_back(self, metadata: ClusterMetadata) -> Action:
        chosen = self._rng.random()
        if chosen < 0.1:
            return self._cancel(metadata)
        return self._wrong_step(metadata) if chosen < 0.13 else self._advance(metadata)

    def _wrong_step(self, metadata: ClusterMetadata) -> Action:
        sequence = self._sequence(metadata)
        steps = [step for step in (Step.START, Step.MID, Step.FINISH) if step != sequence.due]
        step = self._rng.choice(steps)
        verb = STEPS[sequence.kind, step](sequence=sequence.id)
        return Action(verb, Op(str(step), sequence=int(sequence.id)))

    def _cancel(self, metadata: ClusterMetadata) -> Action:
        sequence = self._sequence(metadata)
        return Action(CancelSequence(sequence=sequence.id), Op("cancel", sequence=int(sequence.id)))

    def _keyspace(self, metadata: ClusterMetadata) -> Action | None:
        names = list(metadata.schema.keyspaces)
        real, plain = self._replication()
        chosen = self._rng.random()
        if not names or (chosen < 0.4 and len(names) < KEYSPACES_MAX):
            self._made += 1
            name = f"k{self._made}"
            create = schema.CreateKeyspace(name=name, replication=real)
            return Action(create, Op("create_keyspace", keyspace=name, replication=plain))
        name = self._rng.choice(names)
        if chosen < 0.7:
            alter = schema.AlterKeyspace(name=name, replication=real, accept_loss="simulated")
            return Action(alter, Op("alter_keyspace", keyspace=name, replication=plain))
        if len(names) == 1:
            return None
        return Action(schema.DropKeyspace(name=name), Op("drop_keyspace", keyspace=name))

    def _table(self, metadata: ClusterMetadata) -> Action | None:
        names = list(metadata.schema.keyspaces)
        if not names:
            return None
        tables = metadata.schema.tables.values()
        if not tables or self._rng.random() < 0.5:
            self._made += 1
            columns = (Column("key", ColumnType.STRING), Column("value", ColumnType.BIGINT))
            return Action(
                schema.CreateTable(
                    keyspace=self._rng.choice(names),
                    name=f"t{self._made}",
                    columns=columns,
                    partition_key=("key",),
                )
            )
        table = self._rng.choice(tables)
        if self._rng.random() < 0.5:
            added = (Column(f"c{len(table.columns)}_{metadata.epoch}", ColumnType.INT),)
            return Action(schema.AlterTable(keyspace=table.keyspace, name=table.name, add=added))
        return Action(schema.DropTable(keyspace=table.keyspace, name=table.name))

    def _topology(self, metadata: ClusterMetadata) -> Action | None:
        node = self._node(metadata, *NodeState)
        if node is None:
            return None
        datacenter, rack = self._location()
        verb = AlterTopology(locations={node: Location(datacenter, rack)})
        return Action(verb, Op("alter_topology", locations=((node, datacenter, rack),)))

    def _directory(self, metadata: ClusterMetadata) -> Action | None:
        node = self._node(metadata, *NodeState)
        if node is None:
            return None
        if self._rng.random() < 0.5:
            self._made += 1
            at = {"native": f"10.0.0.1:{self._made}"}
            return Action(Startup(node=node, addresses=at, version="2"))
        idle = self._node(metadata, NodeState.REGISTERED, NodeState.LEFT) or node
        return Action(Unregister(node=idle), Op("unregister", idle))

    def _other(self, metadata: ClusterMetadata) -> Action:
        running = metadata.cms.reconfiguration
        sessions = [item for item in metadata.sessions.open.values() if item.sequence is None]
        nodes = list(metadata.directory.nodes) or [NodeId(1)]
        self._made += 1
        member = NewMember(f"cms{self._made}", f"http://127.0.0.1:{1000 + self._made}")
        drawn = [
            initialize.TriggerSnapshot(),
            initialize.ForceSnapshot(image=image_of(metadata)),
            extensions.SetExtension(name=f"e{self._rng.randint(1, 5)}", value=str(self._made)),
            extensions.ClearExtension(name=f"e{self._rng.randint(1, 5)}"),
            OpenSession(
                purpose=Errand.REPAIR,
                nodes=(self._rng.choice(nodes),),
                ranges=(Range(Token(0), Token(100)),),
            ),
            cms.PrepareCmsReconfiguration(add=(member,), remove=tuple(metadata.cms.members)[:1]),
        ]
        if sessions:
            drawn += [CloseSession(session=self._rng.choice(sessions).id)] * 2
        if running is not None:
            advance = cms.AdvanceCmsReconfiguration(sequence=running.id, step=running.index)
            drawn += [advance] * 4 + [cms.CancelCmsReconfiguration(sequence=running.id)] * 2
        return Action(self._rng.choice(drawn))


STEPS = {
    (SequenceKind.JOIN, Step.START): join.StartJoin,
    (SequenceKind.JOIN, Step.MID): join.MidJoin,
    (SequenceKind.JOIN, Step.FINISH): join.FinishJoin,
    (SequenceKind.LEAVE, Step.START): leave.StartLeave,
    (SequenceKind.LEAVE, Step.MID): leave.MidLeave,
    (SequenceKind.LEAVE, Step.FINISH): leave.FinishLeave,
    (SequenceKind.MOVE, Step.START): move.StartMove,
    (SequenceKind.MOVE, Step.MID): move.MidMove,
    (SequenceKind.MOVE, Step.FINISH): move.FinishMove,
    (SequenceKind.REPLACE, Step.START): replace.StartReplace,
    (SequenceKind.REPLACE, Step.MID): replace.MidReplace,
    (SequenceKind.REPLACE, Step.FINISH): replace.FinishReplace,
}


def step_of(metadata: ClusterMetadata, sequence: Sequence) -> Any:
    """The step that is due, with the evidence and receipts of an honest driver."""
    voters = {node for group in voter_groups(metadata, sequence) for node in group}
    targets = {node for plan in sequence.plans for _, node in plan.gains()}
    barrier = Evidence(Level.EACH_QUORUM, tuple(sorted(voters | targets))) if voters else None
    if sequence.due is Step.RETIRE:
        return RetireSequence(sequence=sequence.id, barrier=barrier)
    verb = STEPS[sequence.kind, sequence.due]
    if sequence.due is not Step.MID:
        return verb(sequence=sequence.id, barrier=barrier)
    return verb(sequence=sequence.id, barrier=barrier, receipts=receipts(metadata, sequence))


def receipts(metadata: ClusterMetadata, sequence: Sequence) -> tuple[Receipt, ...]:
    """One for each gained range and target, from all of its owners."""
    sources: dict[tuple[Range, NodeId], set[NodeId]] = {}
    for plan in moved_with_tables(metadata, sequence):
        for change, target in plan.gains():
            sources.setdefault((change.range, target), set()).update(change.before)
    figures = Figures(rows=3, xor="-7", sum="12345678901234567890")
    return tuple(
        Receipt(
            left=span.left,
            right=span.right,
            target=target,
            sources=tuple(Source(node, sequence.last_epoch) for node in sorted(nodes)),
            source=figures,
            target_rows=figures,
        )
        for (span, target), nodes in sorted(sources.items())
    )
