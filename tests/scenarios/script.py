"""Scenario scripts: an operation a line, then what came of it.

A line that begins with `>` is an operation; the lines below it are what it must print. Everything
else is for the reader. Operations are written as an operator would say them:

    > join 4 at 500
    epoch 12, sequence 12
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

from metadata.cluster import NOTHING_YET, ClusterMetadata
from metadata.columns import ColumnType
from metadata.directory import Location, NodeId
from metadata.locks import SequenceId
from metadata.placements import Group
from metadata.schema import Column, Network, Replication, Simple
from metadata.tokens import MINIMUM, Token
from tests.builders import due_step
from transformations.cms import (
    AdvanceCmsReconfiguration,
    CancelCmsReconfiguration,
    NewMember,
    PrepareCmsReconfiguration,
)
from transformations.directory import AlterTopology, Register
from transformations.ending import CancelSequence
from transformations.initialize import Initialize
from transformations.join import PrepareJoin, UnsafeJoin
from transformations.kinds import AnyTransformation, execute
from transformations.leave import PrepareLeave
from transformations.move import PrepareMove
from transformations.outcome import Rejected
from transformations.replace import PrepareReplace
from transformations.schema import AlterKeyspace, CreateKeyspace, CreateTable, DropKeyspace

MARK = "> "


def replayed(text: str) -> str:
    """The script with its expected part as it is today."""
    story = Story()
    lines: list[str] = []
    told = False
    for line in text.splitlines():
        if line.startswith(MARK):
            lines += [line, *story.take(line.removeprefix(MARK))]
            told = True
        elif not line or line.startswith("#") or not told:
            lines.append(line)
            told = False
    return "\n".join(lines) + "\n"


class Story:
    """One cluster, from nothing."""

    def __init__(self) -> None:
        self.metadata: ClusterMetadata = NOTHING_YET

    def take(self, line: str) -> Iterator[str]:
        words = shlex.split(line)
        if words[0] in ("placements", "nodes", "members"):
            yield from getattr(self, f"_show_{words[0]}")()
        elif words[0] == "step":
            yield from self._commit(self._step(SequenceId(int(words[1]))))
        elif words[0] == "cancel":
            yield from self._commit(CancelSequence(sequence=SequenceId(int(words[1]))))
        else:
            yield from self._commit(OPERATIONS[words[0]](*words[1:]))

    def _step(self, sequence: SequenceId) -> AnyTransformation:
        """The step that is due, as an honest driver would commit it."""
        found = self.metadata.sequences.in_progress[sequence]
        return due_step(self.metadata, found)

    def _commit(self, transformation: AnyTransformation) -> Iterator[str]:
        outcome = execute(transformation, self.metadata)
        if isinstance(outcome, Rejected):
            yield f"refused, {outcome.reason}: {outcome.detail}"
            if outcome.remedy is not None:
                yield f"    {outcome.remedy}"
            return
        self.metadata = outcome.after
        result = outcome.result
        parts = [f"epoch {outcome.after.epoch}", type(transformation).__name__]
        parts += [f"node {result.node}"] if result.node is not None else []
        parts += [f"sequence {result.sequence}"] if result.sequence is not None else []
        yield ", ".join(parts)
        yield from (f"    {warning}" for warning in result.warnings)

    def _show_placements(self) -> Iterator[str]:
        for key, placement in self.metadata.placements.items():
            yield key
            pairs = zip(placement.read_groups(), placement.write_groups(), strict=True)
            for (span, readers), (_, writers) in pairs:
                name = f"({_edge(span.left)}, {_edge(span.right)}]"
                reads, writes = _names(readers), _names(writers)
                moved = "" if reads == writes else f"   writers {writes}"
                yield f"    {name:16} readers {reads}{moved}"

    def _show_nodes(self) -> Iterator[str]:
        for node in self.metadata.directory.nodes.values():
            tokens = " ".join(map(str, self.metadata.ring.tokens_of(node.id)))
            yield f"    {node.id} {node.state}, {node.location}{tokens and f', {tokens}'}"

    def _show_members(self) -> Iterator[str]:
        for member in self.metadata.cms.members.values():
            yield f"    {member.name} {member.state}, {member.url}"


def _edge(token: Token) -> str:
    return "min" if token == MINIMUM else str(token)


def _names(group: Group) -> str:
    return " ".join(map(str, group.owners)) or "nobody"


def _register(number: str, place: str = "dc1/r1") -> Register:
    datacenter, rack = place.split("/")
    return Register(
        host_id=f"host-{number}",
        addresses={"native": f"10.0.0.{number}:9042"},
        datacenter=datacenter,
        rack=rack,
        version="1",
    )


def _replication(words: tuple[str, ...]) -> Replication:
    if words[0] == "simple":
        return Simple(int(words[1]))
    return Network({name: int(count) for name, count in (word.split("=") for word in words[1:])})


def _tokens(words: tuple[str, ...]) -> tuple[Token, ...]:
    assert words[0] == "at", words
    return tuple(MINIMUM if word == "min" else Token(int(word)) for word in words[1:])


def _node(word: str) -> NodeId:
    return NodeId(int(word))


def _leave(node: str, *words: str) -> PrepareLeave:
    """`leave 3`, `leave 3 force`, `leave 3 dead 3 4`, `… loss "why"`."""
    loss = words[words.index("loss") + 1] if "loss" in words else None
    dead = tuple(_node(word) for word in words if word.isdecimal())
    return PrepareLeave(node=_node(node), force="force" in words, dead=dead, accept_loss=loss)


def _table(name: str) -> CreateTable:
    keyspace, table = name.split(".")
    columns = (Column("key", ColumnType.STRING), Column("value", ColumnType.BIGINT))
    return CreateTable(keyspace=keyspace, name=table, columns=columns, partition_key=("key",))


def _reconfigure(*words: str) -> PrepareCmsReconfiguration:
    add = [word.removeprefix("+") for word in words if word.startswith("+")]
    return PrepareCmsReconfiguration(
        add=tuple(NewMember(name, f"http://{name}:7480") for name in add),
        remove=tuple(word.removeprefix("-") for word in words if word.startswith("-")),
    )


OPERATIONS: dict[str, Callable[..., AnyTransformation]] = {
    "found": lambda name: Initialize(name=name, cluster="00000000-0000-0000-0000-000000000001"),
    "register": _register,
    "keyspace": lambda name, *words: CreateKeyspace(name=name, replication=_replication(words)),
    "alter": lambda name, *words: AlterKeyspace(name=name, replication=_replication(words)),
    "drop": lambda name: DropKeyspace(name=name),
    "table": _table,
    "own": lambda node, *words: UnsafeJoin(node=_node(node), tokens=_tokens(words)),
    "join": lambda node, *words: PrepareJoin(node=_node(node), tokens=_tokens(words)),
    "move": lambda node, *words: PrepareMove(node=_node(node), tokens=_tokens(words)),
    "leave": _leave,
    "replace": lambda old, new, *words: PrepareReplace(
        node=_node(new), replaced=_node(old), dead=(_node(old),) if "dead" in words else ()
    ),
    "place": lambda node, place: AlterTopology(
        locations={_node(node): Location(*place.split("/"))}
    ),
    "reconfigure": _reconfigure,
    "advance": lambda number: AdvanceCmsReconfiguration(sequence=SequenceId(int(number))),
    "abandon": lambda number: CancelCmsReconfiguration(sequence=SequenceId(int(number))),
}
