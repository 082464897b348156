"""Whether everybody follows the log, and whether it is one and the same log. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from ringlog.commands.figures import duration, plural
from ringlog.commands.retiring import RETIRE
from ringlog.doctor.finding import Finding, Limits
from ringlog.doctor.picture import Database, Picture, Plain
from ringlog.doctor.reaching import logs
from ringlog.doctor.supervising import silent

ABSENT = ("late", "down", "unknown")
OWNING = ("bootstrapping", "boot_replacing", "joined", "moving", "leaving")
HTTP = "http"


def lag(picture: Picture, limits: Limits) -> Iterator[Finding] | None:
    return None if picture.nodes is None else _lag(picture, picture.nodes, limits)


def fanout(picture: Picture, limits: Limits) -> Iterator[Finding] | None:
    """Only where entries are handed to Kafka is there somebody who can be late with it."""
    seen = picture.database
    if seen is None or seen.complaint is not None or not seen.published:
        return None
    return _fanout(picture, seen, limits)


def versions(picture: Picture, limits: Limits) -> Iterator[Finding] | None:
    del limits
    if picture.nodes is None and not any(item.version for item in picture.asked):
        return None
    return _versions(picture)


def snapshots(picture: Picture, limits: Limits) -> Iterator[Finding] | None:
    if picture.snapshots is None or picture.tip is None:
        return None
    return _snapshots(picture, limits)


def divergence(picture: Picture, limits: Limits) -> Iterator[Finding] | None:
    del limits
    return None if picture.divergences is None else _divergences(picture, picture.divergences)


def _lag(picture: Picture, nodes: Sequence[Plain], limits: Limits) -> Iterator[Finding]:
    known = silent(picture)
    coming = {view["node"]: view for view in picture.sequences or ()}
    for node in nodes:
        name = picture.roster.label(node["id"])
        if node["liveness"] in ABSENT:
            matters = node["state"] in OWNING or node["id"] in coming
            if matters and _url(node) not in known:
                yield _absent(picture, node, name, coming.get(node["id"]))
        elif (node["lag"] or 0) > limits.lag_epochs:
            yield Finding(
                code="node_behind",
                subject=name,
                sentence=f"{name} is {plural(node['lag'], 'epoch')} behind the log.",
                command=logs(picture, name),
            )


def _absent(picture: Picture, node: Plain, name: str, sequence: Plain | None) -> Finding:
    last = "never reported"
    if node["age_s"] is not None:
        last = f"not reported for {duration(node['age_s'])}"
    behind = "" if not node["lag"] else f" and is {plural(node['lag'], 'epoch')} behind"
    said = f"{name}, which is {node['state']}, has {last}{behind}; start it again, or if it is lost"
    if sequence is None:
        said = f"{said} let another take its place."
        replace = f"ringlog replace {node['id']} --with NODE --dead {node['id']}{picture.where}"
        command = picture.start or replace
    elif sequence["due"] == RETIRE:
        said = f"{said} end sequence {sequence['id']} without it."
        command = f"ringlog resume {sequence['id']} --dead {node['id']}{picture.where}"
    else:
        said = f"{said} turn sequence {sequence['id']} back, which cannot end without it."
        command = f"ringlog cancel {sequence['id']} --dead {node['id']}{picture.where}"
    return Finding(code="node_down", subject=name, sentence=said, command=command)


def _fanout(picture: Picture, seen: Database, limits: Limits) -> Iterator[Finding]:
    for topic, epoch in sorted(seen.published.items()):
        if seen.tip - epoch > limits.lag_epochs:
            yield Finding(
                code="fanout_behind",
                subject=topic,
                sentence=f"The topic {topic} is {plural(seen.tip - epoch, 'epoch')} behind the "
                "log: nodes follow without it, more slowly.",
                command=logs(picture, "kafka"),
            )


def _versions(picture: Picture) -> Iterator[Finding]:
    said = set()
    for item in picture.asked:
        if item.version is not None and item.version != picture.release:
            said.add(item.url)
            yield _other_release(picture, item.name, f"runs release {item.version}")
    for node in picture.nodes or ():
        is_old = node["version"] != picture.release and node["state"] in OWNING
        if is_old and _url(node) not in said:
            name = picture.roster.label(node["id"])
            yield _other_release(picture, name, f"is registered with release {node['version']}")


def _other_release(picture: Picture, name: str, what: str) -> Finding:
    local = picture.local
    command = f"ringlog down{picture.where} && ringlog up{picture.where} --detach"
    return Finding(
        code="other_release",
        subject=name,
        sentence=f"{name} {what}, and this command is {picture.release}.",
        command="pip install --upgrade ringlog" if local is None else command,
    )


def _snapshots(picture: Picture, limits: Limits) -> Iterator[Finding]:
    assert picture.snapshots is not None
    assert picture.tip is not None
    newest = max(picture.snapshots, key=lambda item: item.epoch, default=None)
    behind = picture.tip - (0 if newest is None else newest.epoch)
    if behind <= limits.snapshot_epochs:
        return
    if newest is None:
        said = f"There is no snapshot of {plural(behind, 'epoch')}"
    else:
        old = "" if newest.age_s is None else f" and {duration(newest.age_s)} old"
        said = f"The newest snapshot is {plural(behind, 'epoch')} behind the log{old}"
    yield Finding(
        code="snapshot_old",
        subject="snapshots",
        sentence=f"{said}: starting and catching up take longer than they need.",
        command=f"ringlog snapshot take{picture.where}",
    )


def _divergences(picture: Picture, found: Sequence[Plain]) -> Iterator[Finding]:
    for item in found:
        node = item["node"]
        yield Finding(
            code="diverged",
            subject="cms" if node is None else picture.roster.label(node),
            sentence=f"{item['detail'].rstrip('.')}. Nothing is committed until Postgres has them "
            "again, or somebody accepts the loss.",
            command=_acceptance(picture, item),
        )


def _acceptance(picture: Picture, item: Plain) -> str:
    if item["node"] is None:
        return logs(picture, "cms-1")
    named = {"node": item["node"], "epoch": item["epoch"], "hash": item["hash"], "reason": "WHY"}
    return (
        f"curl -X POST {picture.urls[0]}/v1/divergences/acknowledge "
        '-H "Authorization: Bearer $RINGLOG_TOKEN" -H "Content-Type: application/json" '
        f"-d '{json.dumps(named)}'"
    )


def _url(node: Plain) -> str:
    return f"http://{node['addresses'].get(HTTP)}"
