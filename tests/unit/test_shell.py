"""The shell's answers: the metadata of any epoch as a tree of folders and values."""

from __future__ import annotations

from functools import cache

import pytest

from audit.history import metadata_at
from log.replay import replay
from metadata.epoch import Epoch
from ringlog.commands import shell_session
from ringlog.commands.shell_loop import Prompt, run_lines
from ringlog.commands.shell_session import USAGES, Answer, Session, ShellError
from ringlog.commands.shell_tree import Tree, resolved, text_of
from tests.golden.history import history as golden
from tests.histories import kept


@cache
def history():
    return kept(golden().entries, every=20)


@pytest.fixture
def session():
    return Session(history(), metadata_at(history(), Epoch(24)))


def told(session, line):
    return session.answer(line).lines


def test_every_component_is_a_folder_and_every_path_leads_somewhere():
    tree = Tree(replay(golden().entries[:24]).metadata)

    paths = dict(tree.walk((), 20))

    assert {path[0] for path in paths} == set(tree.top) - {"nodes", "keyspaces"}
    for path, item in paths.items():
        assert tree.at(resolved((), text_of(path))) == item


def test_walking(session):
    assert "nodes -> /directory/nodes" in told(session, "ls")
    assert told(session, "ls /nodes")[:2] == ["1/", "2/"]
    session.answer("cd nodes/4")
    assert told(session, "pwd") == ["/nodes/4"]
    assert "state = bootstrapping" in told(session, "ls")
    assert told(session, "cat state") == ["bootstrapping"]
    assert told(session, "cat ../3/rack") == told(session, "ls /directory/nodes/3/rack")
    assert session.answer("cat .").plain["host_id"] == "host-4"
    session.answer("cd")
    assert session.prompt == "corner shop@24 /> "


def test_sequences_and_placements_have_short_paths(session):
    assert told(session, "cat /sequences/22/kind") == ["join"]
    assert told(session, "ls /sequences/22/taken") == ["prepare/", "start/", "mid/"]
    assert told(session, "ls /placements") == ["network:north=3/", "simple:2/"]
    assert told(session, "cat /placements/simple:2/keyspaces") == ['["shop"]']


def test_find_by_name_and_by_value(session):
    assert told(session, "find state=joined /nodes") == [f"/nodes/{n}/state" for n in (1, 2, 3)]
    assert told(session, "find 'host_*' /nodes/1") == ["/nodes/1/host_id"]
    assert told(session, "find nothing") == []


def test_tree_is_as_deep_as_asked(session):
    assert told(session, "tree /nodes 1") == [f"{number}/" for number in range(1, 8)]
    assert "  state = joined" in told(session, "tree /nodes")


def test_epochs(session):
    assert told(session, "at") == ["epoch 24"]
    assert told(session, "at +1") == ["epoch 25"]
    assert told(session, "cat /nodes/4/state") == ["joined"]
    assert told(session, "at -2") == ["epoch 23"]
    assert session.answer("at tip").plain == 64
    session.answer("cd /keyspaces/shop")
    assert told(session, "at 3") == ["epoch 3, where there is no /keyspaces/shop"]
    assert session.here == ("keyspaces",)


def test_diff_by_path(session):
    assert told(session, "diff 24 25 /nodes") == ["~ /nodes/4/state: bootstrapping -> joined"]
    assert "+ /extensions/owner%2Fteam/name = owner/team" in told(session, "diff 50 51")
    assert "- /extensions/owner%2Fteam/name = owner/team" in told(session, "diff 51 50")
    assert told(session, "diff 24") == ["Nothing differs between epochs 24 and 24."]


def test_a_name_with_a_slash_is_one_name(session):
    session.answer("at 51")

    assert told(session, "cat /extensions/owner%2Fteam/name") == ["owner/team"]


def test_log_and_entry(session):
    assert [view["epoch"] for view in session.answer("log 3").plain] == [22, 23, 24]
    assert session.answer("entry").plain["kind"] == "MidJoin"
    assert session.answer("entry 1").plain["actor"] == "ada"


def test_help_names_every_command(session):
    assert len(told(session, "help")) == len(USAGES)
    assert set(session.commands) | {"exit"} == set(USAGES)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("frob", "There is no command frob: see help."),
        ("ls /nowhere", "There is no /nowhere at epoch 24."),
        ("cat /nodes/4/state/x", "/nodes/4/state is a value and holds nothing."),
        ("cd /nodes/4/state", "/nodes/4/state is a value: print it with cat."),
        ("at 65", "There is no epoch 65 in this history: it ends at 64."),
        ("at -99", "There is no epoch -75 in this history: it ends at 64."),
        ("at soon", "soon is no epoch: write 42, +1, -1 or tip."),
        ("diff", "Write diff FROM [TO] [PATH]."),
        ("pwd now", "Write pwd."),
        ("tree / 0", "DEPTH is 1 to 20, not 0."),
        ("log 9999999", "COUNT is 1 to 1000, not 9999999."),
        ("log ²", "COUNT is 1 to 1000, not ²."),
        ("entry 0", "Epoch 0 is before the first entry."),
        ("cat 'open", "The line cannot be read: No closing quotation."),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(session, line, said):
    with pytest.raises(ShellError) as error:
        session.answer(line)

    assert str(error.value) == said


def test_long_answers_are_cut_and_say_so(session, monkeypatch):
    monkeypatch.setattr(shell_session, "LINES_MAX", 3)

    for line in ("find '*'", "tree / 9", "ls /", "diff 1 24"):
        assert told(session, line)[3:] == ["(only the first 3 lines: name a path further down)"]


def test_a_script_ends_at_its_end_at_exit_or_at_the_first_error(session):
    shown: list[Answer] = []
    run_lines(session, ["pwd\n", "# a remark\n", "\n", "exit\n", "frob\n"], shown.append)
    assert [answer.lines for answer in shown] == [["/"], [], []]
    with pytest.raises(ShellError):
        run_lines(session, ["frob", "pwd"], shown.append)
    assert len(shown) == 3


def test_a_person_is_told_and_goes_on(session):
    shown: list[Answer] = []
    complaints: list[str] = []
    prompt = Prompt(session, shown.append, complaints.append)

    assert not prompt.onecmd("frob")
    assert not prompt.onecmd("pwd")
    assert prompt.onecmd("EOF")
    assert (len(complaints), len(shown)) == (1, 1)


def test_the_name_of_a_cluster_does_not_steer_the_terminal(session, monkeypatch):
    monkeypatch.setattr(Session, "prompt", "\x1b[2Jshop@24 /> ")

    assert Prompt(session, print, print).prompt == "\ufffd[2Jshop@24 /> "


def test_completion(session):
    prompt = Prompt(session, print, print)

    assert prompt.completenames("e") == ["entry", "exit"]
    assert session.completions("/no") == ["/nodes"]
    assert session.completions("/nodes/4/st") == ["/nodes/4/state"]
    assert session.completions("/nowhere/x") == []
    line = "cat /placements/simple:2/re"
    assert prompt.completedefault("2/re", line, 23, len(line)) == [
        "2/replication",
        "2/reads",
    ]
