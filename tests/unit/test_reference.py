"""The reference says what the source says."""

import re

import pytest

from ringlog.commands.ending import Exit
from tests.command import COMMAND
from tests.e2e.command_schema import schema
from tests.e2e.guides import FOLDER as GUIDES
from tests.reference.command import MEANINGS, verbs
from tests.reference.pages import FOLDER, PAGES
from tests.reference.settings import WITHOUT_OPTION, by_option, read_names

PROCESSES = {"cms", "node", "driver"}
"""Until they are stopped they log JSON lines, and print nothing else."""
VERBS = dict(verbs(COMMAND))


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_json_and_an_example(verb):
    command = VERBS[verb]
    assert any("--json" in item.opts for item in command.params)
    assert f"ringlog {verb}" in " ".join((command.help or "").partition("Example: ")[2].split())


def test_each_verb_has_a_schema_for_what_it_prints():
    assert set(schema()["properties"]) == set(VERBS) - PROCESSES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_it_is_generated(name):
    assert (FOLDER / name).read_text("utf-8") == PAGES[name](), "run python -m tests.reference"


def test_every_variable_that_a_process_reads_is_described():
    described = {name.removeprefix("RINGLOG_") for name in by_option()} | set(WITHOUT_OPTION)
    assert read_names() <= described


def test_every_exit_code_is_described():
    assert set(MEANINGS) == set(Exit)


def test_every_guide_is_in_the_list():
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (GUIDES / "README.md").read_text("utf-8")))
    assert listed == {path.name for path in GUIDES.glob("*.md")} - {"README.md"}
