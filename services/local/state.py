"""The state directory of a local cluster: what lies where, and what is kept between starts."""

from __future__ import annotations

import os
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import msgspec

from metadata.partitioners import Partitioner
from services.local.failure import LocalServerError

T = TypeVar("T")


class Role(StrEnum):
    POSTGRES = "postgres"
    KAFKA = "kafka"
    CMS = "cms"
    NODE = "node"
    DRIVER = "driver"


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A process of the cluster, as `processes.json` lists it."""

    name: str
    role: Role
    pid: int
    url: str


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What a second start needs to know of the first.

    The founding entry id is settled before anything is committed, so that a start that died
    in between founds the same cluster again instead of another one.
    """

    port: int
    own_ports: tuple[int, ...]
    partitioner: Partitioner
    founding_entry_id: UUID
    own_postgres: bool
    postgres_port: int | None = None
    founded: bool = False


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
        return _read(self.kept, Kept)

    def write_kept(self, kept: Kept) -> None:
        replace(self.kept, msgspec.json.format(msgspec.json.encode(kept)))

    def read_processes(self) -> list[Listed]:
        return _read(self.processes, list[Listed]) or []

    def write_processes(self, listed: list[Listed]) -> None:
        replace(self.processes, msgspec.json.format(msgspec.json.encode(listed)))

    def read_tokens(self) -> dict[str, str]:
        return _read(self.tokens, dict[str, str]) or {}


def state_dir(path: Path) -> StateDir:
    return StateDir(path.absolute())


def replace(path: Path, content: bytes) -> None:
    """Readers see the file as it was or as it is, never half of it."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content + b"\n")
        os.fchmod(file.fileno(), 0o644)
        file.flush()
        os.fsync(file.fileno())
    Path(name).replace(path)


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise LocalServerError(
            f"{path} is damaged ({error}): move the state directory away and start anew."
        ) from error
