"""What was asked for and what was before, made one."""

from __future__ import annotations

from uuid import uuid4

import msgspec

from metadata.partitioners import Partitioner
from services.local.failure import LocalServerError
from services.local.ports import HeldPorts
from services.local.state import CLUSTER_NAME, Fanout, Kept, StateDir

DEFAULT_PORT = 7400
DEFAULT_CMS = 1
NODES_OPTION = "--nodes"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for; None is what it was before, or the default."""

    port: int | None = None
    cms: int | None = None
    partitioner: Partitioner | None = None
    name: str | None = None
    nodes: int | None = None
    fanout: Fanout | None = None
    tokens: bool | None = None
    driver: bool | None = None


def settled(state: StateDir, wanted: Wanted, ports: HeldPorts, *, own_postgres: bool) -> Kept:
    """Settle what this start runs, and keep it for the next one."""
    before = state.read_kept()
    if before is None:
        before = _first(wanted, own_postgres=own_postgres)
    _check_same(before, wanted, own_postgres=own_postgres)
    shared = ports.hold_shared(before.port if wanted.port is None else wanted.port)
    cms = wanted.cms or len(before.own_ports) or DEFAULT_CMS
    kept = msgspec.structs.replace(
        before,
        port=shared,
        own_ports=_held(ports, before.own_ports, cms),
        node_ports=_held(ports, before.node_ports, len(before.node_ports)),
        nodes_wanted=before.size if wanted.nodes is None else wanted.nodes,
        fanout=wanted.fanout or before.fanout,
        tokens=_has_tokens(state, before, wanted),
        driver=before.driver if wanted.driver is None else wanted.driver,
    )
    while len(kept.node_ports) < kept.size:
        kept = kept.with_node(ports.hold_new(kept.retired_ports))
    kept = with_driver_port(kept, ports)
    state.write_kept(kept)
    return kept


def with_driver_port(kept: Kept, ports: HeldPorts) -> Kept:
    """Where there are no nodes there is nothing to drive."""
    if not kept.driver or not kept.node_ports:
        return kept
    port = ports.hold(kept.driver_port or 0)
    return msgspec.structs.replace(kept, driver_port=port)


def _first(wanted: Wanted, *, own_postgres: bool) -> Kept:
    """What only the first start decides."""
    return Kept(
        port=DEFAULT_PORT,
        own_ports=(),
        partitioner=wanted.partitioner or Partitioner.XXHASH64,
        founding_entry_id=uuid4(),
        own_postgres=own_postgres,
        name=wanted.name or CLUSTER_NAME,
    )


def _held(ports: HeldPorts, before: tuple[int, ...], count: int) -> tuple[int, ...]:
    """As before for those that were there, and any for those that come."""
    wishes = (*before, *(0 for _ in range(count)))[:count]
    return tuple(ports.hold(wish) for wish in wishes)


def _has_tokens(state: StateDir, before: Kept, wanted: Wanted) -> bool:
    """As asked for, else as before; a file that somebody put there is reason enough."""
    for said in (wanted.tokens, before.tokens):
        if said is not None:
            return said
    return state.tokens.exists()


def _check_same(before: Kept, wanted: Wanted, *, own_postgres: bool) -> None:
    if wanted.partitioner not in {None, before.partitioner}:
        raise _unchangeable(f"--partitioner {before.partitioner}")
    if wanted.name not in {None, before.name}:
        raise _unchangeable(f"--name {before.name}")
    fewer = wanted.nodes is not None and wanted.nodes < len(before.node_ports)
    # As many as are asked for already are fine, also while some have yet to leave.
    if fewer and wanted.nodes != before.size:
        raise LocalServerError(
            f"The cluster has {len(before.node_ports)} nodes, and a node has to leave before it "
            "goes: start with that many, or leave --nodes out, and then use `ringlog scale`."
        )
    if before.own_postgres != own_postgres:
        where = "a Postgres of its own" if before.own_postgres else "the RINGLOG_POSTGRES_DSN"
        raise LocalServerError(
            f"The cluster's log is in {where} it was first started with: start it that way, or "
            "start anew in another --state-dir."
        )


def _unchangeable(option: str) -> LocalServerError:
    return LocalServerError(
        f"The cluster has {option}, which cannot change: leave the option out, or start anew in "
        "another --state-dir."
    )


def differs(kept: Kept, wanted: Wanted) -> str | None:
    """The option by which a cluster that runs is not the one that is wanted."""
    if wanted.port not in {None, 0, kept.port}:
        return "--port"
    pairs = {
        "--cms": (wanted.cms, len(kept.own_ports)),
        "--partitioner": (wanted.partitioner, kept.partitioner),
        "--name": (wanted.name, kept.name),
        NODES_OPTION: (wanted.nodes, kept.size),
        "--fanout": (wanted.fanout, kept.fanout),
        "--tokens": (wanted.tokens, bool(kept.tokens)),
        "--driver": (wanted.driver, kept.driver),
    }
    for option, (asked, found) in pairs.items():
        if asked not in {None, found}:
            return option
    return None
