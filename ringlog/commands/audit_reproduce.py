"""`ringlog audit reproduce`: whether the installed release may go on with a history."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ringlog.commands.audit_source import (
    AfterOption,
    ArchiveOption,
    UpToOption,
    epoch_or_start,
    epoch_or_tip,
    history,
)
from ringlog.commands.ending import Exit, end, sentences
from ringlog.commands.options import JsonOption, StateDirOption, TokenOption, UrlOption
from ringlog.commands.printing import print_json
from ringlog.commands.saying import say

if TYPE_CHECKING:
    # At run time they come when the verb runs, so that --help stays quick.
    from audit.reproduce import NotReproducedError, Release
    from log.chain import Tip


def reproduce(  # noqa: PLR0913 one parameter per option
    *,
    after: AfterOption = None,
    up_to: UpToOption = None,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep", help="Keep the result in the Postgres of the log, for every CMS that starts."
        ),
    ] = False,
    dsn: Annotated[
        str | None,
        typer.Option(
            "--postgres-dsn",
            envvar="RINGLOG_POSTGRES_DSN",
            help="Where --keep keeps it; the variable keeps a password out of sight.",
            show_default=False,
        ),
    ] = None,
    archive: ArchiveOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show that this release comes to every recorded digest. Exit code 1 names the epoch.

    Run it before an upgrade, with the new release, on an archive or the running cluster. A CMS
    does the same when it starts, before it sequences; with --keep it finds it done.

    Example: ringlog audit reproduce --archive backup/
    """
    if keep and dsn is None:
        raise end("To keep the result name its Postgres: set RINGLOG_POSTGRES_DSN.", Exit.WRONG_USE)
    from audit.reproduce import NotReproducedError, installed_release, reproduced

    release = installed_release()
    with history(archive, state_dir, url, token) as found:
        begin, last = epoch_or_start(found, after), epoch_or_tip(found, up_to)
        if keep and begin:
            raise end("Only what begins at the first epoch can be kept.", Exit.WRONG_USE)
        try:
            tip = reproduced(
                found, release, after=begin, up_to=last, progress=lambda now: _say(f"epoch {now}")
            )
        except NotReproducedError as error:
            _say("")
            raise _refused(release, error, as_json=as_json) from None
    _say("")
    if keep and dsn is not None:
        _keep(release, tip, dsn)
    if as_json:
        names = {"version": release.version, "fingerprint": release.fingerprint.hex()}
        where = {"after": begin, "epoch": tip.epoch, "hash": tip.hash.hex(), "kept": keep}
        print_json({"holds": True, **names, **where})
        return
    kept = " This is kept beside the log." if keep else ""
    say(f"Release {release} reproduces every digest of epochs {begin + 1} to {tip.epoch}.{kept}")


def _refused(release: Release, error: NotReproducedError, *, as_json: bool) -> typer.Exit:
    if not as_json:
        return end(str(error), Exit.REFUSED)
    names = {"version": release.version, "fingerprint": release.fingerprint.hex()}
    print_json({"holds": False, **names, "epoch": error.epoch, "fault": error.fault})
    return typer.Exit(Exit.REFUSED)


def _keep(release: Release, tip: Tip, dsn: str) -> None:
    import asyncio

    from ringlog.commands.audit_source import audit_sentences

    with sentences(), audit_sentences():
        asyncio.run(_kept(release, tip, dsn))


async def _kept(release: Release, tip: Tip, dsn: str) -> None:
    """Only beside the log that it is about, and without a change of its schema."""
    from audit.reproduce import PostgresProofs
    from log.postgres import PostgresLog
    from log.postgres_sessions import Sessions

    sessions = Sessions(dsn)
    try:
        rows = await sessions.fetch("SELECT to_regclass('reproduced') IS NOT NULL AS is_there")
        if not rows[0]["is_there"]:
            raise end(
                "That Postgres has no place for it: a CMS of this release makes it when it starts.",
                Exit.REFUSED,
            )
        if await PostgresLog(sessions).hash_at(tip.epoch) != tip.hash:
            raise end(
                f"The log in that Postgres does not have this entry at epoch {tip.epoch}: it is "
                "another one.",
                Exit.REFUSED,
            )
        proofs, log = PostgresProofs(sessions), PostgresLog(sessions)
        known = await proofs.find(release)
        # Of this log the greater proof stays; what is kept of another one is worth nothing.
        is_other = known is not None and await log.hash_at(known.epoch) != known.hash
        await proofs.keep(release, tip, by="audit reproduce", is_another_log=is_other)
    finally:
        await sessions.close()


def _say(text: str) -> None:
    """Progress, for people who watch."""
    if sys.stderr.isatty():
        typer.echo(f"\r\033[K{text}", err=True, nl=False)
