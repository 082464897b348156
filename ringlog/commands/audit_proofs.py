"""`ringlog audit keygen|prove|check-proof`: keys, and proofs for those who do not trust us."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ringlog.commands.audit_source import audit_sentences, opened, proofs_of
from ringlog.commands.ending import Exit, end, sentences
from ringlog.commands.options import JsonOption, StateDirOption, TokenOption, UrlOption
from ringlog.commands.printing import print_json
from ringlog.commands.saying import say
from ringlog.commands.spinning import spinning

if TYPE_CHECKING:
    # At run time it comes when the verb runs, so that --help stays quick.
    from audit.checkpoints import SignedCheckpoint

FILE_BYTES_MAX = 64 * 1024 * 1024

SinceOption = Annotated[
    Path | None,
    typer.Option(help="A checkpoint that you kept from before.", show_default=False),
]


def keygen(
    name: Annotated[str, typer.Argument(help="Whose key, without blanks: ledger.example.org.")],
    *,
    out: Annotated[Path, typer.Option(help="Where the private key goes; .pub goes beside it.")],
    witness: Annotated[
        bool, typer.Option("--witness", help="For a witness, who cosigns and says when.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a key to sign archives and checkpoints with.

    Example: ringlog audit keygen ledger.example.org --out ledger.key
    """
    from audit.keys import Algorithm, generate, save

    with sentences(), audit_sentences():
        key = generate(name, Algorithm.COSIGNATURE if witness else Algorithm.ED25519)
        save(key, out)
    if as_json:
        print_json({"name": name, "public": key.public.text, "private_file": str(out)})
    else:
        typer.echo(f"{out} is the private key; give others {out}.pub:\n{key.public.text}")


def prove(  # noqa: PLR0913 one parameter per option
    epoch: Annotated[int, typer.Argument(min=1, help="Of which entry.")],
    *,
    archive: Annotated[
        str | None,
        typer.Option(
            help="An archive that was signed. Without it the cluster is asked, which needs "
            "RINGLOG_LOG_KEY.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the proof goes.")],
    since: SinceOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a file that proves to others that an entry is in the log.

    Example: ringlog audit prove 42 --archive backup/ --out entry-42.proof
    """
    from audit.bundle import encode_bundle
    from audit.bundle import prove as bundle_for
    from metadata.epoch import Epoch

    with sentences(), audit_sentences():
        earlier = None if since is None else _checkpoint(since)
        if archive is not None:
            with spinning("proving"):
                bundle = bundle_for(opened(archive), Epoch(epoch), since=earlier)
        else:
            with proofs_of(state_dir, url, token) as proofs, spinning("proving"):
                bundle = proofs.bundle(Epoch(epoch), since=earlier)
        body = encode_bundle(bundle)
    try:
        out.write_bytes(body)
    except OSError as error:
        raise end(f"{out} cannot be written: {error.strerror}.", Exit.WRONG_USE) from None
    if as_json:
        print_json({"epoch": epoch, "proof": str(out)})
    else:
        say(f"{out} proves epoch {epoch} to whoever has the key.")


def check_proof(
    proof: Annotated[Path, typer.Argument(help="A file that `ringlog audit prove` wrote.")],
    *,
    key: Annotated[list[str], typer.Option(help="A public key that you trust, or its file.")],
    since: SinceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a proof. Exit code 1 if it proves nothing.

    Example: ringlog audit check-proof entry-42.proof --key ledger.key.pub
    """
    from audit.bundle import check_bundle, decode_bundle
    from audit.keys import load_public
    from ringlog.commands.audit_blame import entry_view

    with sentences(), audit_sentences():
        keys = [load_public(text) for text in key]
        remembered = None if since is None else _checkpoint(since)
        found = check_bundle(decode_bundle(read_file(proof)), keys, remembered=remembered)
    if as_json:
        names = {"signed_by": found.signed_by, "size": found.size, "earlier": found.earlier_size}
        print_json({"holds": True, **names, "entry": entry_view(found.entry)})
        return
    signers = ", ".join(found.signed_by)
    say(
        f"{found.entry.kind} is epoch {found.entry.epoch} of the log of {found.size} entries "
        f"that {signers} signed."
    )
    if found.earlier_size is not None:
        say(f"That log extends the one of {found.earlier_size} entries.")


def _checkpoint(path: Path) -> SignedCheckpoint:
    from audit.checkpoints import parse_checkpoint

    return parse_checkpoint(read_file(path))


def read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(FILE_BYTES_MAX)
    except OSError as error:
        raise end(f"{path} cannot be read: {error.strerror}.", Exit.WRONG_USE) from None
