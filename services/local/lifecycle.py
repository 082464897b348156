"""Starting a local cluster in the background, and stopping it wherever it runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog

from services.local import kafka, postgres
from services.local.command import reason_in
from services.local.failure import LocalServerError
from services.local.marked import end_marked
from services.local.settling import Wanted
from services.local.state import StateDir
from services.local.supervision import AlreadyRunningError, end_supervisor
from services.local.supervisor import Ready, Supervisor
from services.logging import Unfailing

DETACH_TIMEOUT_S = 300.0
"""Enough for the first start on a machine, which may have to fetch Kafka."""

LOG_EXCERPT_BYTES = 2_000


class Word(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The one line that a supervisor in the background says to whoever started it."""

    url: str | None = None
    waiting: tuple[str, ...] = ()
    driven: bool = True
    unrepaired: tuple[str, ...] = ()
    failure: str | None = None
    running: bool = False


async def supervise(
    state: StateDir, wanted: Wanted, *, dsn: str | None, on_ready: Callable[[Ready], None]
) -> None:
    """Run a cluster here until SIGINT or SIGTERM, then stop it."""
    task = asyncio.current_task()
    assert task is not None
    asked: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        # Once: a second Ctrl-C must not interrupt the stopping.
        if not asked:
            task.cancel()
        asked.append(number)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
    try:
        await Supervisor(state, wanted, dsn=dsn).run(on_ready)
    except asyncio.CancelledError:
        if not asked:
            raise


async def start_detached(state: StateDir, wanted: Wanted, dsn: str | None) -> Ready:
    """Start a supervisor that outlives us; return once the cluster serves."""
    state.make()
    with state.log_of("supervisor").open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "services.local", str(state.path)),
            msgspec.json.encode(wanted).decode(),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=errors,
            cwd="/",
            # Not an argument: everybody sees those.
            env={**os.environ, "RINGLOG_POSTGRES_DSN": dsn or ""},
            start_new_session=True,
        )
    assert process.stdout is not None
    said = b""
    try:
        async with asyncio.timeout(DETACH_TIMEOUT_S):
            said = await process.stdout.readline()
    finally:
        if not said and process.returncode is None:
            process.terminate()
            await process.wait()
    return _ready_in(said, state)


async def stop(state: StateDir) -> None:
    """Leave no process of the cluster, whoever started it and whoever died."""
    if not state.path.is_dir():
        return
    await end_supervisor(state.lock)
    await end_marked(state.path)
    await kafka.stop(state.path)
    await postgres.stop(state.path)
    if state.processes.exists():
        # Whoever looks for a cluster looks for its processes, too: a full disk does no harm here.
        with contextlib.suppress(OSError):
            state.write_processes([])


def log_to(path: Path) -> None:
    """What the supervisor does, one JSON line per event."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.JSONRenderer(),
        ],
        # Open for as long as the process lives.
        logger_factory=structlog.WriteLoggerFactory(Unfailing(path.open("a", encoding="utf-8"))),
    )


def say(word: Word) -> None:
    """Say it, and nothing more: whoever listened goes away."""
    sys.stdout.write(msgspec.json.encode(word).decode() + "\n")
    sys.stdout.flush()
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, sys.stdout.fileno())
    os.close(silence)


def _ready_in(said: bytes, state: StateDir) -> Ready:
    if not said:
        log = state.log_of("supervisor")
        tail = log.read_bytes()[-LOG_EXCERPT_BYTES:].decode(errors="replace")
        raise LocalServerError(f"The supervisor ended, see {log}: {reason_in(tail)}")
    word = msgspec.json.decode(said, type=Word)
    if word.running:
        raise AlreadyRunningError(word.failure or "")
    if word.url is None:
        raise LocalServerError(word.failure or "The supervisor did not say why it ended.")
    return Ready(word.url, word.waiting, word.driven, word.unrepaired)
