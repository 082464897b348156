"""Node processes for tests: real ones, which may be killed, set back and come back."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from asyncio import create_subprocess_exec
from asyncio.subprocess import DEVNULL, STDOUT
from contextlib import closing
from typing import NamedTuple

import msgspec

from tests.e2e.cluster import ROOT, Cms

FILE = "node.sqlite"


class _Line(msgspec.Struct):
    event: str = ""
    epoch: int = 0
    digest: str = ""
    jump: bool = False
    fault: str = ""
    state: str = ""


class Published(NamedTuple):
    """One version that a node let everybody see, and whether it took a snapshot to get there."""

    epoch: int
    is_jump: bool = False
    digest: str = ""


class Life(NamedTuple):
    """What was published from one start to the next end; whether it began with all that was."""

    versions: list[Published]
    is_whole: bool = True


_decode = msgspec.json.Decoder(_Line).decode


class NodeProcess(Cms):
    """One process with a directory of its own; each start is a life, with a log file of its own."""

    def __init__(self, name, folder, environment, url):
        super().__init__(name, folder, environment, url)
        self.state_dir = folder / name
        self.lives = []
        self._robbed = set()
        self._folder = folder
        self._environment = {**environment, "RINGLOG_STATE_DIR": str(self.state_dir)}

    async def start(self):
        self.log = self._folder / f"{self.name}.{len(self.lives) + 1}.log"
        self.lives.append(self.log)
        others = {k: v for k, v in os.environ.items() if not k.startswith("RINGLOG_")}
        with self.log.open("ab") as output:
            self._process = await create_subprocess_exec(
                sys.executable,
                *("-m", "services.node"),
                stdin=DEVNULL,
                stdout=output,
                stderr=STDOUT,
                cwd=ROOT,
                env={**others, **self._environment},
            )

    async def copy_to(self, folder):
        """As a backup would while the node is down."""
        async with self._turn:
            await self.kill()
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(self.state_dir, folder)
            await self.start()

    async def restore_from(self, folder):
        async with self._turn:
            await self.kill()
            shutil.rmtree(self.state_dir)
            shutil.copytree(folder, self.state_dir)
            self._rob()
            await self.start()

    async def trim(self):
        """Forget all entries up to the newest snapshot, as a node does by itself later; how many.

        That snapshot may have been damaged and not looked at since.
        """
        async with self._turn:
            await self.kill()
            with closing(sqlite3.connect(self.state_dir / FILE)) as connection, connection:
                forgotten = connection.execute(
                    "DELETE FROM journal_entries WHERE epoch < "
                    "(SELECT max(epoch) FROM journal_snapshots)"
                ).rowcount
            await self.start()
            return forgotten

    async def damage(self):
        """Flip a byte in the middle of every snapshot on its disk, while it is down; how many."""
        async with self._turn:
            await self.kill()
            with closing(sqlite3.connect(self.state_dir / FILE)) as connection, connection:
                kept = connection.execute("SELECT epoch, image FROM journal_snapshots").fetchall()
                connection.executemany(
                    "UPDATE journal_snapshots SET image = ? WHERE epoch = ?",
                    [(_flipped(image), epoch) for epoch, image in kept],
                )
            self._rob()
            await self.start()
            return len(kept)

    def _rob(self):
        """The next life may begin with less than this one had."""
        self._robbed.add(len(self.lives))

    def published(self):
        """What each life published, in order.

        The life may have ended between publishing the last version and saying how it got there.
        """
        return [
            Life(_published(list(_lines(log))), is_whole=number not in self._robbed)
            for number, log in enumerate(self.lives)
        ]

    def noted(self, event):
        return [line for life in self.lives for line in _lines(life) if line.event == event]


def _flipped(image):
    changed = bytearray(image)
    changed[len(image) // 2] ^= 0xFF
    return bytes(changed)


def _published(lines):
    jumped = {line.epoch for line in lines if line.event == "jumped"}
    applied = [line for line in lines if line.event == "applied"]
    return [
        Published(
            line.epoch, line.jump and (line.epoch in jumped or line is applied[-1]), line.digest
        )
        for line in applied
    ]


def _lines(path):
    for text in path.read_bytes().splitlines():
        # The last line of a life may be cut; whatever else is no JSON shows up as trouble.
        try:
            yield _decode(text)
        except msgspec.MsgspecError:
            continue
