"""`ringlog owners`: who reads and who writes a key."""

from __future__ import annotations

from typing import Annotated

import typer

from ringlog.commands.completing import keyspace_names
from ringlog.commands.options import (
    EpochOption,
    JsonOption,
    StateDirOption,
    TokenOption,
    UrlOption,
)
from ringlog.commands.printing import print_json
from ringlog.commands.saying import say


def owners(  # noqa: PLR0913 one parameter per option
    keyspace: Annotated[
        str,
        typer.Argument(help="KEYSPACE, or KEYSPACE.TABLE.", autocompletion=keyspace_names),
    ],
    key: Annotated[
        str | None, typer.Argument(help="A key, as the table has it.", show_default=False)
    ] = None,
    *,
    key_token: Annotated[
        int | None, typer.Option("--of-token", help="A token instead.", show_default=False)
    ] = None,
    at: EpochOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which nodes read and which write a key, now or at a past epoch.

    Example: ringlog owners shop.orders 42 --at 17
    """
    from ringlog.commands.asking import talking

    name, _, table = keyspace.partition(".")
    query = {"keyspace": name, "table": table or None, "key": key, "token": key_token, "at": at}
    with talking(state_dir, url, token) as talk:
        answer = talk.get("/v1/owners", query)
        names = talk.roster()
    if as_json:
        print_json(answer)
        return
    say(f"token {answer['token']} of {answer['keyspace']} at epoch {answer['epoch']}")
    for role in ("readers", "writers"):
        since = answer[f"{role}_epoch"]
        told = names.labels(answer[role]) or "nobody"
        say(f"{role}: {told}" + ("" if since is None else f" (since epoch {since})"))
