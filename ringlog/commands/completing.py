"""What a shell offers while a command is typed: names that a cluster knows, if it answers at once.

Completion runs at every press of the tab key, so nothing slow is imported, and whatever goes
wrong offers nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from ringlog.commands.options import DEFAULT_STATE_DIR

TIMEOUT_S = 0.3
ANSWER_BYTES_MAX = 4 << 20

Offer = tuple[str, str]
"""What is put in, and what is said of it."""


def node_names(context: typer.Context, incomplete: str) -> Iterator[Offer]:
    """By the name that its supervisor gave a node, else by number."""
    names = {process["url"]: process["name"] for process in _processes(context)}
    for node in _asked(context, "/v1/nodes").get("nodes", ()):
        address = node["addresses"].get("http")
        name = names.get(f"http://{address}", str(node["id"]))
        yield from _offered(name, f"{node['state']}, {node['liveness']}", incomplete)


def sequence_numbers(context: typer.Context, incomplete: str) -> Iterator[Offer]:
    for view in _asked(context, "/v1/sequences").get("sequences", ()):
        said = f"{view['kind']} of node {view['node']}, {view['due']} is due"
        yield from _offered(str(view["id"]), said, incomplete)


def table_names(context: typer.Context, incomplete: str) -> Iterator[Offer]:
    for keyspace in _asked(context, "/v1/metadata/schema").get("keyspaces", ()):
        for table in keyspace["tables"]:
            yield from _offered(f"{keyspace['name']}.{table['name']}", "", incomplete)


def keyspace_names(context: typer.Context, incomplete: str) -> Iterator[Offer]:
    for keyspace in _asked(context, "/v1/metadata/schema").get("keyspaces", ()):
        yield from _offered(keyspace["name"], "", incomplete)


def component_names(incomplete: str) -> Iterator[Offer]:
    from metadata.cluster import COMPONENTS

    for name in COMPONENTS:
        yield from _offered(name, "", incomplete)


def kinds(incomplete: str) -> Iterator[Offer]:
    from transformations.kinds import KINDS

    for kind in KINDS:
        yield from _offered(kind, "", incomplete)


def _offered(name: str, said: str, incomplete: str) -> Iterable[Offer]:
    return [(name, said)] if name.startswith(incomplete) else []


def _asked(context: typer.Context, path: str) -> dict[str, Any]:
    """Whatever the first address knows by heart, within a fraction of a second; else nothing."""
    from urllib.request import ProxyHandler, Request, build_opener

    url, token = _whom(context)
    if url is None:
        return {}
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        request = Request(f"{url}{path}?stale=1", headers=headers)  # noqa: S310 checked in _whom
        # As every verb asks, past any proxy: the token is for the cluster alone.
        with build_opener(ProxyHandler({})).open(request, timeout=TIMEOUT_S) as answer:
            found = json.loads(answer.read(ANSWER_BYTES_MAX))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _whom(context: typer.Context) -> tuple[str | None, str | None]:
    """As every verb finds its cluster, but by its files alone."""
    given = context.params
    url = given.get("url") or os.environ.get("RINGLOG_URL")
    token = given.get("token") or os.environ.get("RINGLOG_TOKEN")
    if url and not given.get("state_dir"):
        first = str(url).partition(",")[0].strip()
        return (first, token) if first.startswith(("http://", "https://")) else (None, None)
    folder = _folder(context)
    port = _read(folder / "cluster.json", {}).get("port")
    tokens = _read(folder / "tokens.json", {})
    url = None if port is None else f"http://127.0.0.1:{port}"
    return url, token or tokens.get("admin") or tokens.get("operator")


def _processes(context: typer.Context) -> list[dict[str, Any]]:
    return list(_read(_folder(context) / "processes.json", []))


def _folder(context: typer.Context) -> Path:
    return Path(context.params.get("state_dir") or DEFAULT_STATE_DIR)


def _read(path: Path, nothing: Any) -> Any:  # noqa: ANN401 the kind of `nothing`
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return nothing
    return found if isinstance(found, type(nothing)) else nothing
