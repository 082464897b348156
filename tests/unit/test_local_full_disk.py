"""A supervisor whose state directory takes no files keeps its cluster running."""

import asyncio
import sys
from pathlib import Path

import pytest

from services.local import roster
from services.local.children import Recipe
from services.local.fleet import running_fleet
from services.local.roster import Roster
from services.local.state import Listed, Role, replace, state_dir
from services.local.waiting import until

TIMEOUT_S = 30.0


def obstruct(path: Path) -> None:
    """No file can take this place; root is stopped by that, too, as by a full disk."""
    path.mkdir()
    (path / "in the way").touch()


def clear(path: Path) -> None:
    (path / "in the way").unlink()
    path.rmdir()


def recipe(folder, command):
    return Recipe(
        name="node-1",
        role=Role.NODE,
        url="http://127.0.0.1:1",
        command=command,
        environment={},
        log=folder / "node-1.log",
    )


def test_what_cannot_be_put_in_place_leaves_nothing_behind(tmp_path):
    obstruct(tmp_path / "cluster.json")

    with pytest.raises(OSError, match=r"cluster\.json"):
        replace(tmp_path / "cluster.json", b"{}")

    assert [item.name for item in tmp_path.iterdir()] == ["cluster.json"]


async def test_a_process_stays_although_it_cannot_be_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(roster, "WRITE_AGAIN_S", 0.01)
    state = state_dir(tmp_path)
    obstruct(state.processes)
    listed = Roster(state)
    entered = asyncio.Event()

    def enter(process: Listed) -> None:
        listed.enter(process)
        entered.set()

    async with running_fleet(enter) as fleet:
        fleet.do(listed.keep_written())
        fleet.start([recipe(tmp_path, (sys.executable, "-c", "import time; time.sleep(600)"))])
        await entered.wait()
        clear(state.processes)
        await until(lambda: bool(state.read_processes()), timeout_s=TIMEOUT_S)

    assert [item.name for item in state.read_processes()] == ["node-1"]


async def test_a_process_that_cannot_be_started_is_tried_again_beside_the_others(tmp_path):
    async with running_fleet(Roster(state_dir(tmp_path)).enter) as fleet:
        fleet.start([recipe(tmp_path, (str(tmp_path / "missing"),))])
        await until(lambda: fleet.give_up() is not None, timeout_s=TIMEOUT_S)
