"""Run every benchmark, one process each, so that none warms up for the next."""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = ("core", "log", "fanout", "audit", "movement", "console")


def main() -> int:
    failed = [
        name for name in BENCHMARKS if subprocess.call([sys.executable, "-m", f"bench.{name}"])
    ]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
