"""`ringlog bench`: how fast a cluster commits, from where one stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ringlog.commands.commit import say_rejected
from ringlog.commands.ending import Exit, sentences
from ringlog.commands.finding import Found, find
from ringlog.commands.options import JsonOption, StateDirOption, TokenOption, UrlOption
from ringlog.commands.printing import print_json
from ringlog.commands.saying import say
from ringlog.commands.spinning import spinning

if TYPE_CHECKING:
    # At run time they come when the verb runs, so that --help stays quick.
    from client.answers import Rejected
    from ringlog.commands.benching import Measured

SECONDS_MAX = 60
CONNECTIONS_MAX = 256


def bench(
    *,
    seconds: Annotated[
        float, typer.Option(min=0.1, max=SECONDS_MAX, help="How long to commit.")
    ] = 5.0,
    connections: Annotated[
        int, typer.Option(min=1, max=CONNECTIONS_MAX, help="How many commit at the same time.")
    ] = 16,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure commits per second, and how long one takes, by committing for a few seconds.

    It writes to the log: SetExtension on one name for each connection (bench.0, bench.1, …), over
    and over, and ClearExtension in the end. The entries stay in the log for good, the names do not.

    Example: ringlog bench --seconds 5 --connections 16
    """
    import asyncio

    from client.answers import Rejected

    with sentences():
        found = find(state_dir, url, token)
        say(
            f"Commits SetExtension on bench.0 to bench.{connections - 1} for {seconds:g} s and "
            "clears the names afterwards; the entries stay in the log.",
            err=True,
        )
        with spinning("committing"):
            answer = asyncio.run(_measured(found, seconds, connections))
    if isinstance(answer, Rejected):
        say_rejected(answer, as_json=as_json)
        raise typer.Exit(Exit.REFUSED)
    _say(answer, as_json=as_json)


async def _measured(found: Found, seconds: float, connections: int) -> Measured | Rejected:
    from ringlog.commands.benching import measured

    async with found.maker()() as client:
        return await measured(client, seconds=seconds, connections=connections)


def _say(found: Measured, *, as_json: bool) -> None:
    import msgspec

    if as_json:
        print_json(msgspec.structs.asdict(found))
        return
    say(
        f"{found.commits_per_s:,.0f} commits/s, p50 {found.p50_ms:.1f} ms, "
        f"p99 {found.p99_ms:.1f} ms"
    )
    left = found.connections - found.cleared
    kept = f"; {left} names could not be cleared" if left else ""
    say(
        f"{found.commits:,} commits by {found.connections} connections in {found.seconds:.1f} s, "
        f"epochs {found.first} to {found.last}{kept}"
    )
