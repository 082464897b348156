"""`ringlog audit export|verify|import`: archives of a log."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ringlog.commands.audit_source import (
    ArchiveOption,
    UpToOption,
    audit_sentences,
    epoch_or_tip,
    history,
    opened,
)
from ringlog.commands.ending import Exit, end, sentences
from ringlog.commands.options import JsonOption, StateDirOption, TokenOption, UrlOption
from ringlog.commands.printing import print_json
from ringlog.commands.saying import say
from ringlog.commands.spinning import spinning

if TYPE_CHECKING:
    # At run time they come when the verb runs, so that --help stays quick.
    from audit.exporting import Export
    from audit.history import History
    from audit.lineage import Lineage
    from audit.reading import Archive, Joined
    from audit.verify import Given

KeyOption = Annotated[
    list[str] | None,
    typer.Option("--key", help="A public key that you trust, or its file.", show_default=False),
]


class Codec(StrEnum):
    """Those of `audit.codecs`, which comes when the verb runs."""

    DEFLATE = "deflate"
    ZSTANDARD = "zstandard"


def export(  # noqa: PLR0913 one parameter per option
    out: Annotated[str, typer.Argument(help="A folder, or its address.")],
    *,
    up_to: UpToOption = None,
    sign: Annotated[
        list[Path] | None,
        typer.Option(help="Sign what is exported with this private key.", show_default=False),
    ] = None,
    continuing: Annotated[
        str | None,
        typer.Option(help="Begin behind the end of this archive.", show_default=False),
    ] = None,
    codec: Annotated[
        Codec,
        typer.Option(
            help="How files are compressed: deflate, which every Avro library reads, or the "
            "smaller and quicker zstandard."
        ),
    ] = Codec.DEFLATE,
    archive: ArchiveOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the log as an archive, or go on with one where it ends.

    Example: ringlog audit export backup/ --sign ledger.key
    """
    from audit.exporting import begin_export
    from audit.folder import folder
    from audit.keys import load_private
    from metadata.epoch import Epoch

    with history(archive, state_dir, url, token) as found, spinning("exporting"):
        keys = [load_private(path) for path in sign or []]
        before = None if continuing is None else opened(continuing)
        with begin_export(folder(out), continuing=before, codec=codec.value) as running:
            end_at = epoch_or_tip(found, up_to)
            if up_to is None and end_at < running.tip.epoch:
                raise end(
                    f"{out} ends at epoch {running.tip.epoch} and this log at {end_at}: it has "
                    "lost entries, or it is another log. Restore them before anybody goes on with "
                    "it.",
                    Exit.REFUSED,
                )
            # The last one that the archive has comes again, to see that it is the same log.
            begin = max(running.tip.epoch - 1, 0 if before is None else before.tip.epoch)
            for sealed in found.entries(Epoch(begin), end_at):
                running.take(sealed)
            _keep_snapshots(found, running)
            manifest = running.finish(keys, at_s=_now_s())
    if as_json:
        print_json({"archive": out, "tip": manifest.tip.epoch, "hash": manifest.tip.hash})
    else:
        say(f"{out} holds the log up to epoch {manifest.tip.epoch}.")


def verify(
    path: Annotated[str, typer.Argument(help="A folder that was exported, or its address.")],
    *,
    key: KeyOption = None,
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option(help="A checkpoint that you kept elsewhere.", show_default=False),
    ] = None,
    recompute: Annotated[
        bool,
        typer.Option("--recompute", help="Execute every entry again and compare its digest."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Verify an archive: every file, every hash, signatures. Exit code 1 names what is wrong.

    Example: ringlog audit verify backup/ --key ledger.key.pub
    """
    import msgspec

    from audit.verify import Verified
    from audit.verify import verify as verdict_on

    with sentences(), audit_sentences(), spinning("verifying"):
        verdict = verdict_on(path, given(key, checkpoint, recompute=recompute))
    holds = isinstance(verdict, Verified)
    if as_json:
        plain = msgspec.to_builtins(verdict, builtin_types=(bytes,))
        print_json({"holds": holds, "said": verdict.sentence, **_hexed(plain)})
    else:
        say(verdict.sentence, err=not holds, fg=None if holds else typer.colors.RED)
    if not holds:
        raise typer.Exit(Exit.REFUSED)


def import_archive(
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
    name: Annotated[str, typer.Option(help="Who imports; kept with the log.")] = "import",
    as_json: JsonOption = False,
) -> None:
    """Restore a log from an archive into an empty Postgres, verifying it on the way.

    Example: RINGLOG_POSTGRES_DSN=postgresql://user@db/ringlog ringlog audit import backup/
    """
    if dsn is None:
        raise end("Name the Postgres to fill: set RINGLOG_POSTGRES_DSN.", Exit.WRONG_USE)
    import asyncio

    from audit.reading import join
    from audit.verify import Verified
    from audit.verify import verify as verdict_on

    with sentences(), audit_sentences(), spinning("importing"):
        brought = given(key, None, recompute=False)
        verdicts = [verdict_on(place, brought) for place in path]
        for verdict in verdicts:
            if not isinstance(verdict, Verified):
                raise end(verdict.sentence, Exit.REFUSED)
        archives = [opened(place) for place in path]
        source = archives[0] if len(archives) == 1 else join(archives)
        signers = verdicts[-1].anchored_by if isinstance(verdicts[-1], Verified) else ()
        lineage = asyncio.run(_import(source, dsn, name, signers))
    if as_json:
        print_json({"lineage": str(lineage.id), "epoch": lineage.epoch, "hash": lineage.hash.hex()})
    else:
        say(f"The log is restored up to epoch {lineage.epoch}, as lineage {lineage.id}.")


async def _import(
    source: Archive | Joined, dsn: str, name: str, anchored_by: tuple[str, ...]
) -> Lineage:
    from uuid import uuid4

    from audit.importing import Importer, Target
    from audit.importing import import_archive as fill
    from audit.lineage import PostgresLineages
    from log.postgres import PostgresLog
    from log.postgres_sessions import Sessions
    from migrations.apply import apply
    from snapshots.postgres import PostgresSnapshots

    await apply(dsn)
    stores = Sessions(dsn)
    try:
        target = Target(
            log=PostgresLog(stores),
            snapshots=PostgresSnapshots(stores),
            lineages=PostgresLineages(stores),
        )
        by = Importer(name=name, lineage=uuid4(), anchored_by=anchored_by)
        return await fill(source, target, by)
    finally:
        await stores.close()


def _keep_snapshots(found: History, running: Export) -> None:
    from audit.history import SnapshotUnusableError
    from encoding.images import encode_image
    from snapshots.store import Snapshot

    for epoch in running.wanted(found.snapshots()):
        try:
            applied = found.restored(epoch)
        except SnapshotUnusableError:
            continue  # It shortens nothing if it cannot be read.
        metadata = applied.metadata
        running.keep(
            Snapshot(
                epoch=epoch,
                digest=metadata.digest,
                hash=applied.hash,
                image=encode_image(metadata),
            )
        )


def given(key: list[str] | None, checkpoint: list[Path] | None, *, recompute: bool) -> Given:
    from audit.anchors import Kept
    from audit.keys import load_public
    from audit.verify import Given
    from ringlog.commands.audit_proofs import read_file

    return Given(
        keys=tuple(load_public(text) for text in key or []),
        checkpoints=tuple(Kept(str(path), read_file(path)) for path in checkpoint or []),
        recompute=recompute,
    )


def _hexed(plain: Any) -> Any:  # noqa: ANN401 plain data
    match plain:
        case bytes():
            return plain.hex()
        case dict():
            return {name: _hexed(value) for name, value in plain.items()}
        case _:
            return plain


def _now_s() -> int:
    import time

    return int(time.time())
