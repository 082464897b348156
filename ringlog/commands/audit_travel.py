"""`ringlog audit show|diff|owners`: the metadata at any epoch."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ringlog.commands.audit_source import ArchiveOption, epoch_or_tip, history
from ringlog.commands.changed import changed_line
from ringlog.commands.ending import Exit, end
from ringlog.commands.options import (
    EpochOption,
    JsonOption,
    StateDirOption,
    TokenOption,
    UrlOption,
)
from ringlog.commands.printing import print_json, print_table, print_view, short
from ringlog.commands.saying import say
from ringlog.commands.spinning import spinning


def show(  # noqa: PLR0913 one parameter per option
    component: Annotated[
        str | None,
        typer.Argument(
            help="cluster, directory, schema, ring, placements, locks, sequences, sessions, cms or "
            "extensions; all of them by default.",
            show_default=False,
        ),
    ] = None,
    *,
    at: EpochOption = None,
    archive: ArchiveOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the metadata as it was at an epoch.

    Example: ringlog audit show placements --at 42 --archive backup/
    """
    from metadata.cluster import COMPONENTS

    if component is not None and component not in COMPONENTS:
        known = ", ".join(COMPONENTS)
        raise end(f"There is no component {component!r}: choose of {known}.", Exit.WRONG_USE)
    from audit.travel import shown

    with history(archive, state_dir, url, token) as found, spinning("going there"):
        view = shown(found, component, epoch_or_tip(found, at))
    if as_json:
        print_json(view)
    elif component is not None:
        print_view(view)
    else:
        _print_components(view)


def diff(  # noqa: PLR0913 one parameter per option
    start: Annotated[int, typer.Argument(min=0, metavar="FROM", help="An epoch.")],
    to: Annotated[int, typer.Argument(min=0, metavar="TO", help="Another, earlier or later.")],
    *,
    archive: ArchiveOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what changed between two epochs, by meaning.

    Example: ringlog audit diff 40 42 --archive backup/
    """
    import msgspec

    from audit.travel import compared
    from metadata.epoch import Epoch

    with history(archive, state_dir, url, token) as found, spinning("comparing"):
        components = compared(found, Epoch(start), Epoch(to))
    plain = {name: msgspec.to_builtins(item) for name, item in components.items()}
    if as_json:
        print_json({"from": start, "to": to, "components": plain})
        return
    if not plain:
        say(f"Nothing differs between epochs {start} and {to}.")
    for name, item in plain.items():
        say()
        say(name)
        rows = [[how, changed_line(row)] for how, listed in item.items() for row in listed]
        print_table(("what", "item"), rows)


def owners(  # noqa: PLR0913 one parameter per option
    keyspace: Annotated[str, typer.Argument(help="Of which keyspace.")],
    *,
    key: Annotated[
        str | None,
        typer.Option(help="A key; several columns with commas.", show_default=False),
    ] = None,
    place: Annotated[
        int | None, typer.Option("--at-token", help="A token instead.", show_default=False)
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(help="Whose key, where tables differ.", show_default=False),
    ] = None,
    at: EpochOption = None,
    archive: ArchiveOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show who read and who wrote a key at an epoch.

    Example: ringlog audit owners shop --key 4711 --at 42 --archive backup/
    """
    if (key is None) == (place is None):
        raise end("Give either --key or --at-token.", Exit.WRONG_USE)
    from audit.history import metadata_at
    from audit.travel import owners as owners_of
    from audit.travel import token_named

    with history(archive, state_dir, url, token) as found, spinning("going there"):
        metadata = metadata_at(found, epoch_or_tip(found, at)).metadata
        named = token_named(metadata, keyspace, key=key, token=place, table=table)
        view = owners_of(metadata, keyspace, named)
    if as_json:
        print_json(view)
    else:
        print_view(view)


def _print_components(view: dict[str, Any]) -> None:
    for name, value in view.items():
        if isinstance(value, dict) and "epoch" in value:
            say()
            say(f"== {name}")
            print_view({key: item for key, item in value.items() if key != "epoch"})
        else:
            say(f"{name}: {short(value)}")
