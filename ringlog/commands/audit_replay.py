"""`ringlog audit replay|bisect`: going through a history epoch by epoch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ringlog.commands.audit_source import (
    AfterOption,
    ArchiveOption,
    UpToOption,
    archived,
    epoch_or_start,
    epoch_or_tip,
    history,
)
from ringlog.commands.ending import Exit, end
from ringlog.commands.options import JsonOption, StateDirOption, TokenOption, UrlOption
from ringlog.commands.printing import print_json, print_table
from ringlog.commands.saying import say

if TYPE_CHECKING:
    # At run time they come when the verb runs, so that --help stays quick.
    from audit.history import History
    from audit.replay import Report
    from metadata.epoch import Epoch


SparkOption = Annotated[
    str | None,
    typer.Option(
        "--spark",
        metavar="MASTER",
        help="Replay the stretches between snapshots at once, on this Spark: local[2], "
        "spark://host:7077. Every worker must have ringlog and see the archive.",
        show_default=False,
    ),
]


def replay(  # noqa: PLR0913 one parameter per option
    *,
    after: AfterOption = None,
    up_to: UpToOption = None,
    notes: Annotated[
        bool, typer.Option("--notes", help="Print notes too, not only errors and warnings.")
    ] = False,
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough",
            help="Check all metadata at every epoch, and not only what its entry changed; this "
            "takes longer.",
        ),
    ] = False,
    spark: SparkOption = None,
    archive: ArchiveOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Execute every entry again and hold every step against all rules. Exit code 1 on an error.

    Example: ringlog audit replay --archive backup/ --json
    """
    import msgspec

    from audit.replay import audited

    if spark is not None and not archive:
        raise end(
            "Spark replays archives: make one with `ringlog audit export` and name it by "
            "--archive.",
            Exit.WRONG_USE,
        )
    with history(archive, state_dir, url, token) as found:
        begin, last = epoch_or_start(found, after), epoch_or_tip(found, up_to)
        if spark is not None:
            report = _on_spark(spark, archive or [], begin, last, thorough=thorough)
        else:
            report = audited(
                found,
                after=begin,
                up_to=last,
                thorough=thorough,
                progress=lambda now: _say(f"epoch {now.epoch} of {now.up_to}, {now.errors} errors"),
            )
    _say("")
    if as_json:
        print_json({**msgspec.to_builtins(report), "holds": report.holds})
    else:
        _print_report(report, notes=notes)
    if not report.holds:
        raise typer.Exit(Exit.REFUSED)


def bisect(  # noqa: PLR0913 one parameter per option
    expression: Annotated[
        str, typer.Argument(help="A question about the metadata that is true or false.")
    ],
    *,
    monotonic: Annotated[
        bool,
        typer.Option(
            "--monotonic",
            help="It stays true once it is: look at some twenty epochs only.",
        ),
    ] = False,
    after: AfterOption = None,
    up_to: UpToOption = None,
    archive: ArchiveOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the first epoch at which an expression is true. Never true is exit code 1.

    Every epoch is looked at, except where snapshots show that nothing it asks about has changed;
    so the answer is right also for what comes and goes.

    Names: epoch, nodes, keyspaces, tables, sequences, locks, sessions, extensions, cms. Functions:
    len, count, any, all, min, max, node(4), keyspace("shop"), extension("note"),
    readers("shop", 42), writers("shop", 42). Fields are those of `ringlog audit show --json`.

    Example: ringlog audit bisect 'count(n for n in nodes if n.state == "joined") >= 4'
    """
    from audit.bisect import first_true, first_true_monotonic
    from audit.blame import entry_at
    from audit.expressions import parse
    from ringlog.commands.audit_blame import entry_view

    with history(archive, state_dir, url, token) as found:
        question = parse(expression)
        search = first_true_monotonic if monotonic else first_true
        begin, last = epoch_or_start(found, after), epoch_or_tip(found, up_to)
        epoch = search(
            found,
            question,
            after=begin,
            up_to=last,
            progress=lambda now: _say(f"epoch {now}"),
        )
        _say("")
        view = None if epoch is None else entry_view(entry_at(found, epoch).entry)
    if view is None:
        raise end(f"It is not true at any epoch from {begin + 1} to {last}.", Exit.REFUSED)
    if as_json:
        print_json({"epoch": epoch, "entry": view})
        return
    who = view["actor"] or "somebody"
    say(f"epoch {epoch}: {view['kind']} by {who} at {view['committed_at']}")


def _on_spark(
    master: str, places: list[str], after: Epoch, up_to: Epoch, *, thorough: bool
) -> Report:
    import asyncio

    from audit.spark import audited_on_spark
    from movement.spark import Spark, SparkError, SparkSettings, SparkUnreachableError

    opening = partial(opened_archives, [_everywhere(place) for place in places])
    name = ", ".join(places)

    async def run() -> Report:
        spark = Spark(SparkSettings(master=master, name="ringlog-audit"))
        try:
            return await spark.run(
                "audit",
                lambda session: audited_on_spark(
                    session, opening, name=name, after=after, up_to=up_to, thorough=thorough
                ),
            )
        finally:
            await spark.close()

    _say(f"epochs {after + 1} to {up_to} on Spark at {master}")
    try:
        return asyncio.run(run())
    except SparkUnreachableError as error:
        raise end(str(error), Exit.NOT_REACHABLE) from None
    except SparkError as error:
        raise end(f"Spark could not replay it: {error}", Exit.REFUSED) from None


@contextmanager
def opened_archives(places: list[str]) -> Iterator[History]:
    """A task opens them by calling this, wherever it runs."""
    yield archived(places)


def _everywhere(place: str) -> str:
    """A worker's current directory is another one."""
    return place if "://" in place else str(Path(place).absolute())


def _print_report(report: Report, *, notes: bool) -> None:
    from audit.findings import Grade

    shown = [item for item in report.findings if notes or item.grade is not Grade.NOTE]
    if shown:
        rows = [[item.epoch, item.grade.value, item.rule, item.explanation] for item in shown]
        print_table(("epoch", "grade", "rule", "explanation"), rows)
    for part in report.unchecked:
        say(f"epochs {part.first} to {part.last} could not be checked")
    if report.dropped:
        say(f"{report.dropped} more findings are counted only; --json has the counts")
    verdict = "holds" if report.holds else "does not hold"
    say(
        f"{report.entries} entries behind epoch {report.after}: the history {verdict}, "
        f"{report.errors} errors, {sum(report.counts.values()) - report.errors} warnings and notes"
    )


def _say(text: str) -> None:
    """Progress, for people who watch."""
    if sys.stderr.isatty():
        typer.echo(f"\r\033[K{text}", err=True, nl=False)
