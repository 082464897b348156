"""What this machine shows of a cluster that `ringlog up` runs here."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from ringlog.doctor.asking import Whom
from ringlog.doctor.picture import Disk, Local, Secret, Supervised
from services.local import postgres
from services.local.failure import LocalServerError
from services.local.kafka_ivy import java
from services.local.kafka_process import brokers
from services.local.marked import marked
from services.local.recipes import DRIVER_NAME
from services.local.state import Fanout, Kept, Listed, StateDir
from services.local.supervision import supervisor_of

SECRETS = ("tokens.json", "postgres/password")


def local_of(state: StateDir, kept: Kept | None) -> Local:
    if kept is None:
        return Local(state_dir=str(state.path), founded=False)
    return Local(
        state_dir=str(state.path),
        founded=kept.founded,
        supervisor=supervisor_of(state.lock),
        processes=tuple(_supervised(state, kept)),
        drives=kept.driver_url is not None,
        by_kafka=kept.fanout is Fanout.KAFKA,
        has_java=_has_java(),
        disks=tuple(_disks(state, kept)),
        secrets=tuple(_secrets(state)),
    )


def whom_of(kept: Kept) -> list[Whom]:
    """Those who answer over HTTP."""
    driver = {} if kept.driver_url is None else {DRIVER_NAME: kept.driver_url}
    roles = {"cms": kept.cms_urls, "node": kept.node_urls, "driver": driver}
    return [Whom(name, role, url) for role, named in roles.items() for name, url in named.items()]


def dsn_of(state: StateDir, kept: Kept) -> str | None:
    """None where its Postgres is another, or does not run."""
    found = postgres.find(state.path) if kept.own_postgres else None
    return None if found is None else found.dsn


def _supervised(state: StateDir, kept: Kept) -> Iterator[Supervised]:
    listed = {item.name: item for item in state.read_processes()}
    # By the processes themselves: a pid in a list may be somebody else's by now.
    ours = set(marked(state.path))
    for whom in whom_of(kept):
        yield _one(listed, whom.name, whom.role, ours)
    if kept.own_postgres:
        server = postgres.find(state.path)
        yield _one(listed, "postgres", "postgres", set() if server is None else {server.pid})
    if kept.fanout is Fanout.KAFKA:
        found = {broker.pid for broker in brokers(state.path / "kafka")}
        yield _one(listed, "kafka", "kafka", found)


def _one(listed: Mapping[str, Listed], name: str, role: str, living: set[int]) -> Supervised:
    pid = listed[name].pid if name in listed else None
    return Supervised(name=name, role=role, pid=pid, alive=pid in living)


def _disks(state: StateDir, kept: Kept) -> Iterator[Disk]:
    """Each file system once, by the first folder that lies there."""
    folders = [state.path, state.path / "postgres", *(state.path / name for name in kept.node_urls)]
    seen: set[int] = set()
    for folder in folders:
        try:
            device = folder.stat().st_dev
            usage = shutil.disk_usage(folder)
        except OSError:
            # Not made yet, or closed to us.
            continue
        if device not in seen:
            seen.add(device)
            yield Disk(path=str(folder), free_bytes=usage.free, total_bytes=usage.total)


def _secrets(state: StateDir) -> Iterator[Secret]:
    for name in SECRETS:
        path: Path = state.path / name
        try:
            mode = path.stat().st_mode & 0o777
        except OSError:
            continue
        yield Secret(path=str(path), mode=mode)


def _has_java() -> bool:
    try:
        java()
    except LocalServerError:
        return False
    return True
