"""On a terminal, bars come and go; what a verb says in the end is still there."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.scripted import JOINING, nodes, scripted

COMMAND = (sys.executable, "-c", "from ringlog.main import main; main()")
BAR = "━"
ERASE_LINE = "\x1b[2K"


@pytest.fixture
def cluster():
    with scripted() as server:
        server.answers["GET /v1/nodes"] = nodes(server, 4)
        server.answers["GET /v1/sequences/42"] = lambda _: JOINING
        yield server


def resumed(cluster, *options, interrupt):
    """What stands on the terminal, from the last line on that was wiped, and the exit code."""
    terminal, its_end = os.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    words = (*COMMAND, "resume", "42", "--url", cluster.url, *options)
    process = subprocess.Popen(
        words, stdin=its_end, stdout=its_end, stderr=its_end, env=environment
    )
    os.close(its_end)
    shown = ""
    # It reads nothing more once the last who writes there is gone.
    with suppress(OSError):
        while part := os.read(terminal, 65536):
            shown += part.decode(errors="replace")
            if interrupt and BAR in shown:
                process.send_signal(signal.SIGINT)
                interrupt = False
    os.close(terminal)
    return shown.rpartition(ERASE_LINE)[2], process.wait()


def says_how_to_wait_again(left):
    return "It goes on without this command: `ringlog resume 42` waits for it" in left


def test_who_waits_no_longer_than_a_while_reads_that_it_goes_on(cluster):
    left, code = resumed(cluster, "--timeout", "0.1", interrupt=False)

    assert code == 1
    assert "Sequence 42 is not over yet. " in left
    assert says_how_to_wait_again(left)


def test_who_stops_waiting_reads_that_it_goes_on(cluster):
    left, code = resumed(cluster, interrupt=True)

    assert code == 1
    assert "Not waiting any more. " in left
    assert says_how_to_wait_again(left)
