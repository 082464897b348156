"""`ringlog status`: who serves, and how far the log is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from ringlog.commands.ending import sentences
from ringlog.commands.finding import Found, find
from ringlog.commands.options import JsonOption, StateDirOption, TokenOption, UrlOption
from ringlog.commands.printing import print_json, print_table

if TYPE_CHECKING:
    # At run time it comes when the verb runs, so that --help stays quick.
    from client.answers import Status


def status(
    *,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the cluster, its newest epoch and the processes that serve it.

    Example: ringlog status --state-dir .state
    """
    with sentences():
        from client.blocking import BlockingClient

        found = find(state_dir, url, token)
        with BlockingClient(found.maker()) as client:
            answer = client.status()
    view = _view(found, answer)
    if as_json:
        print_json(view)
        return
    named = view["cluster"]
    if named is None:
        typer.echo("No cluster is founded here yet: commit Initialize.")
    else:
        typer.echo(f"cluster {named['name']} ({named['id']}), partitioner {named['partitioner']}")
    typer.echo(f"epoch {view['epoch']} at {view['url']}")
    columns = ("name", "role", "pid", "state", "url")
    print_table(columns, [[row[column] for column in columns] for row in view["processes"]])


def _view(found: Found, answer: Status) -> dict[str, Any]:
    states = {cms.url: _state(alive=cms.alive, ready=cms.ready) for cms in answer.cms}
    processes: list[dict[str, Any]] = [
        {
            "name": process.name,
            "role": process.role.value,
            "pid": process.pid,
            "state": states.get(process.url) or _life(process.pid),
            "url": process.url,
        }
        for process in found.processes
    ] or [
        {"name": None, "role": "cms", "pid": None, "state": state, "url": url}
        for url, state in states.items()
    ]
    cluster = None
    if answer.cluster is not None:
        cluster = {
            "id": answer.cluster,
            "name": answer.name,
            "partitioner": answer.partitioner,
        }
    return {
        "url": found.urls[0],
        "epoch": answer.epoch,
        "cluster": cluster,
        "processes": processes,
    }


def _state(*, alive: bool, ready: bool) -> str:
    if ready:
        return "ready"
    return "not ready" if alive else "down"


def _life(pid: int) -> str:
    from pathlib import Path

    return "running" if Path(f"/proc/{pid}").exists() else "down"
