"""`ringlog plan`: what a change of ownership would do, without doing it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ringlog.commands.change_options import (
    AcceptLossOption,
    DeadOption,
    ForceOption,
    NewTokensOption,
    NodeArgument,
    OldNodeArgument,
    RateOption,
    TokensOption,
)
from ringlog.commands.ending import Exit, end
from ringlog.commands.options import JsonOption, StateDirOption, TokenOption, UrlOption

if TYPE_CHECKING:
    # At run time it comes when a verb runs, so that --help stays quick.
    from ringlog.commands.proposing import Asked

plan = typer.Typer(
    name="plan",
    help="Say what a change would move, lock and wait for. Nothing is committed.\n\n"
    "Example: ringlog plan join node-4",
    no_args_is_help=True,
)


@plan.command()
def join(  # noqa: PLR0913 one parameter per option
    node: NodeArgument,
    *,
    tokens: TokensOption = None,
    dead: DeadOption = None,
    accept_loss: AcceptLossOption = None,
    rate: RateOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """What it would mean if a registered node joined.

    Example: ringlog plan join node-4
    """
    from ringlog.commands.proposing import Asked

    asked = Asked(
        kind="PrepareJoin",
        node=node,
        tokens=tokens,
        dead=tuple(dead or ()),
        accept_loss=accept_loss,
    )
    _plan(asked, (state_dir, url, token), rate, as_json=as_json)


@plan.command()
def leave(  # noqa: PLR0913 one parameter per option
    node: NodeArgument,
    *,
    force: ForceOption = False,
    dead: DeadOption = None,
    accept_loss: AcceptLossOption = None,
    rate: RateOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """What it would mean if a node left, or was removed.

    Example: ringlog plan leave node-3 --dead node-3
    """
    from ringlog.commands.proposing import Asked

    asked = Asked(
        kind="PrepareLeave",
        node=node,
        force=force,
        dead=tuple(dead or ()),
        accept_loss=accept_loss,
    )
    _plan(asked, (state_dir, url, token), rate, as_json=as_json)


@plan.command()
def move(  # noqa: PLR0913 one parameter per option
    node: NodeArgument,
    *,
    tokens: NewTokensOption,
    dead: DeadOption = None,
    accept_loss: AcceptLossOption = None,
    rate: RateOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """What it would mean if a node got other tokens.

    Example: ringlog plan move node-2 --tokens 16
    """
    from ringlog.commands.proposing import Asked

    asked = Asked(
        kind="PrepareMove",
        node=node,
        tokens=tokens,
        dead=tuple(dead or ()),
        accept_loss=accept_loss,
    )
    _plan(asked, (state_dir, url, token), rate, as_json=as_json)


@plan.command()
def replace(  # noqa: PLR0913 one parameter per option
    old: OldNodeArgument,
    *,
    new: Annotated[str, typer.Option("--with", help="The registered node that takes its tokens.")],
    dead: DeadOption = None,
    accept_loss: AcceptLossOption = None,
    rate: RateOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """What it would mean if a node took the place of another.

    Example: ringlog plan replace node-2 --with node-5 --dead node-2
    """
    from ringlog.commands.proposing import Asked

    asked = Asked(
        kind="PrepareReplace",
        node=new,
        replaced=old,
        dead=tuple(dead or ()),
        accept_loss=accept_loss,
    )
    _plan(asked, (state_dir, url, token), rate, as_json=as_json)


def _plan(
    asked: Asked,
    where: tuple[Path | None, str | None, str | None],
    rate: float | None,
    *,
    as_json: bool,
) -> None:
    from ringlog.commands.asking import talking
    from ringlog.commands.planning import print_plan
    from ringlog.commands.printing import print_json
    from ringlog.commands.proposing import proposed

    with talking(*where) as talk:
        names = talk.roster()
        transformation = proposed(talk, asked, names)
        body: dict[str, Any] = {"transformation": transformation}
        if rate is not None:
            body["rows_per_s"] = rate
        answer = talk.post("/v1/plan", body)
    refused = answer["outcome"] != "accepted"
    if as_json:
        print_json({"transformation": transformation, **answer})
        if refused:
            raise typer.Exit(Exit.REFUSED)
    elif refused:
        problem = answer["problem"]
        hint = f"; {problem['remedy']}" if problem.get("remedy") else ""
        raise end(f"refused ({problem['code']}): {problem['detail']}{hint}", Exit.REFUSED)
    else:
        print_plan(answer, names)
