"""What a coordinator says of a write that took several attempts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.replicas import Consistency
from services.http.problems import Code, ProblemError
from services.node.data.coordinator import Coordinator, Put
from services.node.data.tables import TableName
from services.node.data.timestamps import Timestamps
from tests.builders import commit, joined_cluster
from transformations.schema import AlterTable

TABLE = TableName("shop", "t1")


class Script:
    """Attempts one after the other: each is told the tallies of the rows that are left."""

    def __init__(self, *attempts):
        self.attempts = list(attempts)

    async def write(self, _view, _rows, tallies):
        self.attempts.pop(0)(*tallies)


class Engine:
    """Caught up at once, whatever is asked."""

    node = NodeId(1)

    def __init__(self):
        self.applied = SimpleNamespace(metadata=joined_cluster(3))
        self.following = SimpleNamespace(clock=lambda: 0.0)

    async def catch_up(self, _epoch, _timeout_s):
        return True


class Once:
    """A node that may serve one attempt."""

    def __init__(self):
        self.checks = 0

    def check(self):
        self.checks += 1
        if self.checks > 1:
            raise ProblemError(Code.NEEDS_REPAIR, "set back")


def acknowledge(tally):
    for node in (1, 2, 3):
        tally.acknowledge(NodeId(node))


def one_has_it(tally):
    """The others know of newer owners."""
    tally.acknowledge(NodeId(1))
    for node in (2, 3):
        tally.shortage.refused(NodeId(node), "coordinator_behind", Epoch(99))


def nobody_is_there(tally):
    for node in (1, 2, 3):
        tally.lose(NodeId(node), "no connection", may_have_arrived=False)


async def written(*attempts, keys=("1",), engine=None, fitness=None):
    subject: Any = Coordinator(
        engine or Engine(),  # type: ignore[arg-type] # a stand-in
        Script(*attempts),  # type: ignore[arg-type] # a stand-in
        fitness or SimpleNamespace(check=lambda: None),  # type: ignore[arg-type] # a stand-in
        Timestamps(lambda: 1000),
    )
    puts = [Put(key=key, columns={"text": "x"}) for key in keys]
    return await subject.write(TABLE, puts, Consistency.QUORUM)


async def test_what_an_earlier_attempt_has_left_at_a_replica_is_not_denied():
    (found,) = await written(one_has_it, nobody_is_there)

    assert found.code == "write_unknown"


async def test_a_write_that_no_attempt_brought_anywhere_was_not_made():
    def all_behind(tally):
        for node in (1, 2, 3):
            tally.shortage.refused(NodeId(node), "coordinator_behind", Epoch(99))

    (found,) = await written(all_behind, nobody_is_there)

    assert found.code == "unavailable_replicas"
    assert "none has the write" in found.detail


async def test_rows_keep_their_outcomes_when_the_node_stops_serving_between_attempts():
    def first_two(one, two, three):
        acknowledge(one)
        one_has_it(two)
        for node in (1, 2, 3):
            three.shortage.refused(NodeId(node), "coordinator_behind", Epoch(99))

    one, two, three = await written(first_two, keys=("1", "2", "3"), fitness=Once())

    assert one.row.key == "1"
    assert two.code == "write_unknown"
    assert (three.code, three.detail) == ("needs_repair", "set back")


async def test_a_row_that_fits_no_more_may_have_been_written():
    engine = Engine()

    def altered(tally):
        one_has_it(tally)
        engine.applied.metadata = commit(
            engine.applied.metadata, AlterTable(keyspace="shop", name="t1", drop=("text",))
        )

    (found,) = await written(altered, lambda: None, engine=engine)

    assert found.code == "write_unknown"
    assert "text" in found.detail
