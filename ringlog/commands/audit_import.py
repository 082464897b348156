"""`ringlog audit import`: from archives back into a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from log.partitions import PARTITION_EPOCHS_MAX, PARTITION_EPOCHS_MIN
from ringlog.commands.audit_source import audit_sentences, opened
from ringlog.commands.audit_verify import KeyOption, all_sound, given
from ringlog.commands.ending import Exit, end, sentences
from ringlog.commands.options import JsonOption
from ringlog.commands.printing import print_json
from ringlog.commands.saying import say
from ringlog.commands.spinning import Watch, counting

if TYPE_CHECKING:
    # At run time they come when the verb runs, so that --help stays quick.
    from audit.importing import Importer
    from audit.lineage import Lineage
    from audit.reading import Archive, Joined
    from audit.verify import Verified


def import_archive(  # noqa: PLR0913 one parameter per option
    path: Annotated[list[str], typer.Argument(help="An archive, or several that follow.")],
    *,
    dsn: Annotated[
        str | None,
        typer.Option(
            "--postgres-dsn",
            envvar="RINGLOG_POSTGRES_DSN",
            help="The empty Postgres to fill; the variable keeps a password out of sight.",
            show_default=False,
        ),
    ] = None,
    key: KeyOption = None,
    unsigned: Annotated[
        bool,
        typer.Option("--unsigned", help="Take entries behind the last signature of --key, too."),
    ] = False,
    partition_epochs: Annotated[
        int | None,
        typer.Option(
            envvar="RINGLOG_PARTITION_EPOCHS",
            min=PARTITION_EPOCHS_MIN,
            max=PARTITION_EPOCHS_MAX,
            help="How many epochs a partition holds, which is how finely the log can be trimmed.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="Who imports; kept with the log.")] = "import",
    as_json: JsonOption = False,
) -> None:
    """Restore a log from an archive into an empty Postgres, verifying it on the way.

    With --key all of it must be signed, unless --unsigned says otherwise; the log then keeps that
    nobody vouched for it.

    Example: RINGLOG_POSTGRES_DSN=postgresql://user@db/ringlog ringlog audit import backup/
    """
    if dsn is None:
        raise end("Name the Postgres to fill: set RINGLOG_POSTGRES_DSN.", Exit.WRONG_USE)
    import asyncio
    from uuid import uuid4

    from audit.importing import Importer
    from audit.reading import join

    with sentences(), audit_sentences():
        with counting("verifying") as watch:
            brought = given(key, None, progress=watch)
            verdicts = all_sound(path, brought, otherwise="Nothing is imported")
        signers = _signers(verdicts, is_wanted=bool(key) and not unsigned)
        archives = [opened(place) for place in path]
        source = archives[0] if len(archives) == 1 else join(archives)
        by = Importer(name=name, lineage=uuid4(), anchored_by=signers)
        with counting("importing") as watch:
            lineage = asyncio.run(_import(source, dsn, by, watch, partition_epochs))
    said = [verdict.sentence for verdict in verdicts]
    if as_json:
        where = {"lineage": str(lineage.id), "epoch": lineage.epoch, "hash": lineage.hash.hex()}
        print_json({**where, "anchored_by": signers, "said": said})
        return
    for sentence in said:
        say(sentence)
    say(f"The log is restored up to epoch {lineage.epoch}, as lineage {lineage.id}.")


def _signers(verdicts: list[Verified], *, is_wanted: bool) -> tuple[str, ...]:
    """Who vouches for all of it: nobody, if an end of it is not signed."""
    unsigned = [verdict for verdict in verdicts if not verdict.is_anchored]
    if not unsigned:
        return tuple(sorted({name for verdict in verdicts for name in verdict.anchored_by}))
    if is_wanted:
        raise end(
            f"Nothing is imported: {unsigned[0].archive} has {unsigned[0].sentence}. Export it "
            "again with --sign, or say --unsigned.",
            Exit.REFUSED,
        )
    return ()


async def _import(
    source: Archive | Joined, dsn: str, by: Importer, watch: Watch, partition_epochs: int | None
) -> Lineage:
    from audit.importing import Target
    from audit.importing import import_archive as fill
    from audit.lineage import PostgresLineages
    from log.postgres import PostgresLog
    from log.postgres_room import divide
    from log.postgres_sessions import Sessions
    from migrations.apply import apply
    from snapshots.postgres import PostgresSnapshots

    await apply(dsn)
    stores = Sessions(dsn)
    try:
        # Before the first entry: afterwards nobody can choose.
        if partition_epochs is not None and not await divide(stores, partition_epochs):
            say("The log has begun with partitions of another size, and keeps it.", err=True)
        target = Target(
            log=PostgresLog(stores),
            snapshots=PostgresSnapshots(stores),
            lineages=PostgresLineages(stores),
        )
        return await fill(source, target, by, watch)
    finally:
        await stores.close()
