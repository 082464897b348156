"""How the processes of a cluster are started: what each is told by its environment."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import msgspec

from services.local.children import Recipe
from services.local.marked import MARK
from services.local.ports import ADDRESS
from services.local.state import Kept, Role, StateDir

CMS_COMMAND = (sys.executable, "-m", "services.cms")
NODE_COMMAND = (sys.executable, "-m", "services.node")
DRIVER_COMMAND = (sys.executable, "-m", "services.driver")
DRIVER_NAME = "driver-1"
DATACENTER = "dc1"
RACKS = ("r1", "r2", "r3")


class Servers(msgspec.Struct, frozen=True, kw_only=True):
    """Where the log is and, with fan-out by Kafka, where its brokers are."""

    dsn: str
    kafka: str | None = None


def cms_recipes(
    state: StateDir, kept: Kept, servers: Servers, command: Sequence[str] = CMS_COMMAND
) -> list[Recipe]:
    common = {
        **_common(state, kept),
        "RINGLOG_POSTGRES_DSN": servers.dsn,
        "RINGLOG_KAFKA": servers.kafka or "",
        "RINGLOG_LISTEN": _authority(kept.url),
    }
    return [
        Recipe(
            name=name,
            role=Role.CMS,
            url=url,
            command=tuple(command),
            environment={
                **common,
                "RINGLOG_NAME": name,
                "RINGLOG_OWN_LISTEN": _authority(url),
            },
            log=state.log_of(name),
        )
        for name, url in kept.cms_urls.items()
    ]


def node_recipes(
    state: StateDir, kept: Kept, servers: Servers, command: Sequence[str] = NODE_COMMAND
) -> list[Recipe]:
    """Entries come to a node by one road only, the one that was asked for."""
    common = {
        **_common(state, kept),
        "RINGLOG_SEEDS": kept.url,
        "RINGLOG_POSTGRES_DSN": servers.dsn if servers.kafka is None else "",
        "RINGLOG_KAFKA": servers.kafka or "",
        "RINGLOG_DATACENTER": DATACENTER,
    }
    return [
        Recipe(
            name=name,
            role=Role.NODE,
            url=url,
            command=tuple(command),
            environment={
                **common,
                "RINGLOG_NAME": name,
                "RINGLOG_STATE_DIR": str(state.path / name),
                "RINGLOG_LISTEN": _authority(url),
                "RINGLOG_ADVERTISE": _authority(url),
                "RINGLOG_RACK": rack,
            },
            log=state.log_of(name),
        )
        for (name, url), rack in zip(kept.node_urls.items(), map(_rack, kept.numbers), strict=True)
    ]


def driver_recipe(
    state: StateDir, kept: Kept, command: Sequence[str] = DRIVER_COMMAND
) -> Recipe | None:
    """None where no driver is wanted, or there is nothing to drive."""
    if (url := kept.driver_url) is None:
        return None
    return Recipe(
        name=DRIVER_NAME,
        role=Role.DRIVER,
        url=url,
        command=tuple(command),
        environment={
            **_common(state, kept),
            "RINGLOG_NAME": DRIVER_NAME,
            "RINGLOG_STATE_DIR": str(state.path / DRIVER_NAME),
            "RINGLOG_SEEDS": kept.url,
            "RINGLOG_LISTEN": _authority(url),
        },
        log=state.log_of(DRIVER_NAME),
    )


def _rack(number: int) -> str:
    """In turns, by the number in the name: who goes and comes leaves the others where they are."""
    return RACKS[(number - 1) % len(RACKS)]


def _common(state: StateDir, kept: Kept) -> Mapping[str, str]:
    # An empty variable counts as absent, also where our own environment has another.
    tokens = str(state.tokens) if kept.tokens else ""
    return {MARK: str(state.path), "RINGLOG_TOKENS_FILE": tokens}


def _authority(url: str) -> str:
    authority = url.removeprefix("http://")
    assert authority.startswith(ADDRESS)
    return authority
