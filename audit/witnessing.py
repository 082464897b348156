"""A witness: it cosigns a log's checkpoints for as long as each extends the one before.

Whoever trusts the witness need not trust the log: a log that shows different histories to
different people cannot have both cosigned (c2sp.org/tlog-cosignature).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from audit.checkpoints import CHECKPOINT_BYTES_MAX, SignedCheckpoint, parse_checkpoint
from audit.keys import Algorithm, KeyFormatError, PrivateKey, PublicKey
from audit.merkle import consistency_holds
from audit.notes import NoteError

STATE = "checkpoint"
EVIDENCE = "refused"
LOCK = "lock"


class ForkError(Exception):
    """The log is not the one that was cosigned before. The message is one sentence for people."""


class WitnessError(Exception):
    """The witness cannot do its work. The message is one sentence for people."""


def check_extends(
    given: SignedCheckpoint, before: SignedCheckpoint | None, proof: Sequence[bytes]
) -> None:
    """Raise unless the log that is stated extends the one that was cosigned before.

    A log that grew and gives no proof has an empty one.
    """
    if before is None:
        return
    new, old = given.checkpoint, before.checkpoint
    if not new.is_of_log(old.origin):
        raise ForkError(f"This is {new.origin}, and {old.origin} was cosigned before.")
    if new.size < old.size:
        raise ForkError(
            f"The log has {new.size} entries, and {old.size} were cosigned: it has lost some."
        )
    if not proof and new.size > old.size > 0:
        raise ForkError(
            f"The log of {new.size} entries was not proved to extend the one of {old.size} that "
            "was cosigned."
        )
    if not consistency_holds(old.size, old.root, new.size, new.root, proof):
        raise ForkError(
            f"The log of {new.size} entries does not extend the one of {old.size} that was "
            "cosigned: it is another history."
        )


class Witness:
    """One log, one key, one folder. What is cosigned is on disk before anybody sees it."""

    def __init__(self, folder: Path, key: PrivateKey, log_keys: Sequence[PublicKey]) -> None:
        if key.algorithm is not Algorithm.COSIGNATURE:
            raise KeyFormatError(
                f"{key.name} is not the key of a witness: make one by keygen --witness."
            )
        self._folder = folder
        self._key = key
        self._log_keys = log_keys

    def last(self) -> SignedCheckpoint | None:
        """What was cosigned last; a file that cannot be believed is never taken for none."""
        try:
            with (self._folder / STATE).open("rb") as file:
                found = parse_checkpoint(file.read(CHECKPOINT_BYTES_MAX))
            signers = found.verified_by([self._key.public])
        except FileNotFoundError:
            return None
        except (OSError, NoteError) as error:
            raise WitnessError(f"What was cosigned last cannot be read: {error}.") from error
        if not signers:
            raise WitnessError(
                f"What was cosigned last in {self._folder} is by another key than {self._key.name}."
            )
        return found

    def check_stated(self, given: SignedCheckpoint) -> None:
        """Only what the log itself signed is worth a look."""
        try:
            signers = given.verified_by(self._log_keys)
        except NoteError as error:
            raise ForkError(f"The checkpoint cannot be believed: {error}.") from error
        if not signers:
            raise ForkError("The checkpoint is signed by none of the keys of the log.")

    def cosign(
        self, given: SignedCheckpoint, proof: Sequence[bytes], *, at_s: int
    ) -> SignedCheckpoint:
        """Cosign it, or keep it as evidence and raise a `ForkError`."""
        try:
            self.check_stated(given)
            check_extends(given, self.last(), proof)
        except ForkError:
            self._write(EVIDENCE, given.encode())
            raise
        signed = given.signed(self._key, at_s=at_s)
        self._write(STATE, signed.encode())
        return signed

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Two witnesses in one folder could cosign two histories."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / LOCK).open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise WitnessError(f"Another witness works in {self._folder}.") from None
            yield

    def _write(self, name: str, data: bytes) -> None:
        aside = self._folder / f"{name}.partial"
        try:
            with aside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            aside.rename(self._folder / name)
            handle = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise WitnessError(f"{self._folder / name} cannot be written: {error}.") from error
