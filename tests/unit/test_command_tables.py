"""Tables fit, and the doctor's options begin where its limits do."""

import inspect

import msgspec
import pytest
import typer

from log.chain import seal
from ringlog.commands.doctor import doctor
from ringlog.commands.ending import Exit, end
from ringlog.commands.log import _print_lines
from ringlog.commands.printing import fitted, print_table, print_view
from ringlog.doctor.finding import Limits
from tests.golden.history import history


def test_wide_columns_give_way_and_narrow_ones_stay_whole():
    assert fitted([2, 6, 40, 60], 200) == [2, 6, 40, 60]
    assert fitted([2, 6, 40, 60], 68) == [2, 6, 30, 30]
    assert fitted([2, 6, 40, 60], 30) == [2, 6, 11, 11]
    assert fitted([2, 6, 40, 60], 1) == [2, 4, 4, 4]


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_a_table_is_as_wide_as_columns_says(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    print_table(["id", "what", "detail"], [[1, "x" * 70, "y" * 70], [22, "z", None]])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[-1].startswith("22")


def test_a_table_in_a_pipe_is_whole(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table(["id", "detail"], [[1, "y" * 300]])
    assert "y" * 300 in capsys.readouterr().out


WILD = "a\x1b[2J\x9b31m\u202e\r\nb"
"""Clears the screen, colours it, turns the text around and begins a line of its own."""
TAMED = "a\ufffd[2J\ufffd31m\ufffd\ufffd\ufffdb"


def test_what_stands_in_the_log_does_not_steer_the_terminal(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table(["id", WILD], [[1, WILD], [2, {"nested": WILD}]])
    print_view({WILD: WILD, "rows": [{WILD: WILD}]})
    with pytest.raises(typer.Exit):
        raise end(WILD.replace("\n", ""), Exit.REFUSED)
    found = capsys.readouterr()

    for line in (found.out + found.err).split("\n"):
        assert not [mark for mark in line if not mark.isprintable()]
    assert len(found.out.split("\n")) == 4 + 3 + 3 + 1
    assert TAMED in found.out


def test_entries_are_a_line_each_whatever_they_say(capsys):
    entry = msgspec.structs.replace(history().entries[-1].entry, actor=WILD, reason=WILD)
    _print_lines([seal(entry, bytes(32))], as_json=False)

    (line,) = capsys.readouterr().out.splitlines()
    assert line.count(TAMED) == 2


def test_the_options_of_the_doctor_are_its_limits():
    defaults = {name: item.default for name, item in inspect.signature(doctor).parameters.items()}
    assert Limits() == Limits(
        lag_epochs=defaults["lag"],
        stuck_s=defaults["stuck"],
        session_s=defaults["session"],
        snapshot_epochs=defaults["snapshot"],
        skew_s=defaults["skew"],
        free_percent=defaults["free"],
    )
