"""`ringlog audit verify`: whether an archive is what was written, and who says so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ringlog.commands.audit_source import audit_sentences
from ringlog.commands.ending import Exit, end, sentences
from ringlog.commands.options import JsonOption
from ringlog.commands.printing import print_json
from ringlog.commands.saying import say
from ringlog.commands.spinning import Watch, counting

if TYPE_CHECKING:
    # At run time they come when the verb runs, so that --help stays quick.
    from audit.verify import Given, Verdict, Verified

STRAYS_SHOWN_MAX = 5

KeyOption = Annotated[
    list[str] | None,
    typer.Option("--key", help="A public key that you trust, or its file.", show_default=False),
]
CheckpointOption = Annotated[
    list[Path] | None,
    typer.Option(help="A checkpoint that you kept elsewhere.", show_default=False),
]


def verify(
    path: Annotated[
        list[str],
        typer.Argument(help="A folder that was exported, or its address; several that follow."),
    ],
    *,
    key: KeyOption = None,
    checkpoint: CheckpointOption = None,
    recompute: Annotated[
        bool,
        typer.Option("--recompute", help="Execute every entry again and compare its digest."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Verify an archive: every file, every hash, signatures. Exit code 1 names what is wrong.

    Several are verified each, and as one history: every seam between two is checked.

    Example: ringlog audit verify backup/ --key ledger.key.pub
    """
    from audit.verify import Fault, verify_all

    with sentences(), audit_sentences(), counting("verifying") as watch:
        verdicts = verify_all(path, given(key, checkpoint, recompute=recompute, progress=watch))
    faults = [verdict for verdict in verdicts if isinstance(verdict, Fault)]
    if as_json:
        print_json(_plain(verdicts, is_one=len(path) == 1))
    else:
        _print(path, verdicts)
    if faults:
        is_misuse = all(fault.is_misuse for fault in faults)
        raise typer.Exit(Exit.WRONG_USE if is_misuse else Exit.REFUSED)


def given(
    key: list[str] | None,
    checkpoint: list[Path] | None,
    *,
    recompute: bool = False,
    progress: Watch = lambda _done, _total: None,
) -> Given:
    from audit.anchors import Kept
    from audit.keys import load_public
    from audit.verify import Given
    from ringlog.commands.audit_proofs import read_file

    return Given(
        keys=tuple(load_public(text) for text in key or []),
        checkpoints=tuple(Kept(str(path), read_file(path)) for path in checkpoint or []),
        recompute=recompute,
        progress=progress,
    )


def all_sound(places: Sequence[str], brought: Given, *, otherwise: str) -> list[Verified]:
    """The verdicts on all, which are one history; `otherwise` begins what is said if not."""
    from audit.verify import Fault, Verified, verify_all

    verdicts = verify_all(places, brought)
    for verdict in verdicts:
        if isinstance(verdict, Fault):
            code = Exit.WRONG_USE if verdict.is_misuse else Exit.REFUSED
            raise end(f"{otherwise}: {verdict.sentence}", code)
    return [verdict for verdict in verdicts if isinstance(verdict, Verified)]


def _print(places: Sequence[str], verdicts: Sequence[Verdict]) -> None:
    from audit.verify import Fault

    for place, verdict in zip([*places, ""], verdicts, strict=False):
        name = f"{place}: " if place and len(places) > 1 else ""
        if isinstance(verdict, Fault):
            say(f"{name}{verdict.sentence}", err=True, fg=typer.colors.RED)
            continue
        say(f"{name}{verdict.sentence}")
        if verdict.strays:
            say(f"{name}{_strays(verdict.strays)}")


def _strays(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:STRAYS_SHOWN_MAX])
    more = len(paths) - STRAYS_SHOWN_MAX
    rest = f" and {more} more" if more > 0 else ""
    return f"does not belong to the archive and was not read: {shown}{rest}"


def _plain(verdicts: Sequence[Verdict], *, is_one: bool) -> dict[str, Any]:
    from audit.verify import Fault

    plain = [_plain_of(verdict) for verdict in verdicts]
    if is_one:
        return plain[0]
    faults = [verdict for verdict in verdicts if isinstance(verdict, Fault)]
    said = (faults or verdicts)[-1].sentence
    return {"holds": not faults, "said": said, "archives": plain}


def _plain_of(verdict: Verdict) -> dict[str, Any]:
    import msgspec

    from audit.verify import Verified

    plain = msgspec.to_builtins(verdict, builtin_types=(bytes,))
    holds = isinstance(verdict, Verified)
    return {"holds": holds, "said": verdict.sentence, **_hexed(plain)}


def _hexed(plain: Any) -> Any:  # noqa: ANN401 plain data
    match plain:
        case bytes():
            return plain.hex()
        case dict():
            return {name: _hexed(value) for name, value in plain.items()}
        case _:
            return plain
