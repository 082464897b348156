"""What cannot be taken back is asked first, where there is somebody to ask."""

import os
import pty
import subprocess
import sys

import pytest

COMMAND = (sys.executable, "-c", "from ringlog.main import main; main()")
TIMEOUT_S = 60.0
# Refused before anybody is asked anything over the network.
NOWHERE = ("--url", "nowhere")
DROPS = [("schema", "drop-keyspace", "shop"), ("schema", "drop-table", "shop.orders")]


def on_a_terminal(*words, typed):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        (*COMMAND, *words, *NOWHERE),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    os.close(theirs)
    os.write(ours, typed)
    said, _ = process.communicate(timeout=TIMEOUT_S)
    os.close(ours)
    return process.returncode, said


@pytest.mark.parametrize("words", DROPS)
def test_on_a_terminal_the_answer_decides(words):
    code, said = on_a_terminal(*words, typed=b"n\n")
    assert code == 1
    assert f"{words[-1]} with" in said
    assert "Nothing was changed." in said

    code, said = on_a_terminal(*words, typed=b"y\n")
    assert code == 2
    assert "http://HOST:PORT" in said


@pytest.mark.parametrize("words", DROPS)
def test_who_says_yes_beforehand_is_not_asked(words):
    code, said = on_a_terminal(*words, "--yes", typed=b"")

    assert code == 2
    assert "Drop" not in said


@pytest.mark.parametrize("words", DROPS)
def test_without_a_terminal_nobody_is_asked(words):
    done = subprocess.run(
        (*COMMAND, *words, *NOWHERE),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert done.returncode == 2
    assert "Drop" not in done.stderr
