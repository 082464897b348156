"""`ringlog cms`: one CMS process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ringlog.commands.ending import Exit, end
from ringlog.commands.options import JsonOption


def cms(
    *,
    dsn: Annotated[
        str | None,
        typer.Option(
            "--postgres-dsn",
            envvar="RINGLOG_POSTGRES_DSN",
            help="The Postgres that keeps the log; the variable keeps a password out of sight.",
            show_default=False,
        ),
    ] = None,
    listen: Annotated[
        str,
        typer.Option(envvar="RINGLOG_LISTEN", help="HOST:PORT, shared with other CMS processes."),
    ] = "127.0.0.1:7400",
    own_listen: Annotated[
        str,
        typer.Option(envvar="RINGLOG_OWN_LISTEN", help="HOST:PORT of this process alone."),
    ] = "127.0.0.1:7401",
    name: Annotated[
        str, typer.Option(envvar="RINGLOG_NAME", help="Its name in entries and logs.")
    ] = "cms-1",
    tokens: Annotated[
        Path | None,
        typer.Option(
            "--tokens-file",
            envvar="RINGLOG_TOKENS_FILE",
            help="A token per role, as JSON.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run one CMS process until SIGTERM; it logs JSON lines, with or without --json.

    Example: RINGLOG_POSTGRES_DSN=postgresql://user@db/ringlog ringlog cms --name cms-2
    """
    del as_json
    if dsn is None:
        raise end(
            "A CMS needs a Postgres: set RINGLOG_POSTGRES_DSN, or run all with `ringlog up`.",
            Exit.WRONG_USE,
        )
    import os
    import sys

    settings = {
        "RINGLOG_POSTGRES_DSN": dsn,
        "RINGLOG_LISTEN": listen,
        "RINGLOG_OWN_LISTEN": own_listen,
        "RINGLOG_NAME": name,
    }
    if tokens is not None:
        settings["RINGLOG_TOKENS_FILE"] = str(tokens.absolute())
    command = [sys.executable, "-m", "services.cms"]
    # In place of this process, so that whoever started it signals the CMS itself.
    os.execve(sys.executable, command, {**os.environ, **settings})  # noqa: S606 ours
