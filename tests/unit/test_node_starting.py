"""What a node commits when it starts."""

from __future__ import annotations

import pytest

from metadata.directory import Location, NodeState
from metadata.plans import Step
from metadata.sequences import SequenceKind
from services.node.identity import ForeignDirectoryError, Identity, check_own
from services.node.starting import Known, Wanted, next_start
from tests.builders import accepted, commit, founded, in_step, joined_cluster
from transformations.directory import Register, Startup, Unregister
from transformations.kinds import execute

EMPTY_CLUSTER = founded()
OURS = Identity(cluster=EMPTY_CLUSTER.cluster.id, name="node-1", host_id="host-7")
WANTED = Wanted(addresses={"http": "10.0.0.7:7500"}, location=Location("dc1", "r1"), version="1.0")


def started(metadata, wanted=WANTED, identity=OURS):
    """Carry out what is due until the node is known; what was committed, and its number."""
    committed: list[type] = []
    for _ in range(5):
        due = next_start(identity, wanted, metadata)
        if isinstance(due, Known):
            return committed, due.node, metadata
        committed.append(type(due))
        metadata = accepted(execute(due, metadata)).after
    raise AssertionError(committed)


def test_a_new_node_registers():
    committed, node, metadata = started(EMPTY_CLUSTER)

    assert committed == [Register]
    assert metadata.directory.nodes[node].addresses == WANTED.addresses


def test_a_second_start_commits_nothing():
    _, node, metadata = started(EMPTY_CLUSTER)

    assert started(metadata)[:2] == ([], node)


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(addresses={"http": "10.0.0.8:7500"}, location=WANTED.location, version="1.0"),
        Wanted(addresses=WANTED.addresses, location=WANTED.location, version="1.1"),
    ],
)
def test_another_address_or_version_is_told(wanted):
    _, node, metadata = started(EMPTY_CLUSTER)

    assert started(metadata, wanted)[:2] == ([Startup], node)


def test_a_rack_is_not_the_nodes_own_to_change():
    _, node, metadata = started(EMPTY_CLUSTER)
    elsewhere = Wanted(
        addresses=WANTED.addresses, location=Location("dc1", "r2"), version=WANTED.version
    )

    assert started(metadata, elsewhere)[:2] == ([], node)


def test_a_node_that_left_comes_back_as_a_new_one():
    left = in_step(joined_cluster(nodes=5), SequenceKind.LEAVE, Step.RETIRE)
    gone = next(node for node in left.directory.nodes.values() if node.state is NodeState.LEFT)
    identity = Identity(cluster=left.cluster.id, name="node-1", host_id=gone.host_id, node=gone.id)
    wanted = Wanted(addresses=gone.addresses, location=gone.location, version=gone.version)

    committed, node, _ = started(left, wanted, identity)

    assert committed == [Unregister, Register]
    assert node > gone.id


def test_a_node_that_was_unregistered_registers_again():
    _, node, metadata = started(EMPTY_CLUSTER)
    forgotten = commit(metadata, Unregister(node=node))

    committed, again, _ = started(forgotten)

    assert committed == [Register]
    assert again > node


@pytest.mark.parametrize(
    ("cluster", "name", "named"),
    [("another", "node-1", "cluster another"), (None, "node-2", "named node-1")],
)
def test_a_foreign_directory_is_refused(cluster, name, named):
    with pytest.raises(ForeignDirectoryError, match=named):
        check_own(OURS, cluster=cluster, name=name)


def test_ones_own_directory_is_taken_also_while_no_cms_answers():
    check_own(OURS, cluster=None, name="node-1")
    check_own(OURS, cluster=OURS.cluster, name="node-1")
