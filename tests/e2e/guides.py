"""Guides are run: each block of commands, and what the block below says that it prints."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "guides"
TIMEOUT_S = 540
ANYTHING = "…"
# What is fenced as `shell` instead is not run in its turn; docs/guides/README.md says why.
_BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(guide):
    """Each block of commands with what the next block says that it prints."""
    found = _BLOCK.findall(guide.read_text("utf-8"))
    assert found, f"{guide} has nothing to run"
    assert found[0][0] == "sh"
    steps: list[tuple[str, list[str]]] = []
    for kind, body in found:
        if kind == "sh":
            steps.append((body, []))
        else:
            steps[-1][1].extend(body.splitlines())
    return steps


def block_with(guide, text):
    """The one block that is not run in its turn and has this in it, for its own test."""
    found = re.findall(r"^```shell\n(.*?)^```", guide.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (block,) = (each for each in found if text in each)
    return block


def walk(name, folder, *, replaced=None, before_path=""):
    """Type a guide's commands in `folder`; variables that it exports last to its end.

    `replaced` are texts that a test has other values for, such as ports that are free, and
    `before_path` are folders of programs that a reader is told to have.
    """
    others = {k: v for k, v in os.environ.items() if not k.startswith("RINGLOG_")}
    path = os.pathsep.join((str(Path(sys.executable).parent), before_path, os.environ["PATH"]))
    variables = folder / f".{name}.variables"
    variables.write_text("")
    for block, expected in blocks(FOLDER / f"{name}.md"):
        script = block
        for text, value in (replaced or {}).items():
            script = script.replace(text, value)
        done = _typed(
            f'. "{variables}"\n{script}\nexport -p > "{variables}"\n',
            folder,
            {**others, "PATH": path, "EXAMPLES": str(ROOT / "examples")},
        )
        _compare(name, script, done, expected)


def _typed(script, folder, environment):
    # Into a file, because a process that goes on in the background would hold a pipe open.
    output = folder / ".printed"
    with output.open("wb") as file:
        code = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_S,
            check=False,
        ).returncode
    return code, output.read_text("utf-8")


def _compare(name, script, done, expected):
    code, printed = done
    assert code == 0, f"{name}: exit code {code}\n{script}\n{printed}"
    assert "Traceback" not in printed, f"{name}\n{printed}"
    flat = " ".join(printed.split())
    for line in expected:
        parts = [re.escape(" ".join(part.split())) for part in line.split(ANYTHING)]
        pattern = ".*?".join(part.replace(r"\ ", r"\s*") for part in parts)
        assert re.search(pattern, flat), f"{name}: {line!r} is not in\n{script}\n{printed}"
