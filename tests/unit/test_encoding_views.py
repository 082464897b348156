"""The components of the metadata as people see them."""

from __future__ import annotations

import json

import pytest

from encoding.views import component_view, metadata_view, sequence_view
from metadata.cluster import COMPONENTS, NOTHING_YET
from metadata.directory import NodeId
from metadata.plans import Step
from metadata.schema import Network, Simple
from metadata.sequences import SequenceKind
from metadata.tokens import Token
from tests.builders import (
    CLUSTER,
    commit,
    founded,
    in_step,
    joined_cluster,
    only_sequence,
    registration,
)
from tests.golden.history import history
from transformations.join import PrepareJoin
from transformations.schema import CreateKeyspace

LAST = history().metadata
MINIMUM = "-9223372036854775808"


@pytest.mark.parametrize("metadata", [NOTHING_YET, founded(), LAST])
def test_everything_is_plain_and_begins_with_the_epoch(metadata):
    whole = metadata_view(metadata)

    assert json.loads(json.dumps(whole)) == whole
    assert whole["epoch"] == metadata.epoch
    assert whole["digest"] == metadata.digest.hex()
    assert whole["modified"].keys() == set(COMPONENTS)
    for name in COMPONENTS:
        assert whole[name] == component_view(metadata, name)
        assert next(iter(whole[name].items())) == ("epoch", metadata.epoch)


def test_an_unknown_component_is_a_key_error():
    with pytest.raises(KeyError):
        component_view(LAST, "weather")


def test_the_cluster():
    assert component_view(LAST, "cluster") == {
        "epoch": 64,
        "id": CLUSTER,
        "name": "corner shop",
        "partitioner": "murmur3",
    }


def test_the_directory():
    view = component_view(LAST, "directory")

    assert view["next_node"] == 8
    assert [node["id"] for node in view["nodes"]] == [1, 2, 3, 5, 6, 7]
    assert view["nodes"][0] == {
        "id": 1,
        "host_id": "host-1",
        "addresses": {"native": "10.0.9.1:9042", "storage": "10.0.9.1:7000"},
        "datacenter": "north",
        "rack": "r1",
        "version": "1.1",
        "state": "left",
    }


def test_the_schema():
    (shop,) = component_view(LAST, "schema")["keyspaces"]

    assert shop["replication"] == {"strategy": "simple", "factor": 2}
    assert shop["tables"] == [
        {
            "id": 1,
            "keyspace": "shop",
            "name": "orders",
            "columns": [{"name": "id", "type": "bigint"}, {"name": "paid", "type": "boolean"}],
            "partition_key": ["id"],
            "created": 18,
            "epoch": 19,
            "dropped": [{"name": "total", "type": "double"}],
        }
    ]


def test_the_ring():
    assert component_view(joined_cluster(nodes=2), "ring")["tokens"] == [
        {"token": "100", "node": 1},
        {"token": "200", "node": 2},
    ]


def test_placements_have_the_primary_first():
    """The owner of the right token; the last range wraps around to the first token's."""
    metadata = joined_cluster(nodes=3, replication=Simple(2))

    (placement,) = component_view(metadata, "placements")["placements"]

    assert placement.keys() == {"replication", "keyspaces", "reads", "writes"}
    assert placement["replication"] == {"strategy": "simple", "factor": 2}
    assert placement["keyspaces"] == ["shop"]
    assert [(group["left"], group["right"], group["owners"]) for group in placement["reads"]] == [
        (MINIMUM, "100", [1, 2]),
        ("100", "200", [2, 3]),
        ("200", "300", [3, 1]),
        ("300", MINIMUM, [1, 2]),
    ]
    assert placement["writes"] == placement["reads"]
    assert {group["epoch"] for group in placement["reads"]} == {8}


def test_a_primary_that_is_no_owner_is_not_put_first():
    """With a factor in one datacenter only, the right token may be another one's."""
    places = [("dc1", "r1"), ("dc2", "r1"), ("dc1", "r2")]
    metadata = joined_cluster(nodes=3, replication=Network({"dc1": 2}), places=places)

    (placement,) = component_view(metadata, "placements")["placements"]

    assert [group["owners"] for group in placement["reads"]] == [[1, 3], [1, 3], [3, 1], [1, 3]]


def test_writers_are_shown_apart_from_readers():
    """Node 6 has started to join: it writes what it will own and does not read it yet."""
    (placement,) = component_view(LAST, "placements")["placements"]
    sides = {
        side: [group["owners"] for group in placement[side] if group["right"] == "600"]
        for side in ("reads", "writes")
    }

    assert sides == {"reads": [[2, 5]], "writes": [[2, 5, 6]]}


def test_keyspaces_with_one_replication_share_a_placement():
    metadata = commit(joined_cluster(), CreateKeyspace(name="also", replication=Simple(3)))

    (placement,) = component_view(metadata, "placements")["placements"]

    assert placement["keyspaces"] == ["also", "shop"]


def test_the_first_node_is_shown_while_it_joins():
    """It owns every range, and the ring has no token yet."""
    metadata = commit(
        founded(),
        registration(1),
        CreateKeyspace(name="shop", replication=Simple(1)),
        PrepareJoin(node=NodeId(1), tokens=(Token(5),)),
    )

    (placement,) = component_view(metadata, "placements")["placements"]

    assert {tuple(group["owners"]) for group in placement["reads"]} == {(1,)}


def test_locks_sequences_and_sessions():
    (lock,) = component_view(LAST, "locks")["locks"]
    (sequence,) = component_view(LAST, "sequences")["sequences"]
    (session,) = component_view(LAST, "sessions")["sessions"]

    assert lock == {
        "sequence": 63,
        "placements": [{"placement": "simple:2", "ranges": [{"left": "-3000", "right": "2500"}]}],
    }
    assert sequence == sequence_view(only_sequence(LAST))
    assert session == {
        "id": 64,
        "purpose": "movement",
        "nodes": [6],
        "ranges": [{"left": "-3000", "right": "600"}],
        "sequence": 63,
    }


@pytest.mark.parametrize("kind", SequenceKind)
@pytest.mark.parametrize("step", [Step.PREPARE, Step.START, Step.MID, Step.FINISH, Step.CANCEL])
def test_a_sequence_says_where_it_stands(kind, step):
    metadata = in_step(joined_cluster(nodes=5, spare=1), kind, step)

    view = sequence_view(only_sequence(metadata))

    assert view["kind"] == kind
    assert view["taken"][-1] == {"step": step.value, "epoch": metadata.epoch}
    assert view["cancelled"] is (step is Step.CANCEL)
    assert view["due"] == only_sequence(metadata).due
    assert all(change["handovers"] for plan in view["plans"] for change in plan["changes"])


def test_the_address_book():
    view = component_view(LAST, "cms")

    assert [(member["name"], member["state"]) for member in view["members"]] == [
        ("cms1", "active"),
        ("cms2", "joining"),
    ]
    assert view["reconfiguration"]["remove"] == ["cms1"]
    assert component_view(founded(), "cms")["reconfiguration"] is None


def test_extensions():
    assert component_view(LAST, "extensions")["extensions"] == [
        {"name": "note", "value": "", "epoch": 52}
    ]
