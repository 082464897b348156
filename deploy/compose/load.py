"""Put rows into the cluster, let a fourth node join, and read every row back.

docker compose --profile load run --rm load [rows|join|check] [--rows N]

Without a word all three, in this order. May be repeated: a row is the same each time, and a node
that has joined stays where it is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ringlog
from client.answers import Rejected

KEYSPACE, TABLE = "demo", "events"
CMS = tuple(os.environ["RINGLOG_URL"].split(","))
NODES = tuple(f"http://node-{number}:7500" for number in (1, 2, 3, 4))
FIRST_NODES = NODES[:3]
NEW_NODE = "node-4:7500"
BATCH_ROWS = 500
READERS = 8
TIMEOUT_S = 30.0
JOIN_TIMEOUT_S = 600
EXISTS = {"keyspace_exists", "table_exists"}
NOT_FOUND = 404


def token() -> str:
    path = Path(os.environ["RINGLOG_TOKENS_FILE"])
    found: str = json.loads(path.read_text(encoding="utf-8"))["admin"]
    return found


def ask(method: str, url: str, body: object = None) -> dict[str, object]:
    request = urllib.request.Request(  # noqa: S310 our own nodes
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token()}", "Content-Type": "application/json"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=TIMEOUT_S) as answer:
        found: dict[str, object] = json.load(answer)
        return found


def make_table() -> int:
    """The epoch at which it is there."""
    replication = {"strategy": "simple", "factor": 3}
    columns = [{"name": "id", "type": "string"}, {"name": "amount", "type": "bigint"}]
    table = {"keyspace": KEYSPACE, "name": TABLE, "columns": columns, "partition_key": ["id"]}
    wanted = (
        {"kind": "CreateKeyspace", "name": KEYSPACE, "replication": replication},
        {"kind": "CreateTable", **table},
    )
    with ringlog.connect(CMS, token()) as cluster:
        for transformation in wanted:
            outcome = cluster.commit(transformation, actor="load")
            if isinstance(outcome, Rejected) and outcome.code not in EXISTS:
                sys.exit(f"load: the table cannot be made: {outcome.detail}")
        return cluster.status().epoch


def key(number: int) -> str:
    return f"event-{number:07}"


def load(rows: int) -> None:
    epoch = make_table()
    for first in range(0, rows, BATCH_ROWS):
        numbers = range(first, min(first + BATCH_ROWS, rows))
        batch = [{"key": key(number), "columns": {"amount": number}} for number in numbers]
        node = FIRST_NODES[first // BATCH_ROWS % len(FIRST_NODES)]
        path = f"/v1/tables/{KEYSPACE}/{TABLE}/rows?consistency=quorum&epoch={epoch}"
        outcomes = ask("POST", node + path, {"rows": batch})["outcomes"]
        assert isinstance(outcomes, list)
        refused = [item for item in outcomes if "code" in item]
        if refused:
            sys.exit(f"load: {len(refused)} rows were refused, the first: {refused[0]['detail']}")
    print(f"load: {rows} rows are in {KEYSPACE}.{TABLE}", flush=True)


def join() -> None:
    found = ask("GET", f"{CMS[0]}/v1/nodes")["nodes"]
    assert isinstance(found, list)
    states = {item["addresses"]["http"]: item["state"] for item in found}
    if states.get(NEW_NODE) == "joined":
        print(f"load: {NEW_NODE} has joined already", flush=True)
        return
    command = ["ringlog", "join", NEW_NODE, "--timeout", str(JOIN_TIMEOUT_S), "--actor", "load"]
    if subprocess.run(command, check=False).returncode != 0:  # noqa: S603 ours
        sys.exit(1)


def check(rows: int) -> None:
    """Each by a quorum read, from the nodes in turns."""

    def is_there(number: int) -> bool:
        node = NODES[number % len(NODES)]
        try:
            found = ask("GET", f"{node}/v1/tables/{KEYSPACE}/{TABLE}/rows/{key(number)}")
        except urllib.error.HTTPError as error:
            if error.code == NOT_FOUND:
                return False
            raise
        columns = found["columns"]
        return isinstance(columns, dict) and columns["amount"] == number

    with ThreadPoolExecutor(READERS) as pool:
        there = sum(pool.map(is_there, range(rows)))
    print(f"load: {there} of {rows} rows are there", flush=True)
    if there != rows:
        sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", nargs="?", choices=["rows", "join", "check"])
    parser.add_argument("--rows", type=int, default=int(os.environ.get("LOAD_ROWS") or 2000))
    given = parser.parse_args()
    if given.what in {None, "rows"}:
        load(given.rows)
    if given.what in {None, "join"}:
        join()
    if given.what in {None, "check"}:
        check(given.rows)


if __name__ == "__main__":
    main()
