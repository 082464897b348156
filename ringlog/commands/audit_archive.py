"""`ringlog audit export`: a log as an archive."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ringlog.commands.audit_source import (
    ArchiveOption,
    UpToOption,
    epoch_or_start,
    epoch_or_tip,
    history,
    opened,
)
from ringlog.commands.ending import Exit, end
from ringlog.commands.options import JsonOption, StateDirOption, TokenOption, UrlOption
from ringlog.commands.printing import print_json
from ringlog.commands.saying import say
from ringlog.commands.spinning import Watch, counting

if TYPE_CHECKING:
    # At run time they come when the verb runs, so that --help stays quick.
    from audit.exporting import Export
    from audit.history import History
    from log.entry import SealedEntry


WATCHED_EVERY_ENTRIES = 500


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

    with history(archive, state_dir, url, token) as found, counting("exporting") as watch:
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
            begin = max(running.tip.epoch - 1, epoch_or_start(found, None))
            for sealed in _watched(found.entries(Epoch(begin), end_at), begin, end_at, watch):
                running.take(sealed)
            _keep_snapshots(found, running)
            manifest = running.finish(keys, at_s=_now_s())
    if as_json:
        print_json({"archive": out, "tip": manifest.tip.epoch, "hash": manifest.tip.hash})
    else:
        say(f"{out} holds the log up to epoch {manifest.tip.epoch}.")


def _watched(
    entries: Iterator[SealedEntry], begin: int, last: int, watch: Watch
) -> Iterator[SealedEntry]:
    for sealed in entries:
        if sealed.epoch % WATCHED_EVERY_ENTRIES == 0:
            watch(sealed.epoch - begin, last - begin)
        yield sealed


def _keep_snapshots(found: History, running: Export) -> None:
    from audit.history import SnapshotUnusableError
    from snapshots.restore import written

    for epoch in running.wanted(found.snapshots()):
        try:
            applied = found.restored(epoch)
        except SnapshotUnusableError:
            continue  # It shortens nothing if it cannot be read.
        running.keep(written(applied))


def _now_s() -> int:
    import time

    return int(time.time())
