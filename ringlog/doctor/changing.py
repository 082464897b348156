"""Changes that do not come to their end. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ringlog.commands.figures import duration, plural
from ringlog.commands.retiring import RETIRE
from ringlog.commands.telling import is_driven, now, session_now, stalled_s, title
from ringlog.doctor.finding import Finding, Limits
from ringlog.doctor.picture import Local, Picture, Plain
from ringlog.doctor.reaching import back
from services.local.recipes import DATACENTER

TOKENS = "tokens.json"
JUST_TAKEN_S = 6.0
"""A driver tells what it does once a second; before it has, nobody is to blame."""


def sequences(picture: Picture, limits: Limits) -> Iterator[Finding] | None:
    found = picture.sequences
    return None if found is None else _sequences(picture, found, limits)


def sessions(picture: Picture, limits: Limits) -> Iterator[Finding] | None:
    found = picture.sessions
    return None if found is None else _sessions(picture, found, limits)


def replication(picture: Picture, limits: Limits) -> Iterator[Finding] | None:
    del limits
    if picture.keyspaces is None or picture.nodes is None:
        return None
    return _replication(picture, picture.keyspaces, picture.nodes)


def _sequences(picture: Picture, found: Sequence[Plain], limits: Limits) -> Iterator[Finding]:
    for view in found:
        since_s = view.get("since_s") or 0.0
        said = f"Sequence {view['id']}, the {title(view, picture.roster)}"
        if not is_driven(view):
            if since_s >= JUST_TAKEN_S:
                yield Finding(
                    code="sequence_undriven",
                    subject=str(view["id"]),
                    sentence=f"{said}: {now(view, picture.roster)}.",
                    command=_driver(picture),
                )
        elif view["driver"]["doing"] == "stuck" or _waits(view, since_s, limits):
            yield Finding(
                code="sequence_stuck",
                subject=str(view["id"]),
                sentence=f"{said}: {now(view, picture.roster).rstrip('.')}.",
                command=_way_out(picture, view),
            )
        elif view["driver"]["doing"] == "moving" and stalled_s(view) > limits.stalled_s:
            yield Finding(
                code="movement_stalled",
                subject=str(view["id"]),
                sentence=f"{said}: {now(view, picture.roster)}. Spark is busy or has no workers: "
                "give it some, or turn back.",
                command=_way_out(picture, view),
            )


def _waits(view: Plain, since_s: float, limits: Limits) -> bool:
    """Long for somebody; what moves rows may take as long as it likes, if it comes further."""
    return since_s > limits.stuck_s and view["driver"]["doing"] == "waiting"


def _driver(picture: Picture) -> str:
    """What makes one drive. Under a supervisor `up` alone changes nothing."""
    local = picture.local
    if local is None:
        return back(picture, "driver")
    wanted = "" if local.drives else " --driver"
    up = f"ringlog up{picture.where}{wanted} --detach"
    return up if local.supervisor is None else f"ringlog down{picture.where} && {up}"


def _way_out(picture: Picture, view: Plain) -> str:
    """Whoever is waited for and gone is named as dead: so it can turn back, or be ended."""
    absent = [
        str(item["node"])
        for item in view.get("laggards") or ()
        if item["blocking"] and item["liveness"] in {"down", "unknown"}
    ]
    dead = "".join(f" --dead {node}" for node in absent)
    verb = "resume" if view["due"] == RETIRE else "cancel"
    return f"ringlog {verb} {view['id']}{dead}{picture.where}"


def _sessions(picture: Picture, found: Sequence[Plain], limits: Limits) -> Iterator[Finding]:
    """Of a movement its sequence is what matters; cleanup and repair stand alone."""
    for item in found:
        age_s = picture.session_ages_s.get(item["id"])
        if item["sequence"] is None and age_s is not None and age_s > limits.session_s:
            nodes = picture.roster.labels(item["nodes"])
            yield Finding(
                code="session_open",
                subject=str(item["id"]),
                sentence=f"Session {item['id']} for {item['purpose']} on {nodes} has been open "
                f"for {duration(age_s)}: nobody may get these ranges back meanwhile."
                f"{_why(picture, item['id'])}",
                command=f"{_help(picture, item['id'])}, or to give it up: "
                f"ringlog commit CloseSession session:={item['id']}{picture.where}",
            )


def _why(picture: Picture, session: int) -> str:
    view = picture.served.get(session)
    if view is None or not is_driven(view):
        return ""
    return f" {view['driver']['name']}: {session_now(view, picture.roster).rstrip('.')}."


def _help(picture: Picture, session: int) -> str:
    """Whoever is gone is replaced, and then nobody asks it; without a driver nobody asks at all."""
    view = picture.served.get(session)
    if view is None or not is_driven(view):
        return _driver(picture)
    gone = picture.roster.absent(view["driver"]["nodes"])
    if not gone:
        return f"ringlog sequences{picture.where}"
    node = gone[0].id
    return f"ringlog replace {node} --with NODE --dead {node}{picture.where}"


def _replication(
    picture: Picture, keyspaces: Sequence[Plain], nodes: Sequence[Plain]
) -> Iterator[Finding]:
    joined = [node["datacenter"] for node in nodes if node["state"] == "joined"]
    for keyspace in keyspaces:
        for where, factor in _factors(keyspace["replication"]).items():
            there = sum(1 for name in joined if where in {"", name})
            if there < factor:
                place = f" in {where}" if where else ""
                yield Finding(
                    code="too_few_nodes",
                    subject=keyspace["name"],
                    sentence=f"Keyspace {keyspace['name']} wants {plural(factor, 'replica')}"
                    f"{place}, and {plural(there, 'node')} can hold one.",
                    command=_more(picture, where, factor - there),
                )


def _factors(replication: Mapping[str, Any]) -> dict[str, int]:
    """By datacenter; "" is everywhere."""
    if replication["strategy"] == "simple":
        return {"": replication["factor"]}
    return dict(replication["factors"])


def _more(picture: Picture, datacenter: str, nodes: int) -> str:
    """A supervisor makes nodes of its own datacenter only, and needs a driver for that."""
    local = picture.local
    join = f"ringlog join NODE{picture.where}"
    if local is None:
        return join
    if datacenter not in {"", DATACENTER}:
        return f"{_node(picture, local, datacenter)}, and when it runs: {join}"
    there = sum(1 for item in local.processes if item.role == "node")
    scale = f"ringlog scale --nodes {there + nodes}{picture.where}"
    if local.supervisor is not None and local.drives:
        return scale
    return f"{_driver(picture)} && {scale}"


def _node(picture: Picture, local: Local, datacenter: str) -> str:
    tokens = [item.path for item in local.secrets if item.path.endswith(TOKENS)]
    words = ["ringlog node", "--datacenter", datacenter, "--seeds", ",".join(picture.urls)]
    words += ["--state-dir", "FOLDER", *(f"--tokens-file {path}" for path in tokens)]
    return " ".join(words)
