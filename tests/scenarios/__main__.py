"""Check the scenarios, or write their expected part anew: `python -m tests.scenarios --rewrite`."""

from __future__ import annotations

import argparse
import sys

from tests.scenarios.script import replayed
from tests.scenarios.test_scenarios import SCRIPTS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.scenarios", description=__doc__)
    parser.add_argument("--rewrite", action="store_true", help="replace what is expected")
    rewrite = parser.parse_args().rewrite
    written = {path: path.read_text() for path in SCRIPTS}
    stale = [path for path, text in written.items() if replayed(text) != text]
    for path in stale:
        print(f"{'rewritten' if rewrite else 'differs'}: {path.name}")
        if rewrite:
            path.write_text(replayed(written[path]))
    return 0 if rewrite or not stale else 1


if __name__ == "__main__":
    sys.exit(main())
