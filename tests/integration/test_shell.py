"""`ringlog shell` as a process: from options, from a script, from a terminal, of a live cluster."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys

import pytest

from tests.archives import archived, committed
from tests.golden.history import history as golden
from tests.integration.test_cms_reads import populated
from tests.integration.test_cms_serving import served
from transformations.extensions import SetExtension

TIMEOUT_S = 60
COMMAND = (sys.executable, "-c", "from ringlog.main import main; main()", "shell")


def environment():
    return {k: v for k, v in os.environ.items() if not k.startswith("RINGLOG_")}


def run(*words, script=None):
    return subprocess.run(
        [*COMMAND, *map(str, words)],
        input=script or "",
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=environment(),
        check=False,
    )


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    scribe = golden()
    last = committed(SetExtension(name="evil", value="\x1b[2Jgone"), scribe.applied)
    entries = [*scribe.entries, last.sealed]
    return archived(tmp_path_factory.mktemp("shell") / "archive", entries, snapshots={20, 40})


def test_lines_from_options(archive):
    done = run("--archive", archive, "--at", 24, "-c", "cd /nodes/4", "-c", "cat state")

    assert (done.returncode, done.stdout) == (0, "bootstrapping\n"), done.stderr


def test_lines_from_a_script_as_json(archive):
    script = "# who was in\nls /nodes\nat 25\ncat /nodes/4/state\n"
    done = run("--archive", archive, "--at", 24, "--json", script=script)

    assert done.returncode == 0, done.stderr
    plain = [json.loads(line) for line in done.stdout.splitlines()]
    assert plain == [None, ["1", "2", "3", "4", "5", "6", "7"], 25, "joined"]


def test_a_script_ends_at_the_first_line_that_cannot_be_answered(archive):
    done = run("--archive", archive, script="pwd\nls /nowhere\npwd\n")

    assert (done.returncode, done.stdout) == (2, "/\n")
    assert done.stderr == "There is no /nowhere at epoch 65.\n"


def test_what_is_in_the_log_does_not_steer_the_terminal(archive):
    done = run("--archive", archive, "-c", "cat /extensions/evil/value")

    assert done.stdout == "\ufffd[2Jgone\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--archive", "nowhere"), 1, "not an archive"),
        (("--archive", "{archive}", "--at", "66"), 2, "it ends at 65"),
    ],
)
def test_wrong_use(archive, words, code, said):
    done = run(*(word.format(archive=archive) for word in words), "-c", "ls")

    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_damaged_archive_is_told_in_a_sentence(archive, tmp_path):
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", archive, copy], check=True)
    (segment,) = (copy / "segments").iterdir()
    segment.write_bytes(segment.read_bytes()[:-100])

    done = run("--archive", copy, "--at", 10, "-c", "ls")

    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr


def test_a_person_at_a_terminal(archive):
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "--archive", str(archive), "--at", "24"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environment(), "TERM": "dumb"},
    ) as process:
        os.close(theirs)
        os.write(ours, b"frob\ncat /nodes/4/sta\t\nexit\n")
        said = b""
        while chunk := _read(ours):
            said += chunk
        assert process.wait(TIMEOUT_S) == 0
    os.close(ours)
    text = said.decode()
    assert "corner shop@24 />" in text
    assert "There is no command frob" in text
    assert "bootstrapping" in text, text


def _read(terminal):
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""  # The other side has closed.


async def test_a_running_cluster():
    async with served() as client:
        await populated(client)
        url = str(client.session._base_url)
        done = await asyncio.to_thread(run, "--url", url, "-c", "find state=*", "-c", "at tip")

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "epoch 9"
    assert "/directory/nodes/1/state" in done.stdout
