"""What the processes of a local cluster are told is what they understand."""

from pathlib import Path
from uuid import UUID

import pytest

from metadata.partitioners import Partitioner
from services.local.recipes import Servers, cms_recipes, driver_recipe, node_recipes
from services.local.state import Fanout, Kept, Role, StateDir
from services.settings import cms_settings, driver_settings, node_settings

STATE = StateDir(Path("/state"))
DSN = "postgresql://user:secret@127.0.0.1:5/postgres"
OURS = {"RINGLOG_KAFKA": "elsewhere:9092", "RINGLOG_TOKENS_FILE": "/elsewhere"}
"""What the environment of the supervisor may have."""


def kept(**fields):
    return Kept(
        port=7400,
        own_ports=(7401, 7402),
        node_ports=(7501, 7502, 7503, 7504),
        partitioner=Partitioner.XXHASH64,
        founding_entry_id=UUID(int=1),
        own_postgres=True,
        **fields,
    )


def understood(servers, found):
    cms = cms_recipes(STATE, found, servers)
    nodes = node_recipes(STATE, found, servers)
    return (
        [cms_settings({**OURS, **recipe.environment}) for recipe in cms],
        [node_settings({**OURS, **recipe.environment}) for recipe in nodes],
    )


@pytest.mark.parametrize("tokens", [True, False])
def test_by_notify(tokens):
    cms, nodes = understood(Servers(dsn=DSN), kept(tokens=tokens))

    file = STATE.tokens if tokens else None
    assert {(one.dsn, one.kafka, one.tokens_file, one.listen.port) for one in cms} == {
        (DSN, None, file, 7400)
    }
    assert [one.own_url for one in cms] == ["http://127.0.0.1:7401", "http://127.0.0.1:7402"]
    assert {(one.dsn, one.kafka, one.tokens_file) for one in nodes} == {(DSN, None, file)}


def test_by_kafka():
    cms, nodes = understood(Servers(dsn=DSN, kafka="127.0.0.1:9"), kept(fanout=Fanout.KAFKA))

    assert {(one.dsn, one.kafka) for one in cms} == {(DSN, "127.0.0.1:9")}
    assert {(one.dsn, one.kafka) for one in nodes} == {(None, "127.0.0.1:9")}


def test_nodes_have_folders_addresses_and_racks_of_their_own():
    _, nodes = understood(Servers(dsn=DSN), kept())

    assert [one.name for one in nodes] == ["node-1", "node-2", "node-3", "node-4"]
    assert [one.rack for one in nodes] == ["r1", "r2", "r3", "r1"]
    assert [one.advertised for one in nodes] == [f"127.0.0.1:750{n}" for n in (1, 2, 3, 4)]
    assert [one.state_dir for one in nodes] == [Path(f"/state/node-{n}") for n in (1, 2, 3, 4)]
    assert {one.seeds for one in nodes} == {("http://127.0.0.1:7400",)}


def test_a_recipe_says_where_the_process_answers():
    recipes = [*cms_recipes(STATE, kept(), Servers(dsn=DSN))]
    recipes += node_recipes(STATE, kept(), Servers(dsn=DSN))

    assert [(one.name, one.role, one.url) for one in recipes][1:3] == [
        ("cms-2", Role.CMS, "http://127.0.0.1:7402"),
        ("node-1", Role.NODE, "http://127.0.0.1:7501"),
    ]
    assert recipes[-1].log == Path("/state/node-4.log")


def test_a_rack_is_by_the_number_in_the_name():
    found = kept().without_node("node-2").with_node(7505)
    _, nodes = understood(Servers(dsn=DSN), found)

    assert [(one.name, one.rack) for one in nodes] == [
        ("node-1", "r1"),
        ("node-3", "r3"),
        ("node-4", "r1"),
        ("node-5", "r2"),
    ]


def test_the_driver_asks_the_cluster_at_its_port():
    recipe = driver_recipe(STATE, kept(driver_port=7600, tokens=True))

    assert recipe is not None
    assert (recipe.name, recipe.role, recipe.url) == (
        "driver-1",
        Role.DRIVER,
        "http://127.0.0.1:7600",
    )
    found = driver_settings({**OURS, **recipe.environment})
    assert (found.name, found.seeds, found.listen.port, found.tokens_file) == (
        "driver-1",
        ("http://127.0.0.1:7400",),
        7600,
        STATE.tokens,
    )
    assert driver_recipe(STATE, kept(driver_port=7600, driver=False)) is None
    assert driver_recipe(STATE, kept()) is None
