"""Nodes become known, start, change place and are forgotten."""

from __future__ import annotations

import msgspec
import pytest

from metadata.directory import Location, NodeId, NodeState
from metadata.plans import Step
from metadata.schema import Network
from metadata.sequences import SequenceKind
from tests.builders import (
    accepted,
    commit,
    founded,
    in_step,
    joined_cluster,
    only_sequence,
    registration,
    rejected,
    state_of,
)
from transformations.directory import AlterTopology, Startup, Unregister
from transformations.kinds import execute
from transformations.leave import Assassinate
from transformations.outcome import Reason


def startup(node, address="10.0.0.99:9042", version="2"):
    return Startup(node=NodeId(node), addresses={"native": address}, version=version)


def replaced(transformation, **changed):
    return msgspec.structs.replace(transformation, **changed)


def test_registers_a_node_under_the_next_number():
    before = founded()

    outcome = accepted(execute(registration(1, ("dc2", "r7")), before))

    node = outcome.after.directory.nodes[NodeId(1)]
    assert outcome.result.node == 1
    assert node.location == Location("dc2", "r7")
    assert str(node.location) == "dc2/r7"
    assert node.state is NodeState.REGISTERED
    assert node.addresses == {"native": "10.0.0.1:9042"}
    assert (node.host_id, node.version) == ("host-1", "1")


def test_registering_touches_the_directory_alone():
    before = founded()

    after = commit(before, registration(1))

    changed = {name for name, item in after.components() if item.epoch == after.epoch}
    assert changed == {"directory"}


def test_refuses_an_address_that_any_node_has():
    before = commit(founded(), registration(1))
    same = replaced(registration(2), addresses={"gossip": "10.0.0.1:9042"})

    refused = rejected(execute(same, before), Reason.ADDRESS_TAKEN)

    assert "10.0.0.1:9042 belongs to node 1" in refused.detail
    assert refused.remedy == "unregister node 1"


def test_an_address_of_a_member_is_freed_by_starting_or_replacing_it():
    before = joined_cluster(nodes=2)
    same = replaced(registration(9), addresses={"gossip": "10.0.0.1:9042"})

    refused = rejected(execute(same, before), Reason.ADDRESS_TAKEN)

    assert refused.remedy == "start it up as node 1, or replace node 1 from another address"


def test_the_address_of_a_node_that_left_is_still_taken():
    before = commit(joined_cluster(nodes=2, tables=0), Assassinate(node=NodeId(1)))
    same = replaced(registration(9), addresses={"native": "10.0.0.1:9042"})

    rejected(execute(same, before), Reason.ADDRESS_TAKEN)
    commit(before, Unregister(node=NodeId(1)), same).directory.find(NodeId(3))


def test_refuses_a_host_id_that_any_node_has():
    before = commit(founded(), registration(1))
    same = replaced(registration(2), host_id="host-1")

    refused = rejected(execute(same, before), Reason.HOST_ID_TAKEN)

    assert "host-1 belongs to node 1" in refused.detail


def test_a_node_may_have_one_address_under_two_names():
    twice = replaced(registration(1), addresses={"a": "10.0.0.1:1", "b": "10.0.0.1:1"})
    before = commit(founded(), twice)

    after = commit(before, startup(1, "10.0.0.2:1"), replaced(twice, host_id="other"))

    assert dict(after.directory.by_address) == {"10.0.0.2:1": 1, "10.0.0.1:1": 2}


def test_starts_elsewhere_with_another_version():
    before = joined_cluster(nodes=2)

    after = commit(before, startup(1))

    node = after.directory.nodes[NodeId(1)]
    assert node.addresses == {"native": "10.0.0.99:9042"}
    assert node.version == "2"
    assert node.state is NodeState.JOINED
    assert after.placements is before.placements


@pytest.mark.parametrize("step", [Step.PREPARE, Step.START, Step.MID])
@pytest.mark.parametrize("kind", SequenceKind)
def test_may_change_its_address_during_any_sequence(kind, step):
    before = in_step(joined_cluster(nodes=4, spare=1), kind, step)

    after = commit(before, startup(only_sequence(before).node))

    assert only_sequence(after) == only_sequence(before)


def test_may_keep_its_address_and_give_it_back():
    before = commit(joined_cluster(nodes=2), startup(1, "10.0.0.1:9042"))

    after = commit(before, startup(1, "10.0.0.50:1"), startup(2, "10.0.0.1:9042"))

    assert dict(after.directory.by_address) == {"10.0.0.50:1": 1, "10.0.0.1:9042": 2}


def test_refuses_to_start_at_the_address_of_another():
    refused = rejected(
        execute(startup(1, "10.0.0.2:9042"), joined_cluster(nodes=2)), Reason.ADDRESS_TAKEN
    )

    assert "node 2" in refused.detail


@pytest.mark.parametrize("transformation", [startup(9), Unregister(node=NodeId(9))])
def test_refuses_an_unknown_node(transformation):
    refused = rejected(execute(transformation, joined_cluster()), Reason.UNKNOWN_NODE)

    assert refused.remedy == "register it first"


def test_a_node_that_left_does_not_start_again():
    before = commit(joined_cluster(nodes=2, tables=0), Assassinate(node=NodeId(1)))

    refused = rejected(execute(startup(1), before), Reason.WRONG_STATE)

    assert refused.remedy == "unregister node 1, then register it as a new one"


def test_forgets_a_node_but_never_its_number():
    before = joined_cluster(nodes=1, spare=1)

    after = commit(before, Unregister(node=NodeId(2)), registration(2))

    assert after.directory.find(NodeId(2)) is None
    assert after.directory.find(NodeId(3)) is not None


def test_forgets_a_node_that_left():
    before = commit(joined_cluster(nodes=2, tables=0), Assassinate(node=NodeId(1)))

    after = commit(before, Unregister(node=NodeId(1)))

    assert list(after.directory.nodes) == [2]


@pytest.mark.parametrize(
    ("kind", "step", "node", "state"),
    [
        (SequenceKind.JOIN, Step.START, 5, NodeState.BOOTSTRAPPING),
        (SequenceKind.REPLACE, Step.MID, 5, NodeState.BOOT_REPLACING),
        (SequenceKind.MOVE, Step.PREPARE, 1, NodeState.MOVING),
        (SequenceKind.LEAVE, Step.START, 1, NodeState.LEAVING),
        (SequenceKind.LEAVE, Step.PREPARE, 2, NodeState.JOINED),
    ],
)
def test_never_forgets_a_node_that_owns_or_is_about_to(kind, step, node, state):
    before = in_step(joined_cluster(nodes=4, spare=1), kind, step)
    assert state_of(before, node) is state

    refused = rejected(execute(Unregister(node=NodeId(node)), before), Reason.WRONG_STATE)

    assert refused.remedy


@pytest.mark.parametrize(
    ("kind", "step", "node"),
    [
        (SequenceKind.JOIN, Step.PREPARE, 5),
        (SequenceKind.LEAVE, Step.FINISH, 1),
        (SequenceKind.REPLACE, Step.FINISH, 1),
    ],
)
def test_never_forgets_a_node_while_a_sequence_concerns_it(kind, step, node):
    before = in_step(joined_cluster(nodes=4, spare=1), kind, step)

    refused = rejected(execute(Unregister(node=NodeId(node)), before), Reason.SEQUENCE_IN_PROGRESS)

    assert refused.sequence == only_sequence(before).id
    assert refused.step is only_sequence(before).due


RACKS = [("dc1", "r1"), ("dc1", "r2"), ("dc1", "r3"), ("dc1", "r1")]


def test_corrects_a_place_where_no_data_moves():
    before = joined_cluster(nodes=3, replication=Network({"dc1": 3}), places=RACKS[:3])
    moves = AlterTopology(
        locations={NodeId(3): Location("dc1", "r9"), NodeId(1): Location("dc1", "r8")}
    )

    after = commit(before, moves)

    assert after.directory.nodes[NodeId(3)].location == Location("dc1", "r9")
    assert after.directory.nodes[NodeId(1)].location == Location("dc1", "r8")
    assert after.placements is before.placements


def test_refuses_a_place_that_would_move_data():
    before = joined_cluster(nodes=4, replication=Network({"dc1": 2}), places=RACKS)
    moves = AlterTopology(locations={NodeId(2): Location("dc1", "r1")})

    refused = rejected(execute(moves, before), Reason.PLACEMENT_CHANGES)

    assert "network:dc1=2" in refused.detail


def test_refuses_another_datacenter_that_would_move_data():
    before = joined_cluster(nodes=3, replication=Network({"dc1": 3}))
    moves = AlterTopology(locations={NodeId(2): Location("dc2", "r1")})

    rejected(execute(moves, before), Reason.PLACEMENT_CHANGES)


def test_without_keyspaces_places_are_free():
    before = joined_cluster(nodes=3, replication=None)

    after = commit(before, AlterTopology(locations={NodeId(2): Location("dc2", "r1")}))

    assert after.directory.nodes[NodeId(2)].location == Location("dc2", "r1")


def test_refuses_the_place_of_an_unknown_node():
    moves = AlterTopology(locations={NodeId(9): Location("dc1", "r1")})

    rejected(execute(moves, joined_cluster()), Reason.UNKNOWN_NODE)


@pytest.mark.parametrize("step", [Step.PREPARE, Step.FINISH, Step.CANCEL])
def test_places_are_fixed_while_a_sequence_has_its_plan(step):
    before = in_step(joined_cluster(nodes=4, spare=1), SequenceKind.JOIN, step)
    moves = AlterTopology(locations={NodeId(5): Location("dc1", "r1")})

    refused = rejected(execute(moves, before), Reason.RANGES_LOCKED)

    assert refused.sequence == only_sequence(before).id
    assert refused.step is only_sequence(before).due
    assert refused.ranges
