"""`ringlog schema`: keyspaces and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ringlog.commands.change_options import ActorOption, ReasonOption, YesOption
from ringlog.commands.ending import Exit, confirm, end
from ringlog.commands.grouping import is_for_command
from ringlog.commands.options import (
    EpochOption,
    JsonOption,
    StateDirOption,
    TokenOption,
    UrlOption,
)
from ringlog.commands.printing import print_json, print_table

COLUMNS = ("keyspace", "replication", "table", "id", "key", "columns")

Where = tuple[Path | None, str | None, str | None]

schema = typer.Typer(name="schema")


@schema.callback(invoke_without_command=True)
def show_schema(
    context: typer.Context,
    *,
    at: EpochOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show keyspaces and tables, or change them by one of the commands below.

    Example: ringlog schema --at 17
    """
    if is_for_command(context):
        return
    from ringlog.commands.asking import talking

    with talking(state_dir, url, token) as talk:
        answer = talk.get("/v1/metadata/schema", {"at": at})
    if as_json:
        print_json(answer)
        return
    print_table(COLUMNS, [row for item in answer["keyspaces"] for row in _rows(item)])


@schema.command()
def create_keyspace(  # noqa: PLR0913 one parameter per option
    name: Annotated[str, typer.Argument(help="A new name.")],
    *,
    factor: Annotated[
        int | None, typer.Option(help="Replicas, wherever nodes are.", show_default=False)
    ] = None,
    datacenter: Annotated[
        list[str] | None,
        typer.Option(help="Replicas in a datacenter: dc1=3. May be repeated.", show_default=False),
    ] = None,
    actor: ActorOption = None,
    reason: ReasonOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a keyspace.

    Example: ringlog schema create-keyspace shop --factor 3
    """
    wanted = {
        "kind": "CreateKeyspace",
        "name": name,
        "replication": _replication(factor, datacenter),
    }
    _commit(wanted, (state_dir, url, token), (actor, reason), as_json=as_json)


@schema.command()
def drop_keyspace(  # noqa: PLR0913 one parameter per option
    name: Annotated[str, typer.Argument(help="A keyspace.")],
    *,
    yes: YesOption = False,
    actor: ActorOption = None,
    reason: ReasonOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Drop a keyspace with its tables and their rows. On a terminal it asks.

    Example: ringlog schema drop-keyspace shop
    """
    if not (yes or as_json):
        confirm(f"Drop keyspace {name} with its tables and all their rows?")
    wanted = {"kind": "DropKeyspace", "name": name}
    _commit(wanted, (state_dir, url, token), (actor, reason), as_json=as_json)


@schema.command()
def create_table(  # noqa: PLR0913 one parameter per option
    table: Annotated[str, typer.Argument(help="KEYSPACE.TABLE")],
    columns: Annotated[list[str], typer.Argument(help="name:type, such as total:double.")],
    *,
    key: Annotated[
        str | None,
        typer.Option(
            help="Key columns with commas; the first column by default.", show_default=False
        ),
    ] = None,
    actor: ActorOption = None,
    reason: ReasonOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a table. Types: string, bigint, int, double, boolean, binary, timestamp.

    Example: ringlog schema create-table shop.orders id:bigint customer:string total:double
    """
    keyspace, name = _named(table)
    listed = [_column(text) for text in columns]
    wanted = {
        "kind": "CreateTable",
        "keyspace": keyspace,
        "name": name,
        "columns": listed,
        "partition_key": key.split(",") if key else [listed[0]["name"]],
    }
    _commit(wanted, (state_dir, url, token), (actor, reason), as_json=as_json)


@schema.command()
def drop_table(  # noqa: PLR0913 one parameter per option
    table: Annotated[str, typer.Argument(help="KEYSPACE.TABLE")],
    *,
    yes: YesOption = False,
    actor: ActorOption = None,
    reason: ReasonOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Drop a table with its rows. On a terminal it asks.

    Example: ringlog schema drop-table shop.orders
    """
    keyspace, name = _named(table)
    if not (yes or as_json):
        confirm(f"Drop table {table} with all its rows?")
    wanted = {"kind": "DropTable", "keyspace": keyspace, "name": name}
    _commit(wanted, (state_dir, url, token), (actor, reason), as_json=as_json)


def _commit(
    wanted: dict[str, Any], where: Where, why: tuple[str | None, str | None], *, as_json: bool
) -> None:
    from ringlog.commands.asking import talking
    from ringlog.commands.commit import say_committed

    actor, reason = why
    with talking(*where) as talk:
        outcome = talk.commit(wanted, actor=actor, reason=reason, as_json=as_json)
    say_committed(outcome, wanted["kind"], as_json=as_json)


def _rows(keyspace: dict[str, Any]) -> list[list[object]]:
    replication = keyspace["replication"]
    told = replication.get("factor") or replication.get("factors")
    named = [keyspace["name"], f"{replication['strategy']} {told}"]
    return [
        [
            *named,
            table["name"],
            table["id"],
            ", ".join(table["partition_key"]),
            ", ".join(f"{item['name']}:{item['type']}" for item in table["columns"]),
        ]
        for table in keyspace["tables"]
    ] or [[*named, None, None, None, None]]


def _replication(factor: int | None, datacenters: list[str] | None) -> dict[str, Any]:
    if (factor is None) == (not datacenters):
        raise end("Give either --factor or --datacenter NAME=REPLICAS.", Exit.WRONG_USE)
    if factor is not None:
        return {"strategy": "simple", "factor": factor}
    factors = {}
    for text in datacenters or ():
        name, equals, number = text.partition("=")
        if not (name and equals and number.isdigit()):
            raise end(f"{text!r} is no datacenter: write NAME=REPLICAS.", Exit.WRONG_USE)
        factors[name] = int(number)
    return {"strategy": "network", "factors": factors}


def _named(text: str) -> tuple[str, str]:
    from ringlog.commands.values import ValuesError, split_name

    try:
        return split_name(text)
    except ValuesError as error:
        raise end(str(error), Exit.WRONG_USE) from None


def _column(text: str) -> dict[str, str]:
    name, colon, kind = text.partition(":")
    if not (name and colon and kind):
        raise end(f"{text!r} is no column: write NAME:TYPE.", Exit.WRONG_USE)
    return {"name": name, "type": kind}
