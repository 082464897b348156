"""The command in this process, put together once: typer takes longer for that than most verbs."""

from __future__ import annotations

import sys

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from ringlog.main import app

COMMAND = typer.main.get_command(app)


class Ran(msgspec.Struct, frozen=True):
    exit_code: int
    output: str


def run(*words: str, **environment: str | None) -> Ran:
    with CliRunner().isolation(env=environment) as (_, _, output):
        code = _code(words)
        sys.stdout.flush()
        sys.stderr.flush()
        return Ran(code, output.getvalue().decode())


def _code(words: tuple[str, ...]) -> int:
    with pytest.raises(SystemExit) as ended:
        COMMAND.main(words, prog_name="ringlog")
    assert isinstance(ended.value.code, int)
    return ended.value.code
