"""`ringlog log`: the entries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ringlog.commands.ending import endless
from ringlog.commands.finding import cluster
from ringlog.commands.options import JsonOption, StateDirOption, TokenOption, UrlOption
from ringlog.commands.printing import print_json, print_json_line, print_table, short
from ringlog.commands.saying import say

if TYPE_CHECKING:
    # At run time they come when the verb runs, so that --help stays quick.
    from log.entry import SealedEntry

LIMIT_MAX = 1_000
FIELDS_SHOWN_MAX = 160
COLUMNS = ("epoch", "committed at", "kind", "actor", "reason", "fields")


def log(  # noqa: PLR0913 one parameter per option
    *,
    after: Annotated[
        int | None,
        typer.Option(
            min=0, help="Begin behind this epoch; by default near the end.", show_default=False
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many entries.")] = 100,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with entries as they come, a line each.")
    ] = False,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show entries of the log, each verified against its hash.

    Example: ringlog log --after 10 --follow
    """
    with cluster(state_dir, url, token) as client:
        begin = after if after is not None else max(0, client.status().epoch - limit)
        if follow:
            with endless():
                _print_lines(client.follow(begin), as_json=as_json)
            return
        entries = client.entries(begin, limit=limit)
    if as_json:
        print_json([_json(sealed) for sealed in entries])
    else:
        # A plan may fill pages; --json has all of it.
        rows = ([*row[:-1], _excerpt(short(row[-1]))] for row in map(_row, entries))
        print_table(COLUMNS, rows)


def _print_lines(entries: Iterable[SealedEntry], *, as_json: bool) -> None:
    for sealed in entries:
        if as_json:
            print_json_line(_json(sealed))
        else:
            epoch, moment, *rest = map(short, _row(sealed))
            say("  ".join((f"{epoch:>8}", moment, *rest)))


def _excerpt(text: str) -> str:
    return text if len(text) <= FIELDS_SHOWN_MAX else f"{text[: FIELDS_SHOWN_MAX - 1]}…"


def _json(sealed: SealedEntry) -> dict[str, Any]:
    from encoding.json import entry_json

    return entry_json(sealed.entry, previous_hash=sealed.previous_hash, entry_hash=sealed.hash)


def _row(sealed: SealedEntry) -> list[object]:
    from encoding.json import transformation_json
    from ringlog.commands.moments import clocked

    entry = sealed.entry
    fields = transformation_json(entry.transformation)
    del fields["kind"]
    return [entry.epoch, clocked(entry.committed_at), entry.kind, entry.actor, entry.reason, fields]
