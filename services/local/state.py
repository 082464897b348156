"""The state directory of a local cluster: what lies where, and what is kept between starts."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import msgspec

from metadata.partitioners import Partitioner
from services.local.failure import LocalServerError
from services.local.ports import ADDRESS

T = TypeVar("T")

CLUSTER_NAME = "ringlog"


class Role(StrEnum):
    POSTGRES = "postgres"
    KAFKA = "kafka"
    CMS = "cms"
    NODE = "node"
    DRIVER = "driver"


class Fanout(StrEnum):
    """How entries reach nodes without their asking."""

    NOTIFY = "notify"
    KAFKA = "kafka"


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A process of the cluster, as `processes.json` lists it."""

    name: str
    role: Role
    pid: int
    url: str


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What a second start needs to know of the first.

    The founding entry id is settled before anything is committed, so that a start that died
    in between founds the same cluster again instead of another one. `tokens` is None where nobody
    ever said whether there should be some. `node_numbers` are those in the names of the nodes; an
    older release did not keep them. `nodes_wanted` is another number than there are while nodes
    have yet to come or go. An address of a node that left stays its own, hence `retired_ports`.
    """

    port: int
    own_ports: tuple[int, ...]
    partitioner: Partitioner
    founding_entry_id: UUID
    own_postgres: bool
    postgres_port: int | None = None
    founded: bool = False
    name: str = CLUSTER_NAME
    node_ports: tuple[int, ...] = ()
    fanout: Fanout = Fanout.NOTIFY
    kafka_port: int | None = None
    tokens: bool | None = None
    node_numbers: tuple[int, ...] = ()
    nodes_wanted: int | None = None
    retired_ports: tuple[int, ...] = ()
    driver: bool = True
    driver_port: int | None = None

    @property
    def url(self) -> str:
        """Where all CMS processes answer together."""
        return f"http://{ADDRESS}:{self.port}"

    @property
    def cms_urls(self) -> dict[str, str]:
        """Where each CMS process answers alone, by its name."""
        return _addressed("cms", range(1, len(self.own_ports) + 1), self.own_ports)

    @property
    def node_urls(self) -> dict[str, str]:
        return _addressed("node", self.numbers, self.node_ports)

    @property
    def driver_url(self) -> str | None:
        """Where the driver answers, if there is one."""
        if not self.driver or self.driver_port is None:
            return None
        return f"http://{ADDRESS}:{self.driver_port}"

    @property
    def numbers(self) -> tuple[int, ...]:
        """The number of each node, in the order of their ports."""
        return self.node_numbers or tuple(range(1, len(self.node_ports) + 1))

    @property
    def size(self) -> int:
        """How many nodes there are to be."""
        return len(self.node_ports) if self.nodes_wanted is None else self.nodes_wanted

    def with_node(self, port: int) -> Kept:
        return msgspec.structs.replace(
            self,
            node_ports=(*self.node_ports, port),
            node_numbers=(*self.numbers, max(self.numbers, default=0) + 1),
        )

    def without_node(self, name: str) -> Kept:
        index = list(self.node_urls).index(name)
        port = self.node_ports[index]
        return msgspec.structs.replace(
            self,
            node_ports=_without(self.node_ports, index),
            node_numbers=_without(self.numbers, index),
            retired_ports=(*self.retired_ports, port),
        )


class StateDir(msgspec.Struct, frozen=True):
    path: Path

    @property
    def processes(self) -> Path:
        return self.path / "processes.json"

    @property
    def kept(self) -> Path:
        return self.path / "cluster.json"

    @property
    def tokens(self) -> Path:
        return self.path / "tokens.json"

    @property
    def wish(self) -> Path:
        """How many nodes somebody asks the supervisor for."""
        return self.path / "scale.json"

    @property
    def answer(self) -> Path:
        """What became of that."""
        return self.path / "scaled.json"

    @property
    def lock(self) -> Path:
        return self.path / "supervisor.pid"

    def log_of(self, name: str) -> Path:
        return self.path / f"{name}.log"

    def make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LocalServerError(
                f"{self.path} cannot be made: {error.strerror}. Choose another --state-dir."
            ) from error

    def read_kept(self) -> Kept | None:
        return read(self.kept, Kept)

    def write_kept(self, kept: Kept) -> None:
        replace(self.kept, msgspec.json.format(msgspec.json.encode(kept)))

    def read_processes(self) -> list[Listed]:
        return read(self.processes, list[Listed]) or []

    def write_processes(self, listed: list[Listed]) -> None:
        replace(self.processes, msgspec.json.format(msgspec.json.encode(listed)))

    def read_tokens(self) -> dict[str, str]:
        return read(self.tokens, dict[str, str]) or {}


def state_dir(path: Path) -> StateDir:
    return StateDir(path.absolute())


def _addressed(role: str, numbers: Iterable[int], ports: Iterable[int]) -> dict[str, str]:
    numbered = zip(numbers, ports, strict=True)
    return {f"{role}-{number}": f"http://{ADDRESS}:{port}" for number, port in numbered}


def _without(numbers: tuple[int, ...], index: int) -> tuple[int, ...]:
    return numbers[:index] + numbers[index + 1 :]


def replace(path: Path, content: bytes) -> None:
    """Readers see the file as it was or as it is, never half of it."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content + b"\n")
            os.fchmod(file.fileno(), 0o644)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def read(path: Path, kind: type[T]) -> T | None:
    """None where there is no such file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LocalServerError(f"{path} cannot be read: {error.strerror}.") from error
    except msgspec.DecodeError as error:
        raise LocalServerError(
            f"{path} is damaged ({error}): move the state directory away and start anew."
        ) from error
