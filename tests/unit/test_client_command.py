"""Verbs that end before they reach a cluster: what they say, and with which code."""

import pytest

from ringlog.commands.commit import _transformation
from tests import command

VERBS = ("up", "down", "cms", "status", "commit", "log", "show")


def run(*words, **environment):
    clean = {"RINGLOG_URL": None, "RINGLOG_POSTGRES_DSN": None, "RINGLOG_TOKEN": None}
    return command.run(*words, **{**clean, **environment})


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example_and_speaks_json(verb):
    result = run(verb, "--help", COLUMNS="100")

    assert result.exit_code == 0
    assert f"ringlog {verb}" in result.output.partition("Example:")[2]
    assert "--json" in result.output


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("up", "--fanout", "pigeons"), 2, "pigeons"),
        (("up", "--nodes=-1"), 2, "nodes"),
        (("node",), 2, "--seeds"),
        (("cms",), 2, "RINGLOG_POSTGRES_DSN"),
        (("status", "--url", "localhost"), 2, "http://HOST:PORT"),
        (("show", "everything"), 2, "cluster, directory"),
        (("commit", "SetExtension", "name"), 2, "name=text or name:=JSON"),
        (("commit", "{"), 2, "not valid JSON"),
        (("commit", '{"name": 1}'), 2, 'with "kind"'),
        (("status", "--url", "http://[bad"), 2, "http://HOST:PORT"),
        (("status", "--url", "http://127.0.0.1:99999"), 2, "http://HOST:PORT"),
        (("log", "--url", "http://127.0.0.1:1", "--token", "a\nb"), 2, "The token"),
        (("doctor", "--url", "http://127.0.0.1:1", "--token", "a\nb"), 2, "The token"),
    ],
)
def test_wrong_use_is_one_sentence_that_says_what_is_right(words, code, said):
    result = run(*words)

    assert result.exit_code == code
    assert said in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "words",
    [
        ("commit", "SetExtension", "name=\udcff", "value=b"),
        ("commit", "SetExtension", "name=a", "value=b", "--reason", "\udcff"),
        ("schema", "drop-table", "a.\udcff"),
    ],
)
def test_bytes_that_are_no_text_are_wrong_use(words):
    result = run(*words, "--url", "http://127.0.0.1:1")

    assert result.exit_code == 2
    assert "UTF-8" in result.output


@pytest.mark.parametrize("verb", ["up", "down", "status", "doctor", "log", "scale"])
def test_a_state_directory_that_is_a_file_is_wrong_use(verb, tmp_path):
    file = tmp_path / "file"
    file.touch()
    more = ("--nodes", "1") if verb == "scale" else ()
    result = run(verb, "--state-dir", str(file), *more)

    assert result.exit_code == 2
    assert "names a folder" in result.output


def test_no_cluster_is_exit_code_3(tmp_path):
    result = run("status", "--state-dir", str(tmp_path))

    assert result.exit_code == 3
    assert "ringlog up" in result.output


def test_down_where_nothing_runs_is_done(tmp_path):
    assert run("down", "--state-dir", str(tmp_path / "nowhere")).exit_code == 0


def test_fields_are_text_unless_they_are_marked_as_json():
    found = _transformation("SetExtension", ["name=a=b", "value:=[1, 2]"])

    assert found == {"kind": "SetExtension", "name": "a=b", "value": [1, 2]}
