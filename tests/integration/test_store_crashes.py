"""A process that is killed at any moment has lost nothing that it acknowledged."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import threading

import pytest

from metadata.tokens import FULL
from store.rows import newest
from tests.integration.store_writer import GROUPS, group_rows
from tests.store_model import TABLE, scanned, store_in

POINTS = [
    "flush-written",
    "flush-published",
    "flush-forgetting",
    "compaction-written",
    "compaction-published",
    "sweep-deleted",
]
ACKNOWLEDGED_MAX = 4000
TIMEOUT_S = 60.0


def killed(folder, *, seed, timestamp, point="-", passes=0, after=None):
    """Run a writer until it kills itself at the point, or is killed after so many writes."""
    arguments = [str(folder), str(seed), str(timestamp), point, str(passes)]
    command = [sys.executable, "-m", "tests.integration.store_writer", *arguments]
    acknowledged = []
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        late = threading.Timer(TIMEOUT_S, process.kill)
        late.start()
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith(b"\n"):
                acknowledged.append(tuple(map(int, line.split())))
            if len(acknowledged) == (after or ACKNOWLEDGED_MAX):
                process.kill()
        late.cancel()
    assert process.returncode == -signal.SIGKILL
    assert len(acknowledged) < ACKNOWLEDGED_MAX, f"it never came by {point}"
    return acknowledged


async def check(folder, least, seed):
    """Every group is there as one of its writes left it, and no older than acknowledged."""
    rng = random.Random(seed)
    async with store_in(folder) as store:
        await store.sweep_orphans()
        await store.verify(TABLE, await store.segments(TABLE.id, [FULL]))
        found = await scanned(store, rows_max=rng.choice([150, 2000]))
        reached = 0
        for group in range(GROUPS):
            rows = [item for item in found if item.key == f"group{group}"]
            stamps = {item.timestamp for item in rows}
            assert len(stamps) <= 1, "half of a write is there"
            (stamp,) = stamps or {0}
            assert stamp >= least.get(group, 0), "an acknowledged write is lost"
            assert rows == (group_rows(group, stamp) if stamp else [])
            for item in rows[:1]:
                assert await store.get(TABLE, item.token, item.key) == newest([item])
            reached = max(reached, stamp)
        await store.sweep()
        listed = {item.path for item in await store.segments(TABLE.id, [FULL])}
    on_disk = {str(path.relative_to(folder / "data")) for path in folder.rglob("*.parquet")}
    assert on_disk == listed
    return reached


@pytest.mark.parametrize("seed", [1])
async def test_nothing_acknowledged_is_lost_whenever_the_process_is_killed(tmp_path, seed):
    print(f"seed {seed}")
    rng = random.Random(seed)
    rounds = [{"point": point, "passes": rng.randrange(4)} for point in POINTS * 2]
    rounds += [{"after": rng.randrange(1, 300)} for _ in range(6)]
    rng.shuffle(rounds)
    timestamp = 1
    least: dict[int, int] = {}
    for turn, way in enumerate(rounds):
        print(f"round {turn}: {way}")
        acknowledged = await asyncio.to_thread(
            killed, tmp_path, seed=seed + turn, timestamp=timestamp, **way
        )
        least |= dict(acknowledged)
        timestamp = await check(tmp_path, least, seed) + 1


def test_a_disk_without_room_is_named_and_nothing_acknowledged_is_lost(tmp_path):
    """A limit on the size of files stands for the disk; afterwards everything goes on."""
    command = [sys.executable, "-m", "tests.integration.store_filler", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    assert done.stderr == ""
    assert done.stdout.splitlines() == ["put: DiskFailedError", "flush: DiskFullError", "kept all"]
