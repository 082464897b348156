"""`ringlog repair`: bringing what any owner has to all of them."""

from __future__ import annotations

from typing import Annotated

import typer

from ringlog.commands.change_options import (
    ActorOption,
    NoWaitOption,
    ReasonOption,
    TimeoutOption,
)
from ringlog.commands.completing import node_names
from ringlog.commands.ending import Exit, end
from ringlog.commands.options import JsonOption, StateDirOption, TokenOption, UrlOption
from ringlog.commands.saying import say


def repair(  # noqa: PLR0913 one parameter per option
    node: Annotated[
        str | None,
        typer.Argument(
            help="What this node owns, by its number, name or address; everything by default.",
            show_default=False,
            autocompletion=node_names,
        ),
    ] = None,
    *,
    keyspace: Annotated[
        str | None,
        typer.Option("--keyspace", help="Only what it owns of this keyspace.", show_default=False),
    ] = None,
    no_wait: NoWaitOption = False,
    timeout_s: TimeoutOption = None,
    actor: ActorOption = None,
    reason: ReasonOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring what any owner of a range has to all of them, and wait until that is done.

    Every owner has to answer. A node that was set back serves again once all it owns is repaired;
    its old rows go where the others have all that was acknowledged.

    Example: ringlog repair node-2
    """
    from ringlog.commands.asking import talking
    from ringlog.commands.changing import Manner
    from ringlog.commands.naming import NamingError
    from ringlog.commands.repairing import see_repaired, wanted

    with talking(state_dir, url, token) as talk:
        names = talk.roster()
        try:
            number = None if node is None else names.find(node).id
        except NamingError as error:
            raise end(str(error), Exit.WRONG_USE) from None
        found = wanted(talk.get("/v1/metadata/placements")["placements"], number, keyspace)
        if found is None:
            raise end("There is nothing to repair: no such range has an owner.", Exit.REFUSED)
        for member in names.absent(found.nodes):
            say(f"warning: {member.label} is {member.liveness} and will be waited for.", err=True)
        manner = Manner(
            wait=not no_wait, timeout_s=timeout_s, actor=actor, reason=reason, as_json=as_json
        )
        see_repaired(talk, found, number, names, manner)
