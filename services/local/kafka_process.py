"""The process of a broker, whoever started it: found by the folder that its arguments name."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import msgspec

from services.local.failure import LocalServerError
from services.local.kafka_files import ADDRESS
from services.local.waiting import until

# In order; then, because a client may hold it up, by force.
_ENDINGS = ((signal.SIGTERM, 8.0), (signal.SIGKILL, 5.0))

_PROCESSES = Path("/proc")
_LISTENERS = Path("/proc/net/tcp")
_LISTENING = "0A"
# Nobody has asked yet how it ended.
_ENDED = frozenset("ZX")
_HOME = "-Dringlog.kafka.home="
_PORT = "-Dringlog.kafka.port="


class Broker(msgspec.Struct, frozen=True):
    pid: int
    port: int

    @property
    def is_ready(self) -> bool:
        """Whether it takes connections; it opens its port last."""
        return listens(self.port)


def identity(home: Path, port: int) -> tuple[str, str]:
    """What a broker is told so that it can be found."""
    return f"{_HOME}{home}", f"{_PORT}{port}"


def broker(home: Path) -> Broker | None:
    """The living broker of `home`."""
    found = brokers(home)
    return found[0] if found else None


def brokers(home: Path) -> list[Broker]:
    pids = (int(entry.name) for entry in _PROCESSES.iterdir() if entry.name.isdigit())
    return [Broker(pid, port) for pid in pids if (port := _port_of(pid, home)) is not None]


async def end(home: Path) -> None:
    """End what runs in `home`, in order if it lets us."""
    pids = [found.pid for found in brokers(home)]
    for number, timeout_s in _ENDINGS:
        for pid in filter(_lives, pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        with contextlib.suppress(TimeoutError):
            await until(lambda: not any(map(_lives, pids)), timeout_s=timeout_s)
            return
    raise LocalServerError(f"Kafka in {home} does not end: processes {pids}.")


def listens(port: int) -> bool:
    """Looked up rather than tried: a connection to nobody's port may meet itself."""
    octets = bytes(reversed([int(each) for each in ADDRESS.split(".")]))
    wanted = f"{octets.hex().upper()}:{port:04X}"
    rows = (line.split() for line in _LISTENERS.read_text(encoding="ascii").splitlines()[1:])
    return any(row[1] == wanted and row[3] == _LISTENING for row in rows)


def _port_of(pid: int, home: Path) -> int | None:
    """The port of a broker in `home`; None for any other process."""
    process = _PROCESSES / str(pid)
    try:
        arguments = (process / "cmdline").read_bytes().split(b"\0")
        # Not whoever merely speaks of it, such as an editor or a search.
        if os.fsencode(f"{_HOME}{home}") not in arguments or _program(process) != "java":
            return None
    except OSError:
        # Ended meanwhile, a zombie, or another user's.
        return None
    ports = [each for each in arguments if each.startswith(_PORT.encode())]
    return int(ports[0].removeprefix(_PORT.encode())) if ports else None


def _program(process: Path) -> str:
    # Linux adds a word to the name of a program whose file is gone, as after an upgrade.
    return (process / "exe").readlink().name.removesuffix(" (deleted)")


def _lives(pid: int) -> bool:
    """Whether it still holds its files and its port: for a moment longer than its name."""
    try:
        status = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in _ENDED
