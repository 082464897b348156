"""The files of the local Kafka broker: its settings, its data, its log."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import msgspec

from services.local.command import run
from services.local.failure import LocalServerError

ADDRESS = "127.0.0.1"
NODE = 1
FORMAT_TIMEOUT_S = 60.0

_UNFINISHED = "unfinished-"

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": str(NODE),
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # A consumer's mistyped topic is an error, not a new topic.
    "auto.create.topics.enable": "false",
    # One broker keeps one copy, also of what it keeps for its clients.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    # The first consumer of a group does not wait for others.
    "group.initial.rebalance.delay.ms": "0",
    # A broker that was killed is let in again once its old session has ended.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # A laptop runs this beside everything else. The cleaner's buffer alone would be half the heap.
    "log.cleaner.dedupe.buffer.size": "2097152",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "background.threads": "2",
}

# To the console, which is the log file. The labels are those by which a reason is found in it.
_LOGGING = {
    "appender.out.type": "Console",
    "appender.out.name": "out",
    "appender.out.layout.type": "PatternLayout",
    "appender.out.layout.pattern": (
        "%d{yyyy-MM-dd HH:mm:ss.SSS} %level{ERROR=error:, WARN=warning:} "
        "%c{1}: %m %throwable{short.message}%n"
    ),
    "rootLogger.level": "WARN",
    "rootLogger.appenderRef.out.ref": "out",
}


class Files(msgspec.Struct, frozen=True):
    """Where things lie in a state directory."""

    state_dir: Path

    @property
    def home(self) -> Path:
        return self.state_dir / "kafka"

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def settings(self) -> Path:
        return self.home / "server.properties"

    @property
    def logging(self) -> Path:
        return self.home / "log4j2.properties"

    @property
    def log(self) -> Path:
        return self.state_dir / "kafka.log"

    def has_home(self) -> bool:
        return self.home.is_dir()

    def has_data(self) -> bool:
        return self.data.is_dir()

    def make_home(self) -> None:
        try:
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise LocalServerError(f"{self.home} cannot be made: {error.strerror}.") from error

    def write_settings(self, *, port: int, controller_port: int) -> None:
        controller = f"{ADDRESS}:{controller_port}"
        addresses = {
            "listeners": f"PLAINTEXT://{ADDRESS}:{port},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{ADDRESS}:{port}",
            "controller.quorum.voters": f"{NODE}@{controller}",
        }
        _write(self.settings, {**_SETTINGS, **addresses, "log.dirs": str(self.data)})
        _write(self.logging, _LOGGING)


def files_in(state_dir: Path) -> Files:
    # By one name only: the broker's process is found by the folder that it names.
    return Files(state_dir.resolve())


async def initialise(files: Files, tool: tuple[str, ...]) -> None:
    """Make the data directory; a crash at any point leaves either all of it or nothing."""
    for abandoned in files.home.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    unfinished = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=files.home))
    settings = unfinished / "format.properties"
    data = unfinished / "data"
    # The port is of no importance; formatting only asks that there is one.
    voters = {"listeners": "CONTROLLER://:1", "controller.quorum.voters": f"{NODE}@{ADDRESS}:1"}
    roles = {**_SETTINGS, **voters, "process.roles": "controller", "log.dirs": str(data)}
    _write(settings, roles)
    options = ("format", "--cluster-id", uuid4().hex[:22], "--config", str(settings))
    finished = await run((*tool, *options), timeout_s=FORMAT_TIMEOUT_S)
    if not finished.succeeded:
        raise LocalServerError(f"Kafka's data cannot be made: {finished.reason}")
    data.rename(files.data)
    shutil.rmtree(unfinished)


def _write(path: Path, properties: Mapping[str, str]) -> None:
    lines = (f"{name}={_escaped(value)}\n" for name, value in properties.items())
    path.write_text("".join(lines), encoding="latin-1")


def _escaped(value: str) -> str:
    """As Java reads it: a backslash escapes, and all but Latin-1 is escaped."""
    escaped = value.replace("\\", "\\\\").encode("latin-1", "backslashreplace")
    return escaped.decode("latin-1")
