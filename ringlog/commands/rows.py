"""`ringlog put`, `get` and `delete`: one row, through any node that is up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ringlog.commands.completing import table_names
from ringlog.commands.ending import Exit, end, undoubted
from ringlog.commands.options import JsonOption, StateDirOption, TokenOption, UrlOption
from ringlog.commands.printing import print_json, short
from ringlog.commands.saying import say

if TYPE_CHECKING:
    # At run time it comes when a verb runs, so that --help stays quick.
    from ringlog.commands.asking import Talk

LEVELS = ("one", "quorum", "all")
OK = 200
WRITE_UNKNOWN = "write_unknown"
WRITTEN = ("the row was written", "Write it again.")
DELETED = ("the row was deleted", "Delete it again.")
MISUSED = frozenset({400, 404, 405, 413, 414, 415, 422})

TableArgument = Annotated[
    str,
    typer.Argument(help="KEYSPACE.TABLE", show_default=False, autocompletion=table_names),
]
KeyArgument = Annotated[
    str,
    typer.Argument(
        help="The key; several columns with commas, a comma inside as %2C.", show_default=False
    ),
]
ConsistencyOption = Annotated[
    str, typer.Option("--consistency", "-c", help="one, quorum or all: how many must answer.")
]
TimestampOption = Annotated[
    int | None,
    typer.Option(
        "--timestamp",
        min=0,
        help="Microseconds since 1970; the newest write wins. Now by default.",
        show_default=False,
    ),
]


def put(  # noqa: PLR0913 one parameter per option
    table: TableArgument,
    key: KeyArgument,
    values: Annotated[
        list[str] | None,
        typer.Argument(help="Columns: name=text, or name:=JSON.", show_default=False),
    ] = None,
    *,
    timestamp: TimestampOption = None,
    consistency: ConsistencyOption = "quorum",
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a row, whole: a column that is left out is null.

    Example: ringlog put shop.orders 42 customer=ada total=9.50
    """
    from ringlog.commands.asking import talking
    from ringlog.commands.values import ValuesError, columns_of, key_path, table_in

    _check(consistency)
    with talking(state_dir, url, token) as talk:
        try:
            found = table_in(talk.get("/v1/metadata/schema"), table)
            columns = columns_of(found, values or [])
            path = key_path(found, key)
        except ValuesError as error:
            raise end(str(error), Exit.WRONG_USE) from None
        body = {"columns": columns, "timestamp": timestamp}
        with undoubted(*WRITTEN):
            answer = _asked(talk, "PUT", f"{path}?consistency={consistency}", body)
    if as_json:
        print_json(answer)
    else:
        say(f"written at epoch {answer['epoch']}, timestamp {answer['timestamp']}")


def delete(  # noqa: PLR0913 one parameter per option
    table: TableArgument,
    key: KeyArgument,
    *,
    timestamp: TimestampOption = None,
    consistency: ConsistencyOption = "quorum",
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete a row, whether or not there is one.

    Example: ringlog delete shop.orders 42
    """
    from ringlog.commands.asking import talking
    from ringlog.commands.values import ValuesError, key_path, table_in

    _check(consistency)
    given = "" if timestamp is None else f"&timestamp={timestamp}"
    with talking(state_dir, url, token) as talk:
        try:
            path = key_path(table_in(talk.get("/v1/metadata/schema"), table), key)
        except ValuesError as error:
            raise end(str(error), Exit.WRONG_USE) from None
        with undoubted(*DELETED):
            answer = _asked(talk, "DELETE", f"{path}?consistency={consistency}{given}", None)
    if as_json:
        print_json(answer)
    else:
        say(f"deleted at epoch {answer['epoch']}, timestamp {answer['timestamp']}")


def get(  # noqa: PLR0913 one parameter per option
    table: TableArgument,
    key: KeyArgument,
    *,
    consistency: ConsistencyOption = "quorum",
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read a row. There is none: exit code 1.

    Example: ringlog get shop.orders 42 --consistency all
    """
    from ringlog.commands.asking import talking
    from ringlog.commands.values import ValuesError, key_path, table_in

    _check(consistency)
    with talking(state_dir, url, token) as talk:
        try:
            path = key_path(table_in(talk.get("/v1/metadata/schema"), table), key)
        except ValuesError as error:
            raise end(str(error), Exit.WRONG_USE) from None
        answer = _asked(talk, "GET", f"{path}?consistency={consistency}", None)
    if as_json:
        print_json(answer)
        return
    for name, value in answer["columns"].items():
        say(f"{name}: {short(value)}")


def _check(consistency: str) -> None:
    if consistency not in LEVELS:
        raise end(f"--consistency is one of {', '.join(LEVELS)}.", Exit.WRONG_USE)


def _asked(talk: Talk, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
    """The answer of the first node that is up and takes a connection."""
    from ringlog.commands.node_asking import DoubtError, NotReachedError, asked, coordinators

    members = coordinators(talk.roster().members)
    if not members:
        raise end("No node is up: `ringlog nodes` shows them all.", Exit.NOT_REACHABLE)
    try:
        status, answer = asked(members, method, path, body, token=talk.found.token)
    except NotReachedError as error:
        raise end(str(error), Exit.NOT_REACHABLE) from None
    except DoubtError as error:
        raise _doubt(method, f"{error}.") from None
    if status == OK:
        return answer
    said = answer.get("detail") or answer.get("title") or f"The node answered {status}."
    code = answer.get("code", "unknown")
    if code == WRITE_UNKNOWN:
        raise _doubt(method, said)
    if code == "no_row" or status not in MISUSED:
        raise end(f"refused ({code}): {said}", Exit.REFUSED)
    raise end(said, Exit.WRONG_USE)


def _doubt(method: str, why: str) -> typer.Exit:
    what, remedy = DELETED if method == "DELETE" else WRITTEN
    return end(f"It is not known whether {what}: {why} {remedy}", Exit.NOT_REACHABLE)
