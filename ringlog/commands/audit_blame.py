"""`ringlog audit blame|why`: the entries behind what is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

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
from ringlog.commands.printing import print_json, print_table, short
from ringlog.commands.saying import say
from ringlog.commands.spinning import spinning

if TYPE_CHECKING:
    # At run time they come when the verb runs, so that --help stays quick.
    from audit.subjects import Subject
    from encoding.entries import Entry

FORMS = {
    "node": "node 4",
    "token": "token KEYSPACE:TOKEN",
    "range": "range KEYSPACE:LEFT:RIGHT",
    "keyspace": "keyspace NAME",
    "table": "table KEYSPACE.NAME",
    "extension": "extension NAME",
    "member": "member NAME",
}


def blame(  # noqa: PLR0913 one parameter per option
    what: Annotated[str, typer.Argument(help=f"One of {', '.join(FORMS)}.")],
    name: Annotated[
        str,
        typer.Argument(help="4, shop:42 (a token), shop:-100:200 (a range), shop.users (a table)."),
    ],
    *,
    at: EpochOption = None,
    archive: ArchiveOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which entry last touched something, by whom and why. Exit code 1 if none ever did.

    Example: ringlog audit blame token shop:42 --archive backup/
    """
    from audit.blame import blamed

    subject = _subject(what, name)
    with history(archive, state_dir, url, token) as found, spinning("looking back"):
        epoch = epoch_or_tip(found, at)
        answer = blamed(found, subject, epoch)
    if answer is None:
        raise end(f"Nothing ever touched {subject.name} up to epoch {epoch}.", Exit.REFUSED)
    view = {
        "subject": answer.subject,
        **entry_view(answer.entry),
        "before": answer.before,
        "after": answer.after,
    }
    if as_json:
        print_json(view)
        return
    for field, value in view.items():
        say(f"{field}: {short(value)}")


def why(  # noqa: PLR0913 one parameter per option
    keyspace: Annotated[str, typer.Argument(help="Of which keyspace.")],
    *,
    key: Annotated[str | None, typer.Option(help="A key.", show_default=False)] = None,
    place: Annotated[
        int | None, typer.Option("--at-token", help="A token instead.", show_default=False)
    ] = None,
    node: Annotated[
        int | None,
        typer.Option(min=1, help="Which owner; the primary by default.", show_default=False),
    ] = None,
    at: EpochOption = None,
    archive: ArchiveOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the chain of entries that led to an owner of a key.

    Example: ringlog audit why shop --key 4711 --node 4 --archive backup/
    """
    if (key is None) == (place is None):
        raise end("Give either --key or --at-token.", Exit.WRONG_USE)
    from audit.history import metadata_at
    from audit.travel import owners, token_named
    from audit.why import Asked
    from audit.why import why as links_to
    from metadata.directory import NodeId

    with history(archive, state_dir, url, token) as found:
        epoch = epoch_or_tip(found, at)
        with spinning("looking at the owners"):
            metadata = metadata_at(found, epoch).metadata
        named = token_named(metadata, keyspace, key=key, token=place)
        readers = owners(metadata, keyspace, named)["readers"]
        if node is None and not readers:
            raise end(f"Nobody owns token {named} of {keyspace} at {epoch}.", Exit.REFUSED)
        owner = NodeId(readers[0] if node is None else node)
        with spinning("looking back"):
            links = links_to(found, Asked(keyspace=keyspace, token=named, node=owner, at=epoch))
    views = [{**entry_view(link.entry), "part": link.part} for link in links]
    if as_json:
        asked = {"keyspace": keyspace, "token": str(named), "node": owner, "at": epoch}
        print_json({**asked, "chain": views})
        return
    say(f"why node {owner} owns token {named} of {keyspace} at epoch {epoch}")
    columns = ("epoch", "committed_at", "kind", "actor", "reason", "part")
    print_table(columns, [[view[column] for column in columns] for view in views])


def entry_view(entry: Entry) -> dict[str, Any]:
    from encoding.json import transformation_json
    from ringlog.commands.moments import dated

    return {
        "epoch": entry.epoch,
        "kind": entry.kind,
        "actor": entry.actor,
        "reason": entry.reason,
        "committed_at": dated(entry.committed_at),
        "committed_by": entry.committed_by,
        "entry_id": str(entry.entry_id),
        "transformation": transformation_json(entry.transformation),
    }


def _subject(what: str, name: str) -> Subject:
    from audit import subjects
    from metadata.tokens import MAXIMUM, MINIMUM, Range, Token

    def number(text: str) -> Token:
        found = int(text)
        if not MINIMUM <= found <= MAXIMUM:
            raise ValueError(text)
        return Token(found)

    try:
        match what, *name.replace(".", ":", 1 if what == "table" else 0).split(":"):
            case "node", text:
                return subjects.node(int(text))
            case "token", keyspace, text:
                return subjects.token(keyspace, number(text))
            case "range", keyspace, left, right:
                return subjects.span(keyspace, Range(number(left), number(right)))
            case "keyspace", text:
                return subjects.keyspace(text)
            case "table", keyspace, text:
                return subjects.table(keyspace, text)
            case "member", text:
                return subjects.member(text)
            case "extension", *_:
                # Names of extensions may hold colons.
                return subjects.extension(name)
            case _:
                pass
    except ValueError:
        pass
    form = FORMS.get(what) or f"one of {', '.join(FORMS)}"
    raise end(f"{what} {name} is nothing to ask about: write {form}.", Exit.WRONG_USE)
