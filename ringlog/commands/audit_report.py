"""`ringlog audit report`: everything about a history in one file to hand on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ringlog.commands.audit_source import ArchiveOption, audit_sentences, history
from ringlog.commands.audit_verify import CheckpointOption, KeyOption, given
from ringlog.commands.ending import Exit, end, sentences
from ringlog.commands.options import JsonOption, StateDirOption, TokenOption, UrlOption
from ringlog.commands.printing import print_json
from ringlog.commands.saying import say

if TYPE_CHECKING:
    # At run time they come when the verb runs, so that --help stays quick.
    from audit.replay import Progress
    from audit.report import AuditReport


def report(  # noqa: PLR0913 one parameter per option
    *,
    out: Annotated[Path, typer.Option(help="Where the HTML file goes.")],
    key: KeyOption = None,
    checkpoint: CheckpointOption = None,
    json_out: Annotated[
        Path | None,
        typer.Option("--json-out", help="Write the JSON here, too.", show_default=False),
    ] = None,
    archive: ArchiveOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a report as one HTML file. Exit code 1 if the history does not hold; it says so on top.

    Example: ringlog audit report --archive backup/ --key ledger.key.pub --out report.html
    """
    from audit.report_html import html_of

    with sentences(), audit_sentences():
        found = _reported(archive, (state_dir, url, token), key, checkpoint)
    _say("")
    plain = _plain(found)
    _write(out, html_of(found))
    if json_out is not None:
        import msgspec

        encoded = msgspec.json.format(msgspec.json.encode(plain), indent=1)
        _write(json_out, encoded.decode() + "\n")
    if as_json:
        print_json(plain)
    else:
        say(f"{out}: {found.headline}", err=not found.holds, fg=None if found.holds else "red")
    if not found.holds:
        is_misuse = found.trust in {"misused", "unrecomputed"}
        raise typer.Exit(Exit.WRONG_USE if is_misuse else Exit.REFUSED)


def _reported(
    archive: list[str] | None,
    live: tuple[Path | None, str | None, str | None],
    key: list[str] | None,
    checkpoint: list[Path] | None,
) -> AuditReport:
    from datetime import UTC, datetime
    from importlib.metadata import version

    from audit.report import Made, report_on_archives, report_on_live

    made = Made(version("ringlog"), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
    if archive:
        return report_on_archives(archive, given(key, checkpoint), made, _watch)
    if key or checkpoint:
        raise end("Keys and checkpoints are for archives: add --archive.", Exit.WRONG_USE)
    state_dir, url, token = live
    with history(None, state_dir, url, token) as found:
        return report_on_live(found, url or f"the cluster in {state_dir or '.state'}", made, _watch)


def _plain(found: AuditReport) -> dict[str, object]:
    import msgspec

    top = {"trust": found.trust.value, "holds": found.holds, "headline": found.headline}
    return {**top, **msgspec.to_builtins(found, str_keys=True)}


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise end(f"{path} cannot be written: {error.strerror}.", Exit.WRONG_USE) from None


def _watch(now: Progress) -> None:
    _say(f"epoch {now.epoch} of {now.up_to}, {now.errors} errors")


def _say(text: str) -> None:
    """Progress, for people who watch."""
    if sys.stderr.isatty():
        typer.echo(f"\r\033[K{text}", err=True, nl=False)
