"""Options of the verbs that change who owns what."""

from __future__ import annotations

from typing import Annotated

import typer

from ringlog.commands.completing import node_names, sequence_numbers

NodeArgument = Annotated[
    str,
    typer.Argument(
        help="A node by its number, name or address.",
        show_default=False,
        autocompletion=node_names,
    ),
]
OldNodeArgument = Annotated[
    str,
    typer.Argument(help="The node that goes: number, name or address.", autocompletion=node_names),
]
SequenceArgument = Annotated[
    int,
    typer.Argument(
        min=1,
        help="The epoch of its Prepare.",
        show_default=False,
        autocompletion=sequence_numbers,
    ),
]
TokensOption = Annotated[
    str | None,
    typer.Option(
        "--tokens",
        help="How many, or which with commas (one alone: '7,'); as many as others by default.",
        show_default=False,
    ),
]
NewTokensOption = Annotated[
    str,
    typer.Option(
        "--tokens", help="How many, or which with commas (one alone: '7,').", show_default=False
    ),
]
DeadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dead",
        help="A node that will not answer any more: no voter and no source. May be repeated.",
        show_default=False,
        autocompletion=node_names,
    ),
]
AcceptLossOption = Annotated[
    str | None,
    typer.Option(
        "--accept-loss",
        help="Go on although rows may be lost; the sentence is kept in the log.",
        show_default=False,
    ),
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Even if fewer nodes than replicas stay.")
]
NoWaitOption = Annotated[bool, typer.Option("--no-wait", help="Start it and return at once.")]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout", min=0, help="Wait so many seconds at most; it goes on.", show_default=False
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
ActorOption = Annotated[
    str | None, typer.Option("--actor", help="Who; kept in the log.", show_default=False)
]
ReasonOption = Annotated[
    str | None, typer.Option("--reason", help="Why; kept in the log.", show_default=False)
]
RateOption = Annotated[
    float | None,
    typer.Option(
        "--rows-per-second",
        min=0.001,
        help="How fast rows move; by default as fast as past ones did.",
        show_default=False,
    ),
]
