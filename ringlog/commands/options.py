"""Options that verbs have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_STATE_DIR = Path(".state")

StateDirOption = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        help="The folder of a cluster that `ringlog up` runs; .state in this folder by default.",
        show_default=False,
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="RINGLOG_URL",
        help="Address of a CMS, or several with commas between them.",
        show_default=False,
    ),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="RINGLOG_TOKEN",
        help="Bearer token, where the cluster wants one.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
EpochOption = Annotated[
    int | None,
    typer.Option("--at", min=0, help="A past epoch; the newest by default.", show_default=False),
]
