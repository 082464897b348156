"""Ctrl-C: a verb that was not done must not look as if it were."""

import signal
import socket
import subprocess
import sys

import pytest

COMMAND = (sys.executable, "-c", "from ringlog.main import main; main()")
TIMEOUT_S = 60.0


def interrupted(*words):
    """What a verb says and ends with, interrupted while a CMS takes its time to answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(TIMEOUT_S)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        process = subprocess.Popen(
            [*COMMAND, *words, "--url", url],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            taken, _ = listening.accept()
            with taken:
                taken.settimeout(TIMEOUT_S)
                assert taken.recv(1)
                process.send_signal(signal.SIGINT)
                said, _ = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
            process.wait()
    return process.returncode, said


@pytest.mark.parametrize("words", [("status",), ("show", "directory"), ("nodes",)])
def test_what_was_not_answered_is_neither_done_nor_refused(words):
    code, said = interrupted(*words)

    assert code == 130
    assert "Interrupted." in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "words", [("commit", "SetExtension", "name=a", "value=b"), ("schema", "drop-table", "a.b")]
)
def test_a_commit_that_was_sent_may_have_been_made(words):
    code, said = interrupted(*words)

    assert code == 130
    assert "not known whether the commit was made" in said


@pytest.mark.parametrize("words", [("log", "--follow", "--after", "0"), ("sequences", "--watch")])
def test_what_goes_on_until_then_is_done(words):
    code, said = interrupted(*words)

    assert (code, said) == (0, "")
