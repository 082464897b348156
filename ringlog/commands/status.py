"""`ringlog status`: who serves, and how far the log is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ringlog.commands.ending import sentences
from ringlog.commands.finding import Found, find
from ringlog.commands.options import JsonOption, StateDirOption, TokenOption, UrlOption
from ringlog.commands.printing import print_json, print_table
from ringlog.commands.saying import say

if TYPE_CHECKING:
    # At run time it comes when the verb runs, so that --help stays quick.
    from client.answers import Status

PROBE_TIMEOUT_S = 3.0
READY = "ready"


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
        nodes = _looked_at(found)
    view = _view(found, answer, nodes)
    if answer.cluster is not None:
        view["warnings"] += _stuck_sessions((state_dir, url, token))
    if as_json:
        print_json(view)
        return
    named = view["cluster"]
    if named is None:
        say("No cluster is founded here yet: commit Initialize.")
    else:
        say(f"cluster {named['name']} ({named['id']}), partitioner {named['partitioner']}")
    say(f"epoch {view['epoch']} at {view['url']}")
    columns = ("name", "role", "pid", "state", "url")
    print_table(columns, [[row[column] for column in columns] for row in view["processes"]])
    for sentence in view["warnings"]:
        say(sentence, fg=typer.colors.YELLOW)


def _view(found: Found, answer: Status, nodes: Mapping[str, str]) -> dict[str, Any]:
    states = {cms.url: _state(alive=cms.alive, ready=cms.ready) for cms in answer.cms}
    processes: list[dict[str, Any]] = [
        {
            "name": process.name,
            "role": process.role.value,
            "pid": process.pid,
            "state": states.get(process.url) or nodes.get(process.url) or _life(process.pid),
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
        "warnings": [] if not found.processes else warnings(processes),
    }


def _stuck_sessions(where: tuple[Path | None, str | None, str | None]) -> list[str]:
    """Cleanup and repair that do not go on: nobody waits for them, so nobody would notice."""
    from client.errors import ClientError
    from ringlog.commands.asking import talking
    from ringlog.commands.telling import session_now

    with talking(*where) as talk:
        try:
            found = talk.get("/v1/sequences", {"stale": 1}).get("sessions", [])
            stuck = [view for view in found if (view["driver"] or {}).get("doing") == "stuck"]
            names = talk.roster() if stuck else None
        except ClientError:
            return []
    if names is None:
        return []
    return [
        f"Session {view['id']} for {view['purpose']} is {session_now(view, names)}."
        for view in stuck
    ]


def warnings(processes: list[dict[str, Any]]) -> list[str]:
    """Why sequences would not come to their end on this machine."""
    from services.local.failure import LocalServerError
    from services.local.kafka_ivy import java

    nodes = [item for item in processes if item["role"] == "node"]
    drivers = [item for item in processes if item["role"] == "driver"]
    if not nodes:
        return []
    if not drivers:
        return ["No driver runs: sequences wait, until `ringlog up --driver` or `ringlog driver`."]
    found = [
        f"{item['name']} is {item['state']}: sequences wait until it is back; its log file in the "
        "state directory says why."
        for item in drivers
        if item["state"] != READY
    ]
    try:
        java()
    except LocalServerError:
        found.append("No Java is found: rows cannot be moved. Install Java 17, or set JAVA_HOME.")
    return found


def _looked_at(found: Found) -> dict[str, str]:
    """How the nodes and the driver of this machine look from here, by address."""
    import asyncio

    from client.connection import Connection
    from client.patience import ORDINARY

    urls = [process.url for process in found.processes if process.role in ("node", "driver")]

    async def looked() -> dict[str, str]:
        connection = Connection(urls, token=None, cluster=None, patience=ORDINARY)

        async def state(url: str) -> str:
            alive = await connection.probe(url, "/healthz", timeout_s=PROBE_TIMEOUT_S)
            ready = alive and await connection.probe(url, "/readyz", timeout_s=PROBE_TIMEOUT_S)
            return _state(alive=alive, ready=ready)

        try:
            return dict(zip(urls, await asyncio.gather(*map(state, urls)), strict=True))
        finally:
            await connection.close()

    return asyncio.run(looked()) if urls else {}


def _state(*, alive: bool, ready: bool) -> str:
    if ready:
        return READY
    return "not ready" if alive else "down"


def _life(pid: int) -> str:
    from pathlib import Path

    return "running" if Path(f"/proc/{pid}").exists() else "down"
