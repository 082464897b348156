"""Record what this release writes, or print where the recorded logs lead.

python -m tests.golden v2    writes tests/golden/v2; once released it is never written again
python -m tests.golden       replays every recording, and makes today's history anew
"""

from __future__ import annotations

import sys

from tests.golden.history import history
from tests.golden.recordings import VERSIONS, read_log, record
from tests.golden.scribe import Scribe


def show() -> None:
    for version in VERSIONS:
        scribe = Scribe()
        for sealed in read_log(version):
            scribe.commit(sealed.entry.transformation)
            print(version, sealed.epoch, scribe.metadata.digest.hex())
    for sealed in history().entries:
        print("today", sealed.epoch, sealed.hash.hex())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        record(history(), sys.argv[1])
    else:
        show()
