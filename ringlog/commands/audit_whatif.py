"""`ringlog audit whatif`: transformations that nobody commits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ringlog.commands.audit_source import ArchiveOption, epoch_or_tip, history
from ringlog.commands.ending import Exit, end
from ringlog.commands.options import (
    EpochOption,
    JsonOption,
    StateDirOption,
    TokenOption,
    UrlOption,
)
from ringlog.commands.printing import print_json, print_table
from ringlog.commands.saying import say
from ringlog.commands.spinning import spinning

if TYPE_CHECKING:
    # At run time they come when the verb runs, so that --help stays quick.
    from audit.whatif import Imagined, Sizes


def whatif(  # noqa: PLR0913 one parameter per option
    file: Annotated[
        str,
        typer.Argument(
            help="Transformations as JSON: a list, a line each, or the body of a batch; - reads "
            "them."
        ),
    ],
    *,
    at: EpochOption = None,
    sizes: Annotated[
        Path | None,
        typer.Option(
            help='What tables hold, to tell bytes: {"shop.users": {"rows": 10, "bytes": 1000}}.',
            show_default=False,
        ),
    ] = None,
    batch: Annotated[
        Path | None,
        typer.Option(
            help="Write the body that commits all of them or none, for POST /v1/commit/batch.",
            show_default=False,
        ),
    ] = None,
    archive: ArchiveOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what would come of transformations at an epoch. One that is refused is exit code 1.

    Sequences that they begin are taken to their end, as if every node answered and every copy
    succeeded. Nothing is committed.

    Example: ringlog audit whatif leave.json --at 42 --archive backup/
    """
    from uuid import uuid4

    import msgspec

    from audit.history import metadata_at
    from audit.proposals import batch_body, read_proposals
    from audit.whatif import imagined
    from encoding.entries import EntryId

    with history(archive, state_dir, url, token) as found:
        proposals = read_proposals(_read(file), lambda: EntryId(uuid4()))
        known = None if sizes is None else _sizes(sizes)
        with spinning("imagining"):
            base = metadata_at(found, epoch_or_tip(found, at)).metadata
            answer = imagined(base, proposals, known)
    if batch is not None and answer.accepted:
        _write(batch, msgspec.json.encode(batch_body(proposals)))
    if as_json:
        print_json(answer)
    else:
        _print(answer)
    if not answer.accepted:
        raise typer.Exit(Exit.REFUSED)


def _print(answer: Imagined) -> None:
    rows = [
        [
            item.epoch,
            item.kind,
            "assumed" if item.assumed else "given",
            item.result if item.problem is None else f"refused: {item.problem['detail']}",
        ]
        for item in answer.entries
    ]
    print_table(("epoch", "kind", "by", "outcome"), rows)
    say(f"{len(answer.placement)} ranges would have other owners than at {answer.base}")
    moved = "" if answer.bytes is None else f", {answer.bytes} bytes"
    say(f"{len(answer.moves)} copies of ranges would have to be made{moved}")
    if answer.weakest is not None:
        weak = answer.weakest
        say(
            f"weakest at epoch {weak.epoch}: ({weak.left}, {weak.right}] of {weak.placement} with "
            f"readers {list(weak.readers)}"
        )


def _read(file: str) -> bytes:
    from audit.proposals import FILE_BYTES_MAX

    try:
        if file == "-":
            return typer.get_binary_stream("stdin").read(FILE_BYTES_MAX + 1)
        with Path(file).open("rb") as stream:
            return stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise end(f"{file} cannot be read: {error.strerror}.", Exit.WRONG_USE) from None


def _sizes(path: Path) -> Sizes:
    import msgspec

    from audit.whatif import TableSize

    try:
        return msgspec.json.decode(_read(str(path)), type=dict[str, TableSize])
    except ValueError as error:
        raise end(f"{path} does not hold sizes of tables: {error}.", Exit.WRONG_USE) from None


def _write(path: Path, body: bytes) -> None:
    try:
        path.write_bytes(body)
    except OSError as error:
        raise end(f"{path} cannot be written: {error.strerror}.", Exit.WRONG_USE) from None
