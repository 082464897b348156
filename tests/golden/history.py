"""A small history with an entry of every kind: the life of a little shop's cluster."""

from __future__ import annotations

from metadata.columns import ColumnType
from metadata.directory import Location, NodeId
from metadata.image import image_of
from metadata.locks import SequenceId
from metadata.partitioners import Partitioner
from metadata.plans import Step
from metadata.schema import Column, Network, Simple
from metadata.sessions import SessionId
from metadata.tokens import MINIMUM, Range, Token
from tests.builders import CLUSTER, everyone_applied, registration
from tests.golden.scribe import Scribe
from transformations.cms import (
    AdvanceCmsReconfiguration,
    CancelCmsReconfiguration,
    NewMember,
    PrepareCmsReconfiguration,
)
from transformations.directory import AlterTopology, Startup, Unregister
from transformations.ending import CancelSequence, RetireSequence
from transformations.extensions import ClearExtension, SetExtension
from transformations.initialize import ForceSnapshot, Initialize, TriggerSnapshot
from transformations.join import PrepareJoin, UnsafeJoin
from transformations.leave import Assassinate, PrepareLeave
from transformations.move import PrepareMove
from transformations.replace import PrepareReplace
from transformations.schema import (
    AlterKeyspace,
    AlterTable,
    CreateKeyspace,
    CreateTable,
    DropKeyspace,
    DropTable,
)
from transformations.sessions import CloseSession, Errand, OpenSession

NODES = [1, 2, 3, 4, 5, 6, 7]


def history() -> Scribe:
    scribe = Scribe()
    _found(scribe)
    _register(scribe)
    _create_schema(scribe)
    _move_ranges(scribe)
    _tidy_up(scribe)
    _leave_work_unfinished(scribe)
    return scribe


def _found(scribe: Scribe) -> None:
    founding = Initialize(name="corner shop", partitioner=Partitioner.MURMUR3, cluster=CLUSTER)
    scribe.commit(founding, actor="ada", reason="we open on Monday")
    first = NewMember("cms1", "http://10.0.1.1:7000")
    planned = scribe.commit(PrepareCmsReconfiguration(add=(first,)))
    sequence = SequenceId(planned.sequence or 0)
    scribe.commit(AdvanceCmsReconfiguration(sequence=sequence, step=0))
    scribe.commit(AdvanceCmsReconfiguration(sequence=sequence))


def _register(scribe: Scribe) -> None:
    """Three racks; the first three nodes own the ring from the beginning."""
    scribe.commit_all(registration(node, ("north", f"r{node % 3}")) for node in NODES)
    moved = {"native": "10.0.9.1:9042", "storage": "10.0.9.1:7000"}
    scribe.commit(Startup(node=NodeId(1), addresses=moved, version="1.1"))
    scribe.commit(AlterTopology(locations={NodeId(7): Location("south", "r1")}))
    for node in (1, 2, 3):
        tokens = (Token(1000 * node), Token(-1000 * node))
        scribe.commit(UnsafeJoin(node=NodeId(node), tokens=tokens))


def _create_schema(scribe: Scribe) -> None:
    columns = (Column("id", ColumnType.BIGINT), Column("total", ColumnType.DOUBLE))
    more = (Column("paid", ColumnType.BOOLEAN),)
    scribe.commit_all(
        [
            CreateKeyspace(name="shop", replication=Simple(2)),
            CreateTable(keyspace="shop", name="orders", columns=columns, partition_key=("id",)),
            AlterTable(keyspace="shop", name="orders", add=more, drop=("total",)),
            CreateKeyspace(name="logs", replication=Network({"north": 2, "west": 1})),
            AlterKeyspace(name="logs", replication=Network({"north": 3})),
        ]
    )


def _move_ranges(scribe: Scribe) -> None:
    """One sequence of each kind to its end, and one that is cancelled half way."""
    joined = scribe.commit(PrepareJoin(node=NodeId(4), tokens=(Token(0), Token(MINIMUM))))
    scribe.advance(joined.sequence, to=Step.RETIRE)
    moved = scribe.commit(PrepareMove(node=NodeId(2), tokens=(Token(2500), Token(-2500))))
    scribe.advance(moved.sequence, to=Step.RETIRE)
    replaced = scribe.commit(PrepareReplace(node=NodeId(5), replaced=NodeId(3)))
    scribe.advance(replaced.sequence, to=Step.FINISH)
    _retire_without(scribe, replaced.sequence, NodeId(3))
    left = scribe.commit(
        PrepareLeave(node=NodeId(1), dead=(NodeId(1),), force=True, accept_loss="the disk is gone")
    )
    scribe.advance(left.sequence, to=Step.RETIRE)

    doomed = scribe.commit(PrepareJoin(node=NodeId(6), tokens=(Token(600),)))
    scribe.advance(doomed.sequence, to=Step.MID)
    scribe.commit(CancelSequence(sequence=SequenceId(doomed.sequence or 0)), reason="too slow")
    scribe.advance(doomed.sequence, to=Step.RETIRE)


def _retire_without(scribe: Scribe, sequence: int | None, dead: NodeId) -> None:
    found = scribe.metadata.sequences.in_progress[SequenceId(sequence or 0)]
    barrier = everyone_applied(scribe.metadata, found, but=[dead])
    retire = RetireSequence(sequence=found.id, barrier=barrier, dead=(dead,))
    scribe.commit(retire, actor="ada", reason="its power supply burned")


def _tidy_up(scribe: Scribe) -> None:
    everything = (Range(MINIMUM, Token(0)), Range(Token(0), MINIMUM))
    opened = scribe.commit(
        OpenSession(purpose=Errand.CLEANUP, nodes=(NodeId(6),), ranges=everything)
    )
    scribe.commit(CloseSession(session=SessionId(opened.session or 0)))
    scribe.commit_all(
        [
            Assassinate(node=NodeId(4), accept_loss="it burned"),
            Unregister(node=NodeId(4)),
            SetExtension(name="owner/team", value="sales – Grüße"),
            SetExtension(name="note", value=""),
            ClearExtension(name="owner/team"),
            CreateTable(
                keyspace="logs",
                name="clicks",
                columns=(Column("at", ColumnType.TIMESTAMP), Column("page", ColumnType.STRING)),
                partition_key=("page", "at"),
            ),
            DropTable(keyspace="logs", name="clicks"),
            DropKeyspace(name="logs"),
            TriggerSnapshot(),
        ]
    )
    image = image_of(scribe.metadata)
    scribe.commit(ForceSnapshot(image=image), actor="root", reason="drill")


def _leave_work_unfinished(scribe: Scribe) -> None:
    """So that the last image has a lock, a sequence, a session and a reconfiguration."""
    second = NewMember("cms2", "http://10.0.1.2:7000")
    planned = scribe.commit(PrepareCmsReconfiguration(add=(second,)))
    scribe.commit(CancelCmsReconfiguration(sequence=SequenceId(planned.sequence or 0)))
    again = scribe.commit(PrepareCmsReconfiguration(add=(second,), remove=("cms1",)))
    scribe.commit(AdvanceCmsReconfiguration(sequence=SequenceId(again.sequence or 0)))
    joining = scribe.commit(PrepareJoin(node=NodeId(6), tokens=(Token(600),)))
    scribe.advance(joining.sequence, to=Step.START)
