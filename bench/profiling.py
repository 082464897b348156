"""Where the CPU time of a CMS process goes: each runs under cProfile while it is loaded."""

from __future__ import annotations

import cProfile
import os
import pstats
import sys
import tempfile
from pathlib import Path
from time import process_time

from rich.console import Console

from bench.core import printed
from bench.load import Load, System, generated
from bench.processes import FOLDER, roles, serving
from services.cms.__main__ import main as cms_main
from services.local.ports import HeldPorts

CONNECTIONS = 64
ROWS = 30


async def bench_profile(console: Console, state: Path, cms: int, seconds: float) -> None:
    """Profiling slows everything down; only the shares mean something."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-", dir=state) as scratch,
        HeldPorts() as ports,
    ):
        folder = Path(scratch)
        command = (sys.executable, "-m", "bench.profiling")
        async with serving(folder, ports, cms, command=command) as service:
            load = Load(
                system=System.RINGLOG,
                port=service.port,
                connections=CONNECTIONS,
                seconds=seconds,
            )
            measured = await generated(load)
            sequencing = await roles(service)
        console.print(f"{measured.per_second:,.0f} commits/s under the profiler")
        for number, is_sequencing in enumerate(sequencing, start=1):
            role = "sequencing" if is_sequencing else "forwarding"
            _show(console, folder / f"cms-{number}.profile", f"cms-{number}, {role}")


def _show(console: Console, path: Path, title: str) -> None:
    stats = pstats.Stats(str(path))
    total: float = stats.total_tt  # type: ignore[attr-defined] # not in the stubs
    table = printed(f"{title}: {total:.1f} s", "own %", "with callees %", "calls", "function")
    rows = sorted(stats.stats.items(), key=lambda row: -row[1][2])  # type: ignore[attr-defined] # ditto
    for (file, line, name), (_, calls, own, whole, _) in rows[:ROWS]:
        where = f"{'/'.join(Path(file).parts[-2:])}:{line} {name}" if line else name
        table.add_row(f"{100 * own / total:.1f}", f"{100 * whole / total:.1f}", str(calls), where)
    console.print(table)


def main() -> None:
    """A CMS process that leaves its profile behind."""
    path = Path(os.environ[FOLDER]) / f"{os.environ['RINGLOG_NAME']}.profile"
    profile = cProfile.Profile(process_time)
    try:
        profile.runcall(cms_main)
    finally:
        profile.dump_stats(path)


if __name__ == "__main__":
    main()
