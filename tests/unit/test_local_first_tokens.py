"""The first nodes take tokens that give each its share."""

import asyncio

import msgspec
import pytest

from client.answers import Committed, Rejected
from encoding.views import component_view
from metadata.directory import NodeId, NodeState
from metadata.schema import Simple
from metadata.tokens import MINIMUM
from services.local.first_tokens import NO_ROWS, Seat, first_joins, take_first_tokens
from tests.builders import commit, founded, keyspace
from transformations.directory import Register
from transformations.kinds import execute
from transformations.outcome import Accepted

RACKS = ("r1", "r2", "r3")
URLS = [f"http://127.0.0.1:{number}" for number in range(1, 10)]


def registered(nodes, *before):
    metadata = commit(founded(), *before)
    for number in range(1, nodes + 1):
        metadata = commit(
            metadata,
            Register(
                host_id=f"host-{number}",
                addresses={"http": f"127.0.0.1:{number}"},
                datacenter="dc1",
                rack=RACKS[(number - 1) % 3],
                version="1",
            ),
        )
    return metadata


def seats(metadata):
    found = component_view(metadata, "directory")["nodes"]
    return [msgspec.convert(node, Seat) for node in found]


@pytest.mark.parametrize("nodes", [1, 2, 3, 5, 9])
def test_every_node_gets_its_share(nodes):
    metadata = registered(nodes)

    metadata = commit(metadata, *first_joins(seats(metadata)))

    assert len(metadata.ring.tokens) == 16 * nodes
    tokens = [MINIMUM, *metadata.ring.tokens, MINIMUM + 2**64]
    shares = dict.fromkeys(metadata.ring.by_node, 0.0)
    for left, right, owner in zip(
        tokens, tokens[1:], [*metadata.ring.owners, metadata.ring.owners[0]], strict=False
    ):
        shares[owner] += (right - left) / 2**64
    assert all(0.5 / nodes < share < 2 / nodes for share in shares.values()), shares


class Log:
    """What a client shows and commits, without a server."""

    def __init__(self, metadata):
        self.metadata = metadata
        self.committed = []

    async def component(self, name):
        return component_view(self.metadata, name)

    async def commit_batch(self, proposals, *, atomic):
        assert atomic
        metadata = self.metadata
        for index, proposal in enumerate(proposals):
            outcome = execute(proposal.transformation, metadata)
            if not isinstance(outcome, Accepted):
                return Rejected(code=outcome.reason.value, detail=outcome.detail, index=index)
            metadata = outcome.after
        self.metadata = metadata
        self.committed += [proposal.transformation for proposal in proposals]
        return [Committed]


def taken(log, urls):
    return asyncio.run(take_first_tokens(log, urls, actor="test"))


def test_nodes_of_an_empty_ring_join():
    log = Log(registered(3))

    assert taken(log, URLS[:3]) == []
    states = {node.state for node in log.metadata.directory.nodes.values()}
    assert states == {NodeState.JOINED}
    assert all(join.accept_loss is None for join in log.committed)


def test_later_nodes_stay_registered_and_are_named():
    log = Log(registered(4))
    taken(log, URLS[:3])

    assert taken(log, URLS[:4]) == URLS[3:4]
    assert log.metadata.directory.nodes[NodeId(4)].state is NodeState.REGISTERED


def test_nodes_of_somebody_else_are_left_alone():
    log = Log(registered(3))
    taken(log, URLS[:2])

    assert set(log.metadata.ring.by_node) == {1, 2}


def test_tables_that_nobody_holds_are_no_obstacle_and_the_log_says_why():
    log = Log(registered(3, *keyspace(Simple(2))))

    assert taken(log, URLS[:3]) == []
    assert {join.accept_loss for join in log.committed} == {NO_ROWS}
