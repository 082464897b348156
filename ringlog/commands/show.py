"""`ringlog show`: a component of the metadata, now or at a past epoch."""

from __future__ import annotations

from typing import Annotated

import typer

from ringlog.commands.completing import component_names
from ringlog.commands.ending import Exit, end
from ringlog.commands.finding import cluster
from ringlog.commands.options import (
    EpochOption,
    JsonOption,
    StateDirOption,
    TokenOption,
    UrlOption,
)
from ringlog.commands.printing import print_json, print_view


def show(
    component: Annotated[
        str,
        typer.Argument(
            help="cluster, directory, schema, ring, placements, locks, sequences, sessions, cms or "
            "extensions.",
            autocompletion=component_names,
        ),
    ],
    *,
    at: EpochOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a component of the metadata.

    Example: ringlog show placements --at 42
    """
    from metadata.cluster import COMPONENTS

    if component not in COMPONENTS:
        known = ", ".join(COMPONENTS)
        raise end(f"There is no component {component!r}: choose of {known}.", Exit.WRONG_USE)
    with cluster(state_dir, url, token) as client:
        view = client.component(component, at)
    if as_json:
        print_json(view)
    else:
        print_view(view)
