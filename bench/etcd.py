"""etcd as the peer: 3.6 built from source where Go is installed, else the system's own."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec

from bench.processes import ended
from services.local.ports import ADDRESS, HeldPorts

VERSION = "3.6.5"
BUILD_TIMEOUT_S = 900.0
READY_TIMEOUT_S = 30.0
READY_POLL_INTERVAL_S = 0.1

_MAIN = """package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""
_MODULE = f"""module bench

go 1.24

require go.etcd.io/etcd/server/v3 v{VERSION}
"""


class EtcdMissingError(Exception):
    """Neither Go nor an etcd is installed."""


class Etcd(msgspec.Struct, frozen=True):
    pid: int
    port: int
    version: str


def program(cache: Path) -> Path:
    """Built once for each version, or found on the path."""
    go = shutil.which("go")
    if go is not None:
        return _built(go, cache / f"etcd-{VERSION}")
    found = shutil.which("etcd")
    if found is None:
        raise EtcdMissingError("install Go, or Debian's etcd-server")
    return Path(found)


def _built(go: str, folder: Path) -> Path:
    binary = folder / "etcd"
    if not binary.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "main.go").write_text(_MAIN)
        (folder / "go.mod").write_text(_MODULE)
        unfinished = folder / "etcd.unfinished"
        for command in (("mod", "tidy"), ("build", "-o", unfinished.name, ".")):
            subprocess.run([go, *command], cwd=folder, check=True, timeout=BUILD_TIMEOUT_S)
        unfinished.rename(binary)
    return binary


@asynccontextmanager
async def running(cache: Path, data: Path, ports: HeldPorts) -> AsyncIterator[Etcd]:
    """One member with its own defaults, which sync every batch of its log to the disk."""
    binary = program(cache)
    port, peer_port = ports.hold(), ports.hold()
    client, peer = f"http://{ADDRESS}:{port}", f"http://{ADDRESS}:{peer_port}"
    process = await asyncio.create_subprocess_exec(
        binary,
        *("--data-dir", str(data), "--log-level", "error", "--name", "bench"),
        *("--listen-client-urls", client, "--advertise-client-urls", client),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
        *("--initial-cluster", f"bench={peer}"),
        # It calls its own stopping an error.
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield Etcd(process.pid, port, await _version(client))
    finally:
        await ended(process)


async def _version(url: str) -> str:
    """Its version, once it is healthy."""
    async with asyncio.timeout(READY_TIMEOUT_S), aiohttp.ClientSession(url) as session:
        while not await _is_healthy(session):  # noqa: ASYNC110 - another process
            await asyncio.sleep(READY_POLL_INTERVAL_S)
        async with session.get("/version") as response:
            answer: dict[str, str] = await response.json(content_type=None)
            return answer["etcdserver"]


async def _is_healthy(session: aiohttp.ClientSession) -> bool:
    try:
        async with session.get("/health") as response:
            return response.ok
    except aiohttp.ClientConnectionError:
        return False
