"""What was asked for and what was before, made one."""

from __future__ import annotations

from uuid import uuid4

import msgspec

from metadata.partitioners import Partitioner
from services.local.failure import LocalServerError
from services.local.ports import HeldPorts
from services.local.state import Kept, StateDir

DEFAULT_PORT = 7400
DEFAULT_CMS = 1


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for; None is what it was before, or the default."""

    port: int | None = None
    cms: int | None = None
    partitioner: Partitioner | None = None


def settled(state: StateDir, wanted: Wanted, ports: HeldPorts, *, own_postgres: bool) -> Kept:
    """Settle what this start runs, and keep it for the next one."""
    before = state.read_kept()
    if before is not None:
        _check_same(before, wanted, own_postgres=own_postgres)
    port = before.port if before is not None else DEFAULT_PORT
    own_ports = before.own_ports if before is not None else ()
    cms = wanted.cms or len(own_ports) or DEFAULT_CMS
    wishes = (*own_ports, *(0 for _ in range(cms)))[:cms]
    shared = ports.hold_shared(port if wanted.port is None else wanted.port)
    kept = Kept(
        port=shared,
        own_ports=tuple(ports.hold(wish) for wish in wishes),
        partitioner=before.partitioner
        if before is not None
        else wanted.partitioner or Partitioner.XXHASH64,
        founding_entry_id=uuid4() if before is None else before.founding_entry_id,
        own_postgres=own_postgres,
        postgres_port=None if before is None else before.postgres_port,
        founded=before is not None and before.founded,
    )
    state.write_kept(kept)
    return kept


def _check_same(before: Kept, wanted: Wanted, *, own_postgres: bool) -> None:
    if wanted.partitioner not in {None, before.partitioner}:
        raise LocalServerError(
            f"The cluster has --partitioner {before.partitioner}, which cannot change: leave the "
            "option out, or start anew in another --state-dir."
        )
    if before.own_postgres != own_postgres:
        where = "a Postgres of its own" if before.own_postgres else "the RINGLOG_POSTGRES_DSN"
        raise LocalServerError(
            f"The cluster's log is in {where} it was first started with: start it that way, or "
            "start anew in another --state-dir."
        )


def differs(kept: Kept, wanted: Wanted) -> str | None:
    """The option by which a cluster that runs is not the one that is wanted."""
    if wanted.port not in {None, 0, kept.port}:
        return "--port"
    if wanted.cms not in {None, len(kept.own_ports)}:
        return "--cms"
    if wanted.partitioner not in {None, kept.partitioner}:
        return "--partitioner"
    return None
