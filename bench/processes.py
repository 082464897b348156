"""The programs that are measured: a Postgres, several CMS processes, and their end."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec

from client.client import Client
from client.patience import Patience
from services.local import postgres
from services.local.founding import wait_until
from services.local.ports import ADDRESS, HeldPorts
from transformations.initialize import Initialize

STOP_TIMEOUT_S = 40.0
FOLDER_MODE = 0o711
LOG = "cms.log"
EXCERPT_CHARACTERS = 2_000
FOLDER = "BENCH_FOLDER"
"""Tells a process that wants to leave something behind where to."""
CMS_COMMAND = (sys.executable, "-m", "services.cms")
FOUNDING = Initialize(name="bench")
PATIENT = Patience(attempt_timeout_s=60.0, deadline_s=120.0)


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """What a benchmark talks to; `own_urls` name single processes."""

    dsn: str
    postgres_pid: int
    port: int
    own_urls: tuple[str, ...]
    pids: list[int]
    kafka: str | None = None

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.port}"


@asynccontextmanager
async def serving(
    folder: Path,
    ports: HeldPorts,
    cms: int,
    *,
    command: Sequence[str] = CMS_COMMAND,
    environment: Mapping[str, str] | None = None,
    founding: Initialize = FOUNDING,
) -> AsyncIterator[Service]:
    """A founded cluster of `cms` processes that share a port, on a Postgres in `folder`."""
    # As root the server runs under a user of its own, who has to pass through.
    folder.chmod(FOLDER_MODE)  # noqa: ASYNC240 - nothing else runs yet
    async with postgres.running(folder) as server:
        port = ports.hold_shared(0)
        own = [f"{ADDRESS}:{ports.hold()}" for _ in range(cms)]
        urls = tuple(f"http://{address}" for address in own)
        processes: list[Process] = []
        try:
            for number, address in enumerate(own, start=1):
                told = {
                    FOLDER: str(folder),
                    "RINGLOG_POSTGRES_DSN": server.dsn,
                    "RINGLOG_NAME": f"cms-{number}",
                    "RINGLOG_LISTEN": f"{ADDRESS}:{port}",
                    "RINGLOG_OWN_LISTEN": address,
                    "RINGLOG_TOKENS_FILE": "",
                    **(environment or {}),
                }
                processes.append(await _started(command, told, folder / LOG))
            service = Service(
                dsn=server.dsn,
                postgres_pid=server.pid,
                port=port,
                own_urls=urls,
                pids=[process.pid for process in processes],
            )
            await _founded(service, processes, folder / LOG, founding)
            yield service
        finally:
            await asyncio.gather(*map(ended, processes))


async def _started(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Process:
    with log.open("ab") as errors:
        return await asyncio.create_subprocess_exec(
            *command, stderr=errors, env={**os.environ, **environment}
        )


async def _founded(
    service: Service, processes: Sequence[Process], log: Path, founding: Initialize
) -> None:
    def give_up() -> str | None:
        is_dead = any(process.returncode is not None for process in processes)
        return log.read_text()[-EXCERPT_CHARACTERS:] if is_dead else None

    await wait_until("/healthz", service.own_urls, give_up=give_up)
    # A large image takes a while.
    async with Client(service.own_urls[0], patience=PATIENT) as client:
        await client.commit(founding)
    await wait_until("/readyz", service.own_urls, give_up=give_up)


async def roles(service: Service) -> list[bool]:
    """For each process, whether it sequences."""
    found = []
    for url in service.own_urls:
        async with aiohttp.ClientSession(url) as session, session.get("/healthz") as response:
            found.append(bool((await response.json())["sequencing"]))
    return found


async def ended(process: Process) -> None:
    """Asked to stop, and killed where it does not."""
    if process.returncode is None:
        process.terminate()
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
