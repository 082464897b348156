"""What the founding of a cluster is told, and the secrets that are made for it."""

import json
import stat

import pytest

from metadata.partitioners import Partitioner
from services.founding.secrets import Folders, make_secrets
from services.founding.settings import founding_settings
from services.settings import SettingsError

TOLD = {
    "RINGLOG_STATE_DIR": "/run/x",
    "RINGLOG_CMS": "cms-1=http://cms-1:7401, cms-2=http://cms-2:7401",
    "RINGLOG_NODES": "node-1:7500,node-2:7500",
}


def test_variables_become_values():
    found = founding_settings({**TOLD, "RINGLOG_PARTITIONER": "murmur3"})

    assert found.cms == {"cms-1": "http://cms-1:7401", "cms-2": "http://cms-2:7401"}
    assert found.nodes == ("http://node-1:7500", "http://node-2:7500")
    assert (found.name, found.partitioner) == ("ringlog", Partitioner.MURMUR3)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("RINGLOG_CMS", ""),
        ("RINGLOG_CMS", "http://cms-1:7401"),
        ("RINGLOG_STATE_DIR", ""),
        ("RINGLOG_PARTITIONER", "md5"),
    ],
)
def test_a_wrong_variable_is_named(name, text):
    with pytest.raises(SettingsError, match=name):
        founding_settings({**TOLD, name: text})


@pytest.fixture
def folders(tmp_path):
    made = Folders(*(tmp_path / name for name in ("state", "postgres", "monitoring")))
    for folder in (made.state, made.postgres, made.monitoring):
        folder.mkdir()
    make_secrets(made)
    return made


def content(folders):
    return {
        path.name: path.read_text()
        for folder in (folders.state, folders.postgres, folders.monitoring)
        for path in folder.iterdir()
    }


def test_a_second_start_finds_the_same_secrets(folders):
    before = content(folders)
    make_secrets(folders)

    assert content(folders) == before
    assert before.keys() == {
        *("tokens.json", "pgpass", "password", "viewer_token", "grafana_password")
    }


def test_a_copy_that_was_lost_is_made_again_from_what_is_used(folders):
    before = content(folders)
    (folders.postgres / "password").unlink()
    (folders.monitoring / "viewer_token").unlink()
    make_secrets(folders)

    assert content(folders) == before
    assert before["pgpass"] == f"*:*:*:ringlog:{before['password']}\n"
    assert before["viewer_token"] == json.loads(before["tokens.json"])["viewer"]


def test_what_lets_one_do_things_only_its_owner_reads(folders):
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folders.state.iterdir()}

    assert set(modes.values()) == {0o600}
    secret = json.loads((folders.state / "tokens.json").read_text())["admin"]
    assert secret not in (folders.monitoring / "viewer_token").read_text()
