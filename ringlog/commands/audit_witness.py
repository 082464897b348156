"""`ringlog audit witness`: cosign a log's checkpoints for as long as it only grows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ringlog.commands.audit_source import audit_sentences, proofs_of
from ringlog.commands.ending import Exit, end, endless, sentences
from ringlog.commands.options import JsonOption, StateDirOption, TokenOption, UrlOption
from ringlog.commands.printing import print_json
from ringlog.commands.saying import say

if TYPE_CHECKING:
    # At run time they come when the verb runs, so that --help stays quick.
    from audit.checkpoints import SignedCheckpoint
    from audit.witnessing import Witness
    from ringlog.live_proofs import LiveProofs

EVERY_S = 10.0


def witness(  # noqa: PLR0913 one parameter per option
    *,
    key: Annotated[Path, typer.Option(help="The private key that `keygen --witness` made.")],
    log_key: Annotated[
        list[str], typer.Option(help="A public key of the log, or its file; one must have signed.")
    ],
    keep_in: Annotated[Path, typer.Option(help="A folder for what was cosigned last.")],
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = EVERY_S,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Watch a log from outside: cosign each checkpoint that extends the last, and nothing else.

    Ends with exit code 1 when the log forked or lost entries; what it showed is kept as evidence.
    The newest cosigned one is the file `checkpoint` in --keep-in; `audit verify --checkpoint` takes
    it, with the witness's public key as --key.

    Example: ringlog audit witness --key witness.key --log-key ledger.key.pub --keep-in seen/
    """
    from audit.keys import load_private, load_public
    from audit.witnessing import Witness

    with sentences(), audit_sentences():
        made = Witness(keep_in, load_private(key), [load_public(text) for text in log_key])
        with made.alone(), proofs_of(state_dir, url, token) as proofs:
            _say(_looked(made, proofs), as_json=as_json)
            if not once:
                _go_on(made, proofs, every, as_json=as_json)


def _go_on(made: Witness, proofs: LiveProofs, every_s: float, *, as_json: bool) -> None:
    with endless():
        while True:
            time.sleep(every_s)
            _watch(made, proofs, as_json=as_json)


def _watch(made: Witness, proofs: LiveProofs, *, as_json: bool) -> None:
    """A log that is away may come back; one that is another does not."""
    from client.errors import UnreachableError

    before = made.last()
    try:
        signed = _looked(made, proofs)
    except UnreachableError as error:
        say(str(error), err=True)
        return
    if before is None or before.checkpoint != signed.checkpoint:
        _say(signed, as_json=as_json)


def _looked(made: Witness, proofs: LiveProofs) -> SignedCheckpoint:
    from audit.witnessing import ForkError
    from client.errors import ClientError

    given = proofs.checkpoint()
    last = made.last()
    proof: Sequence[bytes] = ()
    answered = ""
    # A log that shrank, or is another one of the same size, needs no proof to be refused.
    if last is not None and last.checkpoint.size < given.checkpoint.size:
        try:
            proof = proofs.consistency(last.checkpoint.size, given.checkpoint.size)
        except ClientError as error:
            # One that is away is asked again. Whatever else it says instead of a proof does not
            # undo what it signed, which is evidence.
            if error.retriable:
                raise
            answered = f" Asked for the proof it answered: {error}"
    try:
        return made.cosign(given, proof, at_s=int(time.time()))
    except ForkError as error:
        raise end(f"REFUSED: {error}{answered}", Exit.REFUSED) from None


def _say(signed: SignedCheckpoint, *, as_json: bool) -> None:
    stated = signed.checkpoint
    if as_json:
        print_json({"origin": stated.origin, "size": stated.size, "root": stated.root.hex()})
    else:
        say(f"cosigned {stated.origin} with {stated.size} entries")
