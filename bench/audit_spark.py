"""The audit on Spark as one of the measured works: a process of its own, with so many cores."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from audit.spark import audited_on_spark
from movement.spark import Spark, SparkSettings
from ringlog.commands.audit_replay import opened_archives

KIBIBYTE = 1024


def replay_on_spark(place: Path, *, cores: int) -> dict[str, float]:
    """By the clock on the wall, because several processes work; Spark is up before it starts."""
    return asyncio.run(_replay(place, cores))


async def _replay(place: Path, cores: int) -> dict[str, float]:
    opening = partial(opened_archives, [str(place)])
    spark = Spark(SparkSettings(master=f"local[{cores}]", name="ringlog-bench"))
    try:
        await spark.run("warm", lambda session: session.range(1).count())
        began_s = time.perf_counter()
        report = await spark.run(
            "audit", lambda session: audited_on_spark(session, opening, name=str(place))
        )
        took_s = time.perf_counter() - began_s
        assert report.holds, report.findings
        peaks = [peak_bytes(pid) for pid in _below(os.getpid())]
        return {"took_s": took_s, "peak_bytes": sum(peaks) + peak_bytes(os.getpid())}
    finally:
        await spark.close()


def peak_bytes(process: int | str = "self") -> int:
    """Of this process alone: what `getrusage` says includes the one that it was forked from.

    Nothing of one that has ended.
    """
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    lines = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return sum(int(line.split()[1]) * KIBIBYTE for line in lines)


def _below(process: int) -> Iterator[int]:
    """All processes that it started, and those that they did."""
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        for child in children.read_text(encoding="ascii").split():
            yield int(child)
            yield from _below(int(child))
