"""`ringlog commit`: one transformation, decided and appended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID, uuid4

import typer

from ringlog.commands.completing import kinds
from ringlog.commands.doubting import remedy
from ringlog.commands.ending import Exit, end, undoubted
from ringlog.commands.finding import cluster
from ringlog.commands.options import JsonOption, StateDirOption, TokenOption, UrlOption
from ringlog.commands.printing import print_json, short
from ringlog.commands.saying import say

if TYPE_CHECKING:
    # At run time they come when the verb runs, so that --help stays quick.
    from client.answers import Committed, Rejected

Transformation = dict[str, Any]


def commit(  # noqa: PLR0913 one parameter per option
    transformation: Annotated[
        str,
        typer.Argument(
            help='A kind, or a whole transformation as JSON: {"kind": …}; - reads it.',
            autocompletion=kinds,
        ),
    ],
    fields: Annotated[
        list[str] | None,
        typer.Argument(help="Fields of the kind: name=text, or name:=JSON.", show_default=False),
    ] = None,
    *,
    entry_id: Annotated[
        UUID | None,
        typer.Option(
            help="To send again what was sent before; a new one by default.", show_default=False
        ),
    ] = None,
    actor: Annotated[
        str | None, typer.Option(help="Who; kept in the log.", show_default=False)
    ] = None,
    reason: Annotated[
        str | None, typer.Option(help="Why; kept in the log.", show_default=False)
    ] = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Commit a transformation. Refused is exit code 1.

    Example: ringlog commit CreateKeyspace name=shop
    'replication:={"strategy": "simple", "factor": 3}'
    """
    proposed = _transformation(transformation, fields or [])
    with cluster(state_dir, url, token) as client:
        from client.answers import Committed

        sent_as = entry_id or uuid4()
        with undoubted("the commit was made", remedy(proposed, sent_as, actor, reason)):
            outcome = client.commit(proposed, entry_id=sent_as, actor=actor, reason=reason)
    if isinstance(outcome, Committed):
        say_committed(outcome, str(proposed["kind"]), as_json=as_json)
        return
    say_rejected(outcome, as_json=as_json)
    raise typer.Exit(Exit.REFUSED)


def say_committed(outcome: Committed, kind: str, *, as_json: bool) -> None:
    import msgspec

    result = msgspec.to_builtins(outcome.result)
    if as_json:
        view = {"epoch": outcome.epoch, "entry_id": str(outcome.entry_id)}
        print_json({**view, "result": result, "hash": outcome.hash.hex()})
        return
    said = ", ".join(f"{name} {short(value)}" for name, value in result.items())
    say(f"committed: {kind} at epoch {outcome.epoch}" + (f", {said}" if said else ""))


def say_rejected(outcome: Rejected, *, as_json: bool) -> None:
    import msgspec

    if as_json:
        plain = msgspec.to_builtins(outcome)
        print_json({name: value for name, value in plain.items() if value not in (None, [], ())})
        return
    hint = f"; {outcome.remedy}" if outcome.remedy else ""
    say(f"refused ({outcome.code}): {outcome.detail}{hint}", err=True, fg=typer.colors.RED)


def _transformation(text: str, fields: list[str]) -> Transformation:
    if text == "-":
        text = typer.get_text_stream("stdin").read()
    is_json = text.lstrip().startswith("{")
    found = _json(text, "The transformation") if is_json else {"kind": text}
    if not isinstance(found, dict) or not isinstance(found.get("kind"), str):
        raise end('A transformation is an object with "kind".', Exit.WRONG_USE)
    return {**found, **dict(map(_field, fields))}


def _field(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.rstrip(":"):
        raise end(f"{text!r} is no field: write name=text or name:=JSON.", Exit.WRONG_USE)
    if name.endswith(":"):
        return name[:-1], _json(value, name[:-1])
    return name, value


def _json(text: str, what: str) -> Any:  # noqa: ANN401 whatever was written
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise end(f"{what} is not valid JSON: {error}.", Exit.WRONG_USE) from None
