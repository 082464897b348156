"""Apache Kafka's jars, fetched once for everybody on this machine.

They come through the Ivy that lies inside PySpark, from the registry that Ivy is set up for. What
arrives is believed only if it is, byte for byte, what the list beside this module says.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from importlib import resources
from pathlib import Path

import msgspec

from services.local.command import run
from services.local.failure import LocalServerError
from services.local.kafka_ivy import VERSION, retrieved
from services.local.turn import turn

SYNC_TIMEOUT_S = 60.0

_FOLDER = f"kafka-{VERSION}"
_LIST = "kafka_jars.txt"


class Jar(msgspec.Struct, frozen=True):
    sha256: str
    size_bytes: int


Retrieve = Callable[[Path], Awaitable[None]]
"""Puts the jars into an empty folder, whatever their worth."""


def default_cache() -> Path:
    """The folder of what can be fetched again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ringlog"


async def jars(cache: Path | None = None, retrieve: Retrieve | None = None) -> Path:
    """The folder with Kafka's jars, all of them and no others; fetched if need be.

    Whoever dies while fetching leaves a folder of another name, which the next one removes.
    """
    cache = cache or default_cache()
    folder = cache / _FOLDER
    if _looks_complete(folder):
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalServerError(
            f"{cache} cannot be made: {error.strerror}. Set XDG_CACHE_HOME to a folder of yours."
        ) from error
    async with turn(cache):
        if not _looks_complete(folder):
            await _fetch(cache, folder, retrieve or retrieved)
    return folder


def check(folder: Path) -> None:
    """Refuse jars that are not exactly those of the list."""
    expected = _expected()
    found = {path.name: path for path in folder.iterdir()}
    if unlike := sorted(expected.keys() ^ found.keys()):
        raise LocalServerError(
            f"Kafka {VERSION} was fetched with other jars than it should have: {', '.join(unlike)}."
        )
    for name, jar in expected.items():
        if sha256(found[name].read_bytes()).hexdigest() != jar.sha256:
            raise LocalServerError(
                f"{name} is not the jar that Kafka {VERSION} was released with: its checksum "
                "differs. Look at the registry that Ivy fetches from."
            )


async def _fetch(cache: Path, folder: Path, retrieve: Retrieve) -> None:
    unfinished = _unfinished_folder(cache)
    try:
        await retrieve(unfinished)
        check(unfinished)
        await run(("sync", "--file-system", str(unfinished)), timeout_s=SYNC_TIMEOUT_S)
        _put_in_place(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _unfinished_folder(cache: Path) -> Path:
    prefix = f"{_FOLDER}.unfinished-"
    for abandoned in cache.glob(f"{prefix}*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=prefix, dir=cache))


def _put_in_place(unfinished: Path, folder: Path) -> None:
    unfinished.chmod(0o755)
    # Incomplete, or of another list. A broker that runs keeps the files it has opened.
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


def _looks_complete(folder: Path) -> bool:
    """By names and sizes: all bytes were looked at when they came."""
    try:
        found = {path.name: path.stat().st_size for path in folder.iterdir()}
    except FileNotFoundError:
        return False
    return found == {name: jar.size_bytes for name, jar in _expected().items()}


def _expected() -> Mapping[str, Jar]:
    listed = resources.files("services.local").joinpath(_LIST).read_text(encoding="ascii")
    lines = (line.split() for line in listed.splitlines())
    return {name: Jar(checksum, int(size)) for checksum, size, name in lines}


if __name__ == "__main__":
    try:
        asyncio.run(jars())
    except LocalServerError as error:
        sys.exit(str(error))
