"""Tables fit, and the doctor's options begin where its limits do."""

import inspect

import pytest

from ringlog.commands.doctor import doctor
from ringlog.commands.printing import fitted, print_table
from ringlog.doctor.finding import Limits


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
