"""Nodes beside those of `ringlog up`: they own nothing until a sequence gives them something."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import Any

from services.local.ports import HeldPorts

RESTART_PAUSE_S = 0.2
STOP_TIMEOUT_S = 20.0


class Spare:
    """One node process, started again whenever it dies, at the same address."""

    def __init__(self, folder, cms, name):
        self.folder = folder
        self.name = name
        self._cms = cms
        self._held = contextlib.ExitStack()
        self._process: Any = None
        self._keeping: Any = None
        self.address = ""
        self.is_down = False

    @property
    def url(self):
        return f"http://{self.address}"

    @property
    def pid(self):
        return self._process.pid

    def start(self, used):
        """At a port of its own, `used` from then on: nodes that left keep theirs."""
        self.folder.mkdir()
        port = self._held.enter_context(HeldPorts()).hold_new(used)
        used.add(port)
        self.address = f"127.0.0.1:{port}"
        self._keeping = asyncio.create_task(self._keep())

    def kill(self):
        os.kill(self._process.pid, signal.SIGKILL)

    async def stop(self):
        with self._held:
            await self._stop()

    async def go_down(self):
        """Die, and stay dead."""
        self.is_down = True
        self._keeping.cancel()
        await asyncio.gather(self._keeping, return_exceptions=True)
        self._process.kill()
        await self._process.wait()

    def come_back(self):
        self.is_down = False
        self._keeping = asyncio.create_task(self._keep())

    async def _stop(self):
        self._keeping.cancel()
        await asyncio.gather(self._keeping, return_exceptions=True)
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    await self._process.wait()
                    return
            self._process.kill()
            await self._process.wait()

    async def _keep(self):
        environment = {
            **{name: text for name, text in os.environ.items() if name[:8] != "RINGLOG_"},
            "RINGLOG_NAME": self.name,
            "RINGLOG_STATE_DIR": str(self.folder),
            "RINGLOG_SEEDS": self._cms,
            "RINGLOG_LISTEN": self.address,
        }
        while True:
            with (self.folder / "log").open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "services.node", env=environment, stderr=log
                )
            await self._process.wait()
            await asyncio.sleep(RESTART_PAUSE_S)
