"""`ringlog nodes`: who is in, who is up, and how far each has come."""

from __future__ import annotations

from typing import Any

from ringlog.commands.ending import sentences
from ringlog.commands.finding import ABSENT_S, DEADLINE_S, Found, find
from ringlog.commands.options import JsonOption, StateDirOption, TokenOption, UrlOption
from ringlog.commands.printing import print_json, print_table

ADDRESS = "http"
COLUMNS = {
    "id": "id",
    "name": "name",
    # Short, so that a line fits a narrow terminal.
    "datacenter": "dc",
    "rack": "rack",
    "state": "state",
    "tokens": "tokens",
    "liveness": "liveness",
    "watermark": "watermark",
    "lag": "lag",
    "address": "address",
}


def nodes(
    *,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the nodes: where they are, whether they are up, how far they have come.

    The watermark is the newest epoch that a node has applied, the lag how many are missing.

    Example: ringlog nodes --state-dir .state
    """
    with sentences():
        found = find(state_dir, url, token)
        answer = _asked(found)
    # The cluster knows nodes by number; who runs them on this machine has names as well.
    names = {process.url: process.name for process in found.processes}
    rows = [_named(node, names) for node in answer["nodes"]]
    if as_json:
        print_json({**answer, "nodes": rows})
    else:
        print_table(
            list(COLUMNS.values()), [[row.get(column) for column in COLUMNS] for row in rows]
        )


def _asked(found: Found) -> dict[str, Any]:
    import asyncio

    import msgspec

    from client.connection import Connection
    from client.patience import Patience
    from client.transport import Request

    async def read() -> bytes:
        patience = Patience(deadline_s=DEADLINE_S, absent_s=ABSENT_S)
        connection = Connection(found.urls, token=found.token, cluster=None, patience=patience)
        try:
            return await connection.read(Request(path="/v1/nodes"))
        finally:
            await connection.close()

    return msgspec.json.decode(asyncio.run(read()), type=dict[str, Any])


def _named(node: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    address = node["addresses"].get(ADDRESS)
    return {**node, "name": names.get(f"http://{address}"), "address": address}
