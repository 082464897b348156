"""What a start wants and what was before become what runs."""

import pytest
from msgspec.structs import replace

from metadata.partitioners import Partitioner
from services.local.failure import LocalServerError
from services.local.ports import HeldPorts
from services.local.settling import Wanted, differs, settled
from services.local.state import Fanout, state_dir


@pytest.fixture
def state(tmp_path):
    return state_dir(tmp_path)


def start(state, *, own_postgres=True, **wanted):
    with HeldPorts() as ports:
        wishes = {"port": 0, **wanted} if state.read_kept() is None else wanted
        return settled(state, Wanted(**wishes), ports, own_postgres=own_postgres)


def test_a_first_start_has_defaults(state):
    found = start(state)

    assert (found.name, found.fanout, found.tokens) == ("ringlog", Fanout.NOTIFY, False)
    assert (len(found.own_ports), found.node_ports) == (1, ())
    assert found.partitioner is Partitioner.XXHASH64


def test_a_second_start_is_like_the_first(state):
    first = start(state, nodes=3, cms=2, fanout=Fanout.KAFKA, tokens=True, name="shop")

    assert start(state) == first
    assert state.read_kept() == first


def test_more_can_be_asked_for_and_who_was_there_keeps_the_address(state):
    first = start(state, nodes=2)

    second = start(state, nodes=4, cms=3, fanout=Fanout.KAFKA, tokens=True)

    assert second.node_ports[:2] == first.node_ports
    assert second.own_ports[:1] == first.own_ports
    assert len(set(second.node_ports + second.own_ports)) == 7
    assert (second.fanout, second.tokens) == (Fanout.KAFKA, True)
    assert second.founding_entry_id == first.founding_entry_id


def test_fewer_cms_processes_are_fewer(state):
    first = start(state, cms=3)

    assert start(state, cms=1).own_ports == first.own_ports[:1]


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({"nodes": 2}, "has 3 nodes, and a node has to leave .* `ringlog scale`"),
        ({"name": "other"}, "has --name shop, which cannot change"),
        ({"partitioner": Partitioner.MURMUR3}, "xxhash64, which cannot change"),
        ({"own_postgres": False}, "log is in a Postgres of its own"),
    ],
)
def test_what_cannot_change_is_refused_and_changes_nothing(state, wanted, sentence):
    first = start(state, nodes=3, name="shop")

    with pytest.raises(LocalServerError, match=sentence):
        start(state, **wanted)
    assert state.read_kept() == first


def test_a_file_of_tokens_that_is_there_is_used_until_somebody_says_otherwise(state):
    state.tokens.write_text('{"admin": "a"}')

    assert start(state).tokens is True
    assert start(state, tokens=False).tokens is False
    assert start(state).tokens is False


@pytest.mark.parametrize(
    ("wanted", "option"),
    [
        ({}, None),
        ({"port": 0, "nodes": 3, "cms": 1, "fanout": Fanout.NOTIFY, "tokens": False}, None),
        ({"port": 1}, "--port"),
        ({"nodes": 4}, "--nodes"),
        ({"nodes": 0}, "--nodes"),
        ({"cms": 2}, "--cms"),
        ({"fanout": Fanout.KAFKA}, "--fanout"),
        ({"tokens": True}, "--tokens"),
        ({"driver": True}, None),
        ({"driver": False}, "--driver"),
        ({"name": "other"}, "--name"),
        ({"partitioner": Partitioner.MURMUR3}, "--partitioner"),
    ],
)
def test_a_cluster_that_runs_may_not_be_the_one_that_is_wanted(state, wanted, option):
    assert differs(start(state, nodes=3), Wanted(**wanted)) == option


def test_a_driver_runs_where_there_are_nodes_unless_somebody_says_otherwise(state):
    assert start(state).driver_url is None
    first = start(state, nodes=1)

    assert first.driver_url is not None
    assert start(state).driver_url == first.driver_url
    assert start(state, driver=False).driver_url is None
    assert start(state).driver_url is None
    assert start(state, driver=True).driver_url == first.driver_url


def test_who_left_is_missing_and_the_others_keep_names_and_addresses(state):
    first = start(state, nodes=3)
    state.write_kept(replace(first.without_node("node-2"), nodes_wanted=2))

    second = start(state, nodes=3)

    assert list(second.node_urls) == ["node-1", "node-3", "node-4"]
    assert second.node_ports[:2] == (first.node_ports[0], first.node_ports[2])
    assert second.retired_ports == (first.node_ports[1],)
    assert second.node_ports[2] != first.node_ports[1]


def test_a_size_that_nodes_have_yet_to_reach_is_kept(state):
    first = start(state, nodes=3)
    state.write_kept(replace(first, nodes_wanted=2))

    assert start(state).size == start(state, nodes=2).size == 2
    assert start(state).node_ports == first.node_ports
    state.write_kept(replace(first, nodes_wanted=4))
    assert len(start(state).node_ports) == 4


def test_what_an_older_release_kept_is_understood(state):
    start(state)
    text = state.kept.read_text()
    old = "{" + text[text.index('"port"') : text.index('"name"')].rstrip().rstrip(",") + "}"
    state.kept.write_text(old)

    assert state.read_kept().name == "ringlog"
    assert start(state, nodes=1).name == "ringlog"


def test_a_port_of_somebody_who_left_is_not_given_again():
    with HeldPorts() as ports, pytest.raises(LocalServerError, match="No port"):
        ports.hold_new(range(1, 65_536))
