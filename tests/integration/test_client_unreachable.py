"""Verbs of a cluster that is not there: they end soon, with a sentence and exit code 3."""

import socket
import time

import pytest
from typer.testing import CliRunner

from ringlog.commands.finding import DEADLINE_S
from ringlog.main import app


@pytest.mark.parametrize("words", [("status",), ("log",), ("show", "directory")])
def test_where_nobody_listens_is_soon_exit_code_3(words):
    with socket.socket() as taken:
        # Bound and not listening: whoever connects is refused, and nobody else can take it.
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        started_s = time.monotonic()
        result = CliRunner().invoke(app, [*words, "--url", url], env={"RINGLOG_TOKEN": None})

    assert result.exit_code == 3
    assert "takes no connection" in result.output
    assert time.monotonic() - started_s < DEADLINE_S / 2
