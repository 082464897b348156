"""Starting programs: those that end, and servers that stay."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Sequence
from pathlib import Path

import msgspec

# An operator's own path may lack the folders that hold useradd.
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Another user may be unable to enter the folder we are in.
_FOLDER = "/"


class Finished(msgspec.Struct, frozen=True):
    status: int
    output: str

    @property
    def succeeded(self) -> bool:
        return self.status == 0

    @property
    def reason(self) -> str:
        return reason_in(self.output)


async def run(command: Sequence[str], *, timeout_s: float) -> Finished:
    """Wait for `command`, or end it with all it started and raise `TimeoutError`."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
        cwd=_FOLDER,
        env=_environment(),
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(timeout_s):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    assert process.returncode is not None
    return Finished(process.returncode, output.decode(errors="replace"))


def spawn(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a server that outlives us and that no Ctrl-C of ours reaches.

    asyncio's processes are killed when they are garbage, so this is none of them. A thread
    collects the exit status: whoever ends the server, and in whatever process, it is gone at once
    instead of staying a zombie for as long as we live.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 the command is ours
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=_FOLDER,
            env=_environment(),
            start_new_session=True,
        )
    threading.Thread(target=process.wait, name=f"exit of {process.pid}", daemon=True).start()
    return process


def reason_in(output: str) -> str:
    """The line that says why a program failed, which is not always the last one."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    complaints = [line for line in lines if "FATAL" in line or "error:" in line]
    return (complaints or lines or ["it said nothing"])[-1]


def _environment() -> dict[str, str]:
    """No variables but these: PG* among ours would silently change what PostgreSQL does."""
    return {"PATH": f"{os.environ.get('PATH', '')}:{_SYSTEM_PATH}", "LC_ALL": "C"}
