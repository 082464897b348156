"""Names, comments and addresses in the source."""

from pathlib import PurePosixPath

import pytest

from tests.tidy.source import ROOT, source, text_files
from tests.tidy.wording import ignore_faults, init_faults, name_faults, place_faults, todo_faults

EVERYTHING = text_files()
PYTHON = [each for each in EVERYTHING if each.path.suffix == ".py"]
CODE = text_files(ROOT, ".py", ".js", ".css", ".sql", ".sh", ".toml", ".yml", ".yaml")


def test_names_say_what_they_hold():
    assert not [fault for each in PYTHON for fault in name_faults(each.path)]


def test_init_files_hold_a_docstring_only():
    assert not [fault for each in PYTHON for fault in init_faults(each)]


def test_work_put_off_has_an_issue_number():
    assert not [fault for each in CODE for fault in todo_faults(each)]


def test_ignored_types_have_a_reason():
    assert not [fault for each in PYTHON for fault in ignore_faults(each)]


def test_no_machine_and_no_registry_is_named():
    assert not [fault for each in EVERYTHING for fault in place_faults(each)]


@pytest.mark.parametrize(
    "path", ["log/utils.py", "utils/log.py", "log/core/entry.py", "store/base.py", "bench/base.py"]
)
def test_finds_a_name_that_says_nothing(path):
    assert len(name_faults(PurePosixPath(path))) == 1


@pytest.mark.parametrize("path", ["log/entry.py", "bench/core.py", "log/based.py"])
def test_lets_a_name_pass(path):
    assert name_faults(PurePosixPath(path)) == []


@pytest.mark.parametrize(
    "text",
    ["", '"""One."""\nimport os\n', "from log.entry import Entry\n", '"""One.\n\nTwo.\n"""\n'],
)
def test_finds_an_init_with_more_in_it(text):
    assert len(init_faults(source("log/__init__.py", text))) == 1
    assert init_faults(source("ringlog/__init__.py", text)) == []
    assert init_faults(source("log/__init__.py", '"""One."""\n')) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("log/entry.py", "x = 1  # TODO: later"),
        ("log/entry.py", "# FIXME"),
        ("log/entry.py", "# Slow. TODO: later"),
        ("console/ring.js", "// TODO draw it"),
        ("migrations/0001_log.sql", "-- TODO(someone) index"),
        ("deploy/setup.sh", "true # XXX"),
    ],
)
def test_finds_work_put_off(path, text):
    assert len(todo_faults(source(path, text))) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("log/entry.py", "x = 1  # TODO(#12): later"),
        ("log/entry.py", "x = 'TODO'"),
        ("log/entry.py", "# Here a TODO is a word."),
        ("console/ring.js", "const TODO = 1;"),
        ("migrations/0001_log.sql", "-- TODO #7 index"),
    ],
)
def test_lets_a_numbered_one_pass(path, text):
    assert todo_faults(source(path, text)) == []


def test_finds_an_ignored_type_without_a_reason():
    bare, coded = "x = f()  # type: " + "ignore", "[arg-type]"

    assert len(ignore_faults(source("log/entry.py", bare))) == 1
    assert len(ignore_faults(source("log/entry.py", bare + coded))) == 1
    assert ignore_faults(source("log/entry.py", bare + coded + "  # the stub is wrong")) == []


@pytest.mark.parametrize(
    "parts",
    [
        ("see /", "work/main"),
        ("'/", "root/.cache'"),
        ("cd /", "home/someone/ringlog"),
        ("https://", "pypi", ".org/simple"),
        ("files.python", "hosted.org"),
        ("--index", "-url=x"),
        ("registry.npm", "js.org/left-pad"),
    ],
)
def test_finds_a_place(parts):
    """In pieces, because this file is searched as well."""
    assert len(place_faults(source("docs/guide.md", "".join(parts)))) == 1


@pytest.mark.parametrize(
    "text", ["docs/work/plan", "$HOME/work/x", "/v1/root/", "/workers/1", "/root"]
)
def test_lets_other_paths_pass(text):
    assert place_faults(source("docs/guide.md", text)) == []
