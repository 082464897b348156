"""Checkpoints and proofs of a running cluster, asked for over HTTP and checked here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from audit.archive import Hex32
from audit.bundle import Bundle, bundled, earlier_of
from audit.checkpoints import SignedCheckpoint, parse_checkpoint
from audit.merkle import PROOF_HASHES_MAX, consistency_holds, inclusion_holds, leaf_hash
from audit.notes import NoteError
from client.connection import Connection
from client.containers import verified_container
from client.errors import AnswerError
from client.transport import Request
from log.containers import MEDIA_TYPE
from log.entry import SealedEntry
from metadata.epoch import Epoch


class _Proof(msgspec.Struct, frozen=True):
    proof: tuple[Hex32, ...]


class LiveProofs:
    """What one cluster says of itself; nothing of it is believed before it was checked."""

    def __init__(self, runner: asyncio.Runner, connection: Connection) -> None:
        self._runner = runner
        self._connection = connection

    def checkpoint(self) -> SignedCheckpoint:
        try:
            return parse_checkpoint(self._read(Request(path="/v1/checkpoint", accept="text/plain")))
        except NoteError as error:
            raise AnswerError(f"The checkpoint cannot be read: {error}.") from error

    def consistency(self, old: int, size: int) -> Sequence[bytes]:
        """The proof that is said to show it."""
        return self._proof("/v1/proofs/consistency", {"from": old, "to": size})

    def bundle(self, epoch: Epoch, *, since: SignedCheckpoint | None) -> Bundle:
        """A proof of an entry under the newest checkpoint, and that it extends an earlier one."""
        signed = self.checkpoint()
        stated = signed.checkpoint
        sealed = self._entry(epoch)
        proof = self._proof("/v1/proofs/inclusion", {"epoch": epoch, "size": stated.size})
        leaf = leaf_hash(sealed.hash)
        if not inclusion_holds(leaf, epoch - 1, stated.size, stated.root, proof):
            raise AnswerError(f"The log does not prove that epoch {epoch} is in it.")
        if since is None:
            return bundled(sealed, signed, proof, None)
        old = since.checkpoint
        grown = self.consistency(old.size, stated.size)
        if not old.is_of_log(stated.origin) or not consistency_holds(
            old.size, old.root, stated.size, stated.root, grown
        ):
            raise AnswerError("The log does not extend the checkpoint that you kept.")
        return bundled(sealed, signed, proof, earlier_of(since, grown))

    def _entry(self, epoch: Epoch) -> SealedEntry:
        body = self._read(Request(path=f"/v1/log/{epoch}", accept=MEDIA_TYPE))
        for sealed in verified_container(body, after=Epoch(epoch - 1), after_hash=None):
            return sealed
        raise AnswerError(f"The answer does not hold epoch {epoch}.")

    def _proof(self, path: str, query: dict[str, str | int]) -> Sequence[bytes]:
        body = self._read(Request(path=path, query=query))
        try:
            found = msgspec.json.decode(body, type=_Proof).proof
        except ValueError as error:
            raise AnswerError(f"The proof cannot be read: {error}.") from error
        if len(found) > PROOF_HASHES_MAX:
            raise AnswerError("The proof is longer than that of any log.")
        return [bytes.fromhex(item) for item in found]

    def _read(self, request: Request) -> bytes:
        return self._runner.run(self._connection.read(request))


@contextmanager
def live_proofs(connect: Callable[[], Connection]) -> Iterator[LiveProofs]:
    """`connect` is called inside the event loop that runs while the block does."""
    with asyncio.Runner() as runner:
        connection = runner.run(_made(connect))
        try:
            yield LiveProofs(runner, connection)
        finally:
            runner.run(connection.close())


async def _made(connect: Callable[[], Connection]) -> Connection:
    return connect()
