"""A log that cannot be written costs its lines, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")
SAY = "import structlog; structlog.get_logger().warning('a line'); print('goes on')"
TO_STDERR = "from services.logging import log_to_stderr; log_to_stderr()"
TO_FILE = (
    "from pathlib import Path; from services.local.lifecycle import log_to; "
    f"log_to(Path({str(FULL)!r}))"
)


@pytest.mark.parametrize("prepare", [TO_STDERR, TO_FILE], ids=["a process", "its supervisor"])
def test_a_process_goes_on_when_the_disk_of_its_log_is_full(prepare):
    with FULL.open("w") as full:
        process = subprocess.run(
            [sys.executable, "-c", f"{prepare}; {SAY}; {SAY}"],
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
            check=False,
        )

    assert process.stdout == "goes on\ngoes on\n"
