"""`ringlog audit trim`: let go of old entries that an archive holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ringlog.commands.audit_source import audit_sentences, opened
from ringlog.commands.audit_verify import CheckpointOption, KeyOption, all_sound, given
from ringlog.commands.ending import Exit, end, sentences
from ringlog.commands.options import JsonOption
from ringlog.commands.printing import print_json
from ringlog.commands.saying import say
from ringlog.commands.spinning import counting, spinning

if TYPE_CHECKING:
    # At run time they come when the verb runs, so that --help stays quick.
    from audit.reading import Joined
    from audit.trimming import Plan
    from audit.verify import Verified
    from metadata.epoch import Epoch


def trim(  # noqa: PLR0913 one parameter per option
    *,
    up_to: Annotated[int, typer.Option("--up-to", min=1, help="Let nothing go beyond this epoch.")],
    archive: Annotated[
        list[str], typer.Option("--archive", help="An archive that holds it, or several in a row.")
    ],
    key: KeyOption = None,
    checkpoint: CheckpointOption = None,
    unsigned: Annotated[
        bool, typer.Option("--unsigned", help="Trust an archive that no key vouches for.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; without this it is only said what would go.")
    ] = False,
    dsn: Annotated[
        str | None,
        typer.Option(
            "--postgres-dsn",
            envvar="RINGLOG_POSTGRES_DSN",
            help="The Postgres of the log; the variable keeps a password out of sight.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="Who trims; kept with the log.")] = "audit trim",
    as_json: JsonOption = False,
) -> None:
    """Let go of old entries: whole partitions, once an archive that holds them was verified.

    Entry ids, results and hashes stay. A CMS with RINGLOG_ARCHIVE reads what went from there.

    Example: ringlog audit trim --up-to 1000000 --archive backup/ --key ledger.key.pub --yes
    """
    if dsn is None:
        raise end("Name the Postgres of the log: set RINGLOG_POSTGRES_DSN.", Exit.WRONG_USE)
    if not key and not unsigned:
        raise end(
            "The archive will be the only copy: name the key that signed it by --key, or say "
            "--unsigned.",
            Exit.WRONG_USE,
        )
    import asyncio

    from audit.reading import join
    from metadata.epoch import Epoch

    with sentences(), audit_sentences():
        with counting("verifying") as watch:
            brought = given(key, checkpoint, recompute=True, progress=watch)
            verdicts = all_sound(archive, brought, otherwise="Nothing is trimmed")
        source = join([opened(place) for place in archive])
        with spinning("trimming" if yes else "looking at the log"):
            plan = asyncio.run(_trimmed(source, verdicts, dsn, Epoch(up_to), name if yes else None))
    _say(plan, is_done=yes, as_json=as_json)


async def _trimmed(
    source: Joined, verdicts: list[Verified], dsn: str, up_to: Epoch, by: str | None
) -> Plan:
    """What was let go of or, with nobody to do it, what could be."""
    from audit.trimming import Live, planned
    from audit.trimming import trim as let_go
    from log.postgres import PostgresLog
    from log.postgres_sessions import Sessions
    from log.postgres_trimming import PostgresTrimming
    from snapshots.postgres import PostgresSnapshots

    stores = Sessions(dsn)
    try:
        live = Live(PostgresLog(stores), PostgresSnapshots(stores), PostgresTrimming(dsn))
        plan = await planned(source, verdicts, live, up_to)
        if by is not None:
            await let_go(source, plan, live, by)
        return plan
    finally:
        await stores.close()


def _say(plan: Plan, *, is_done: bool, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "trimmed": is_done and plan.entries > 0,
                "seam_before": plan.standing.seam,
                "seam": plan.seam,
                "entries": plan.entries,
                "partition_epochs": plan.standing.epochs_per_partition,
                "archive": plan.archive,
                "anchored_by": plan.anchored_by,
            }
        )
        return
    if not plan.entries:
        say(
            f"There is nothing to trim: partitions hold {plan.standing.epochs_per_partition} "
            f"epochs and go whole; the log begins behind epoch {plan.standing.seam}."
        )
        return
    epochs = f"epochs {plan.standing.seam + 1} to {plan.seam}"
    if is_done:
        say(f"Let go of {epochs}; {plan.archive} holds them.")
    else:
        say(f"Would let go of {epochs}, which {plan.archive} holds; say --yes to do it.")
