"""Waiting for nodes to come and go, on a terminal: what is said in the end stays there."""

import fcntl
import os
import sys
import threading
import time
from contextlib import suppress

import pytest
import typer

from ringlog.commands.asking import talking
from ringlog.commands.wishing import wished
from services.local.state import state_dir
from services.local.wishes import Desk
from tests.scripted import scripted

ERASE_LINE = "\x1b[2K"


@pytest.fixture
def state(tmp_path):
    """A state directory whose supervisor begins whatever is wished for, and does not end it."""
    found = state_dir(tmp_path)
    found.lock.write_text(str(os.getpid()))
    desk, is_over = Desk(found), threading.Event()

    def take():
        while (wish := desk.new_wish()) is None and not is_over.is_set():
            time.sleep(0.01)
        if wish is not None:
            desk.take(wish, ["node-1"])
            desk.say("starting a node")

    thread = threading.Thread(target=take)
    with found.lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        thread.start()
        yield found
        is_over.set()
        thread.join()


def test_who_waits_no_longer_than_a_while_reads_that_it_goes_on(state, monkeypatch):
    terminal, its_end = os.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(its_end, "w", buffering=1) as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        with (
            scripted() as cluster,
            talking(None, cluster.url, None) as talk,
            pytest.raises(typer.Exit) as ended,
        ):
            wished(state, 2, talk, timeout_s=0.5, as_json=False)
    shown = b""
    # It reads nothing more once the last who writes there is gone.
    with suppress(OSError):
        while part := os.read(terminal, 4096):
            shown += part
    os.close(terminal)

    assert ended.value.exit_code == 1
    said = shown.decode().rpartition(ERASE_LINE)[2]
    assert "Not done yet (starting a node). Nodes go on joining and leaving" in said
