"""Signed notes: a text and who vouches for it (c2sp.org/signed-note)."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable

import msgspec

from audit.keys import Algorithm, PrivateKey, PublicKey, check_name

NOTE_BYTES_MAX = 1_000_000
SIGNATURES_MAX = 100

_ID_BYTES = 4
_TIME_BYTES = 8
_DASH = "— "


class NoteError(ValueError):
    """This is not a signed note, or a signature on it is false. One sentence for people."""


class Signature(msgspec.Struct, frozen=True):
    name: str
    id: bytes
    data: bytes

    @property
    def line(self) -> str:
        return f"{_DASH}{self.name} {b64encode(self.id + self.data).decode()}\n"


class SignedNote(msgspec.Struct, frozen=True):
    """`text` ends in a newline and counts for nothing before a signature was verified."""

    text: str
    signatures: tuple[Signature, ...] = ()

    def encode(self) -> bytes:
        return (self.text + "\n" + "".join(item.line for item in self.signatures)).encode()

    def signed(self, key: PrivateKey, *, at_s: int = 0) -> SignedNote:
        """With one signature more; a witness's says when, in seconds since 1970."""
        if key.algorithm is Algorithm.COSIGNATURE:
            time = at_s.to_bytes(_TIME_BYTES, "big")
            data = time + key.sign(_cosigned(self.text, at_s))
        else:
            data = key.sign(self.text.encode())
        added = Signature(key.name, key.public.id, data)
        kept = [item for item in self.signatures if (item.name, item.id) != (added.name, added.id)]
        return SignedNote(self.text, (*kept, added))

    def verified_by(self, keys: Iterable[PublicKey]) -> tuple[PublicKey, ...]:
        """Those of the keys that signed; a false signature of any of them is a `NoteError`."""
        return tuple(key for key in keys if self._is_signed_by(key))

    def _is_signed_by(self, key: PublicKey) -> bool:
        found = [item for item in self.signatures if (item.name, item.id) == (key.name, key.id)]
        for item in found:
            if not _holds(item.data, self.text, key):
                raise NoteError(f"the signature of {key.name} is false")
        return bool(found)


def parse_note(data: bytes) -> SignedNote:
    if len(data) > NOTE_BYTES_MAX:
        raise NoteError(f"{len(data)} bytes are more than the {NOTE_BYTES_MAX} allowed")
    try:
        whole = data.decode()
    except UnicodeDecodeError as error:
        raise NoteError("it is not UTF-8") from error
    if any(mark < " " and mark != "\n" for mark in whole):
        raise NoteError("it holds control characters")
    text, blank, signatures = whole.rpartition("\n\n")
    if not blank or not signatures.endswith("\n"):
        raise NoteError("it is not a signed note")
    lines = signatures[:-1].split("\n")
    if len(lines) > SIGNATURES_MAX:
        raise NoteError(f"{len(lines)} signatures are more than the {SIGNATURES_MAX} allowed")
    return SignedNote(text + "\n", tuple(map(_signature, lines)))


def _signature(line: str) -> Signature:
    try:
        name, data = line.removeprefix(_DASH).split(" ")
        check_name(name)
        signed = b64decode(data, validate=True)
    except ValueError as error:
        raise NoteError("a signature line is malformed") from error
    found = Signature(name, signed[:_ID_BYTES], signed[_ID_BYTES:])
    # There is one way to write a signature; another one would be a change that nobody sees.
    if not found.data or found.line != line + "\n":
        raise NoteError("a signature line is malformed")
    return found


def _holds(signature: bytes, text: str, key: PublicKey) -> bool:
    if key.algorithm is Algorithm.COSIGNATURE:
        at_s = int.from_bytes(signature[:_TIME_BYTES], "big")
        return key.verifies(signature[_TIME_BYTES:], _cosigned(text, at_s))
    return key.verifies(signature, text.encode())


def _cosigned(text: str, at_s: int) -> bytes:
    return f"cosignature/v1\ntime {at_s}\n{text}".encode()
