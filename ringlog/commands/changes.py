"""`ringlog join`, `leave`, `move` and `replace`: sequences, from their start to their end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ringlog.commands.change_options import (
    AcceptLossOption,
    ActorOption,
    DeadOption,
    ForceOption,
    NewTokensOption,
    NodeArgument,
    NoWaitOption,
    OldNodeArgument,
    ReasonOption,
    TimeoutOption,
    TokensOption,
)
from ringlog.commands.options import JsonOption, StateDirOption, TokenOption, UrlOption

if TYPE_CHECKING:
    # At run time it comes when a verb runs, so that --help stays quick.
    from ringlog.commands.changing import Manner


def join(  # noqa: PLR0913 one parameter per option
    node: NodeArgument,
    *,
    tokens: TokensOption = None,
    dead: DeadOption = None,
    accept_loss: AcceptLossOption = None,
    no_wait: NoWaitOption = False,
    timeout_s: TimeoutOption = None,
    actor: ActorOption = None,
    reason: ReasonOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring a registered node into the ring, and wait until it owns its ranges.

    Example: ringlog join node-4 --reason "more room"
    """
    from ringlog.commands.changing import change
    from ringlog.commands.proposing import Asked

    asked = Asked(
        kind="PrepareJoin",
        node=node,
        tokens=tokens,
        dead=tuple(dead or ()),
        accept_loss=accept_loss,
    )
    change(asked, (state_dir, url, token), _manner(no_wait, timeout_s, actor, reason, as_json))


def leave(  # noqa: PLR0913 one parameter per option
    node: NodeArgument,
    *,
    force: ForceOption = False,
    dead: DeadOption = None,
    accept_loss: AcceptLossOption = None,
    no_wait: NoWaitOption = False,
    timeout_s: TimeoutOption = None,
    actor: ActorOption = None,
    reason: ReasonOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a node hand over all it owns, and wait until it is out. One that is dead is removed.

    Example: ringlog leave node-3 --dead node-3
    """
    from ringlog.commands.changing import change
    from ringlog.commands.proposing import Asked

    asked = Asked(
        kind="PrepareLeave",
        node=node,
        force=force,
        dead=tuple(dead or ()),
        accept_loss=accept_loss,
    )
    change(asked, (state_dir, url, token), _manner(no_wait, timeout_s, actor, reason, as_json))


def move(  # noqa: PLR0913 one parameter per option
    node: NodeArgument,
    *,
    tokens: NewTokensOption,
    dead: DeadOption = None,
    accept_loss: AcceptLossOption = None,
    no_wait: NoWaitOption = False,
    timeout_s: TimeoutOption = None,
    actor: ActorOption = None,
    reason: ReasonOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a node other tokens, and wait until it owns their ranges.

    Example: ringlog move node-2 --tokens 16
    """
    from ringlog.commands.changing import change
    from ringlog.commands.proposing import Asked

    asked = Asked(
        kind="PrepareMove",
        node=node,
        tokens=tokens,
        dead=tuple(dead or ()),
        accept_loss=accept_loss,
    )
    change(asked, (state_dir, url, token), _manner(no_wait, timeout_s, actor, reason, as_json))


def replace(  # noqa: PLR0913 one parameter per option
    old: OldNodeArgument,
    *,
    new: Annotated[str, typer.Option("--with", help="The registered node that takes its tokens.")],
    dead: DeadOption = None,
    accept_loss: AcceptLossOption = None,
    no_wait: NoWaitOption = False,
    timeout_s: TimeoutOption = None,
    actor: ActorOption = None,
    reason: ReasonOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a registered node take the place of another, which may be dead, and wait for it.

    Example: ringlog replace node-2 --with node-5 --dead node-2
    """
    from ringlog.commands.changing import change
    from ringlog.commands.proposing import Asked

    asked = Asked(
        kind="PrepareReplace",
        node=new,
        replaced=old,
        dead=tuple(dead or ()),
        accept_loss=accept_loss,
    )
    change(asked, (state_dir, url, token), _manner(no_wait, timeout_s, actor, reason, as_json))


def _manner(
    no_wait: bool, timeout_s: float | None, actor: str | None, reason: str | None, as_json: bool
) -> Manner:
    from ringlog.commands.changing import Manner

    return Manner(
        wait=not no_wait, timeout_s=timeout_s, actor=actor, reason=reason, as_json=as_json
    )
