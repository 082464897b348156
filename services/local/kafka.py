"""An Apache Kafka broker of our own, on one machine and in one state directory.

It is broker and controller in one process (KRaft). It survives whoever started it: `start` adopts
a broker that runs and starts one that does not, also where the last one was killed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from services.local.command import reason_in, spawn
from services.local.failure import LocalServerError
from services.local.kafka_files import ADDRESS, Files, files_in, initialise
from services.local.kafka_ivy import java
from services.local.kafka_jars import jars
from services.local.kafka_process import Broker, broker, end, identity, listens
from services.local.marked import MARK
from services.local.ports import HeldPorts
from services.local.turn import turn
from services.local.waiting import until

START_TIMEOUT_S = 60.0
PORT_TIMEOUT_S = 2.0
LOG_EXCERPT_BYTES = 4_000

# Small and quickly up rather than fast: what passes through it is small too.
_MACHINE = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.net.preferIPv4Stack=true",
)
_TOO_OLD = "UnsupportedClassVersionError"


class Server(msgspec.Struct, frozen=True):
    """A broker that takes connections; `bootstrap` is where clients begin."""

    pid: int
    port: int
    bootstrap: str


@contextlib.asynccontextmanager
async def running(state_dir: Path, port: int | None = None) -> AsyncIterator[Server]:
    """A broker for as long as the block runs, and none afterwards."""
    try:
        yield await start(state_dir, port)
    finally:
        await stop(state_dir)


async def start(state_dir: Path, port: int | None = None) -> Server:
    """A broker that is ready, in `state_dir`: the one that runs there, or a new one.

    One that runs keeps its port, whatever `port` says. Without `port` a new one takes any free
    port; whoever restarts it for others passes the old one. The first start on a machine fetches
    Kafka. After an error the broker may still be coming up: `start` again waits for it, `stop`
    ends it.
    """
    program, libraries = java(), await jars()
    files = files_in(state_dir)
    files.make_home()
    async with turn(files.home):
        machine = (program, *_MACHINE, *_surroundings(files), "-cp", f"{libraries}/*")
        if not files.has_data():
            await initialise(files, (*machine, "kafka.tools.StorageTool"))
        found = broker(files.home)
        if found is None:
            return _server(await _launch(files, machine, port))
        return _server(await _ready(files, found))


async def stop(state_dir: Path) -> None:
    """End the broker of `state_dir`, if there is one."""
    files = files_in(state_dir)
    if not files.has_home():
        return
    async with turn(files.home):
        await end(files.home)


def find(state_dir: Path) -> Server | None:
    """The broker that takes connections in `state_dir`, if one does."""
    found = broker(files_in(state_dir).home)
    return _server(found) if found is not None and found.is_ready else None


async def _launch(files: Files, machine: tuple[str, ...], port: int | None) -> Broker:
    with HeldPorts() as ports:
        held = await _held(ports, port)
        files.write_settings(port=held, controller_port=ports.hold())
        # By this `ringlog down` finds it also when nobody knows of it any more.
        marked = ("env", f"{MARK}={files.state_dir}")
        named = (machine[0], *identity(files.home, held), *machine[1:])
        process = spawn((*marked, *named, "kafka.Kafka", str(files.settings)), files.log)
        started = Broker(process.pid, held)
        with contextlib.suppress(TimeoutError):
            await until(
                lambda: process.returncode is not None or started.is_ready,
                timeout_s=START_TIMEOUT_S,
            )
    if process.returncode is not None or not started.is_ready:
        raise LocalServerError(f"Kafka is not ready, see {files.log}: {_last_words(files)}")
    return started


async def _held(ports: HeldPorts, port: int | None) -> int:
    if port is None:
        return ports.hold()
    with contextlib.suppress(TimeoutError):
        # The kernel closes the port of a broker that was killed a moment after its end.
        await until(lambda: not listens(port), timeout_s=PORT_TIMEOUT_S)
    if ports.hold(port) != port:
        raise LocalServerError(f"Port {port} cannot be used: somebody else has it.")
    return port


async def _ready(files: Files, found: Broker) -> Broker:
    """Wait for a broker that another start, now dead, has left coming up."""
    try:
        await until(lambda: found.is_ready, timeout_s=START_TIMEOUT_S)
    except TimeoutError:
        raise LocalServerError(f"Kafka in {files.home} runs and does not get ready.") from None
    return found


def _surroundings(files: Files) -> tuple[str, ...]:
    return (
        f"-Dlog4j2.configurationFile={files.logging}",
        f"-Djava.io.tmpdir={files.home}",
        f"-XX:ErrorFile={files.home}/crash.log",
    )


def _server(found: Broker) -> Server:
    return Server(pid=found.pid, port=found.port, bootstrap=f"{ADDRESS}:{found.port}")


def _last_words(files: Files) -> str:
    with files.log.open("rb") as log:
        log.seek(-min(LOG_EXCERPT_BYTES, log.seek(0, os.SEEK_END)), os.SEEK_END)
        tail = log.read().decode(errors="replace")
    if _TOO_OLD in tail:
        return "this Java is too old for Kafka; install version 17 or later."
    return reason_in(tail)
