"""Keep the cluster's metadata current inside your own program, and act when it changes.

Start a cluster with `ringlog up`, then: python examples/follow.py http://127.0.0.1:7400 12
"""

from __future__ import annotations

import asyncio
import sys

import ringlog
from log.listeners import Change


def changed(change: Change) -> None:
    print(f"epoch {change.metadata.epoch}: {', '.join(sorted(change.components))}")


async def main(url: str, until: int) -> None:
    async with ringlog.follow(url) as cluster:
        cluster.listen(changed)
        await cluster.reached(until, timeout_s=60.0)
        nodes = cluster.metadata.directory.nodes
        print(f"{len(nodes)} nodes at epoch {cluster.metadata.epoch}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
