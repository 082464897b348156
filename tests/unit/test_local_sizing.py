"""What is done next so that as many nodes run as are wanted."""

import pytest

from metadata.directory import NodeId, NodeState
from metadata.locks import SequenceId
from metadata.plans import Step
from metadata.schema import Network, Simple
from metadata.sequences import SequenceKind
from services.local.first_tokens import Seat
from services.local.looking import Look, UnderWay
from services.local.replicas import Wanting, too_few
from services.local.sizing import Dismiss, Join, Leave, Rest, Start, Watch, next_action

R, J, L = NodeState.REGISTERED, NodeState.JOINED, NodeState.LEFT
MOVING, LEAVING = NodeState.MOVING, NodeState.LEAVING


def seat(number, state):
    addresses = {"http": f"h:{number}"}
    node = NodeId(number)
    return Seat(id=node, datacenter="dc1", rack="r1", state=state, addresses=addresses)


def looked(*states, sequences=()):
    """Nodes 1, 2 … in these states; None is one that nobody knows yet."""
    known = [seat(number, state) for number, state in enumerate(states, 1) if state is not None]
    return Look(seats={item.url: item for item in known}, sequences=tuple(sequences))


def ours(count):
    return {f"node-{number}": f"http://h:{number}" for number in range(1, count + 1)}


def sequence(kind, node, replaced=None):
    return UnderWay(id=SequenceId(9), kind=kind, node=NodeId(node), due=Step.MID, replaced=replaced)


JOIN, LEAVE = sequence(SequenceKind.JOIN, 3), sequence(SequenceKind.LEAVE, 2)
MOVE = sequence(SequenceKind.MOVE, 2)
REPLACE = sequence(SequenceKind.REPLACE, 3, replaced=NodeId(2))


@pytest.mark.parametrize(
    ("states", "sequences", "wanted", "action"),
    [
        ((J, J), (), 2, Rest()),
        ((J, J), (), 3, Start()),
        ((J, R), (), 3, Start()),
        ((J, R, R), (), 3, Join("node-2", seat(2, R))),
        ((J, J, R), [JOIN], 3, Watch("node-3", JOIN)),
        ((J, J, J), [JOIN], 3, Watch("node-3", JOIN)),
        ((J, J, None), (), 3, Watch("node-3")),
        ((J, J, J), (), 2, Leave("node-3", seat(3, J))),
        ((J, LEAVING, J), [LEAVE], 2, Watch("node-2", LEAVE)),
        ((J, L, J), [LEAVE], 2, Watch("node-2", LEAVE)),
        ((J, L, J), (), 2, Dismiss("node-2", seat(2, L))),
        ((J, L, J), (), 3, Dismiss("node-2", seat(2, L))),
        ((J, R, J), (), 2, Dismiss("node-2", seat(2, R))),
        ((J, J, None), (), 2, Dismiss("node-3")),
        ((J, MOVING), [MOVE], 2, Rest()),
        ((J, L, J), [REPLACE], 3, Watch("node-2", REPLACE)),
    ],
)
def test_one_thing_at_a_time(states, sequences, wanted, action):
    found = looked(*states, sequences=sequences)

    assert next_action(found, ours(len(states)), wanted, driven=True) == action


def test_whoever_was_refused_is_left_alone():
    found = looked(J, R, R)

    assert next_action(found, ours(3), 3, driven=True, refused={"node-2"}) == Join(
        "node-3", seat(3, R)
    )
    assert next_action(found, ours(3), 3, driven=True, refused=set(ours(3))) == Rest()


def test_nobody_joins_or_leaves_without_a_driver():
    assert next_action(looked(J, R), ours(2), 2, driven=False) == Rest()
    assert next_action(looked(J, J), ours(2), 1, driven=False) == Rest()
    assert next_action(looked(J, L), ours(2), 2, driven=False) == Dismiss("node-2", seat(2, L))


@pytest.mark.parametrize(
    ("wanted", "replication", "is_refused"),
    [
        (3, Simple(3), False),
        (2, Simple(3), True),
        (2, Simple(2), False),
        (2, Network({"dc1": 3}), True),
        (2, Network({"dc2": 3}), False),
        (5, Simple(5), False),
    ],
)
def test_fewer_nodes_than_replicas_are_refused_before_anybody_leaves(
    wanted, replication, is_refused
):
    found = looked(J, J, J, J, R)

    fault = too_few(found, ours(5), wanted, [Wanting("shop", replication)])

    assert (fault is not None) == is_refused
    assert fault is None or "shop wants 3 replicas and 2 nodes would be left" in fault


def test_nodes_that_somebody_else_runs_count_too():
    assert too_few(looked(J, J, J, J), ours(2), 1, [Wanting("shop", Simple(3))]) is None
