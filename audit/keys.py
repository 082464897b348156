"""Ed25519 keys of logs and witnesses, in the text forms of C2SP signed notes.

A public key is `name+id+key`; a private one is `PRIVATE+KEY+name+id+key` in a file of its own.
"""

from __future__ import annotations

import os
import stat
from base64 import b64decode, b64encode
from enum import IntEnum
from hashlib import sha256
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

KEY_BYTES = 32
KEY_FILE_BYTES_MAX = 4096
PRIVATE = "PRIVATE+KEY+"


class KeyFormatError(ValueError):
    """This is not a key, or not one that may be used. The message is one sentence for people."""


class Algorithm(IntEnum):
    """The signature types of the signed-note specification that are used here."""

    ED25519 = 1
    COSIGNATURE = 4
    """A witness's: it signs the time, too (c2sp.org/tlog-cosignature)."""


class PublicKey(msgspec.Struct, frozen=True):
    """Who signs: a name, and a key that may be replaced under the same name."""

    name: str
    key: bytes
    algorithm: Algorithm = Algorithm.ED25519

    @property
    def id(self) -> bytes:
        typed = bytes([self.algorithm]) + self.key
        return sha256(self.name.encode() + b"\n" + typed).digest()[:4]

    @property
    def text(self) -> str:
        typed = bytes([self.algorithm]) + self.key
        return f"{self.name}+{self.id.hex()}+{b64encode(typed).decode()}"

    def verifies(self, signature: bytes, message: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(self.key).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True


class PrivateKey(msgspec.Struct, frozen=True):
    name: str
    seed: bytes
    algorithm: Algorithm = Algorithm.ED25519

    @property
    def public(self) -> PublicKey:
        key = Ed25519PrivateKey.from_private_bytes(self.seed).public_key().public_bytes_raw()
        return PublicKey(self.name, key, self.algorithm)

    @property
    def text(self) -> str:
        typed = b64encode(bytes([self.algorithm]) + self.seed).decode()
        return f"{PRIVATE}{self.name}+{self.public.id.hex()}+{typed}"

    def sign(self, message: bytes) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(self.seed).sign(message)

    def __repr__(self) -> str:
        return f"PrivateKey({self.name!r})"


def generate(name: str, algorithm: Algorithm = Algorithm.ED25519) -> PrivateKey:
    check_name(name)
    return PrivateKey(name, Ed25519PrivateKey.generate().private_bytes_raw(), algorithm)


def check_name(name: str) -> None:
    if not name or "+" in name or any(mark.isspace() or mark < " " for mark in name):
        raise KeyFormatError(f"{name!r} cannot name a key: leave out blanks and plus signs.")


def parse_public(text: str) -> PublicKey:
    name, key_id, algorithm, data = _parts(text.strip())
    key = PublicKey(name, data, algorithm)
    if key.id != key_id:
        raise KeyFormatError(f"The id of key {name} is not that of its bytes: copy it again.")
    return key


def parse_private(text: str) -> PrivateKey:
    if not text.startswith(PRIVATE):
        raise KeyFormatError(f"A private key begins with {PRIVATE}.")
    name, key_id, algorithm, seed = _parts(text.strip().removeprefix(PRIVATE))
    key = PrivateKey(name, seed, algorithm)
    if key.public.id != key_id:
        raise KeyFormatError(f"The id of key {name} is not that of its bytes: copy it again.")
    return key


def save(key: PrivateKey, path: Path) -> None:
    """Write the private key for its owner alone, and never over another; `.pub` goes beside it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with os.fdopen(os.open(path, flags, 0o600), "w") as file:
            file.write(key.text + "\n")
    except FileExistsError:
        raise KeyFormatError(f"{path} is there already: choose another file.") from None
    except OSError as error:
        raise KeyFormatError(f"{path} cannot be written: {error.strerror}.") from error
    path.with_name(path.name + ".pub").write_text(key.public.text + "\n")


def load_private(path: Path) -> PrivateKey:
    """A key that others can read is no secret, so it is refused."""
    text = _read(path)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise KeyFormatError(f"Others can read {path}: run chmod 600 on it.")
    return parse_private(text)


def load_public(text_or_path: str) -> PublicKey:
    """The key itself, or the file that holds it."""
    path = Path(text_or_path)
    is_key = text_or_path.count("+") >= 2 and not path.exists()  # noqa: PLR2004 name+id+key
    return parse_public(text_or_path if is_key else _read(path))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(KEY_FILE_BYTES_MAX).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise KeyFormatError(f"The key in {path} cannot be read: {error}.") from error


def _parts(text: str) -> tuple[str, bytes, Algorithm, bytes]:
    try:
        name, key_id, data = text.split("+", 2)
        check_name(name)
        typed = b64decode(data, validate=True)
        found = name, bytes.fromhex(key_id), Algorithm(typed[0]), typed[1:]
    except KeyFormatError:
        raise
    except (ValueError, IndexError) as error:
        raise KeyFormatError("This is not an Ed25519 key of the form name+id+key.") from error
    if len(found[3]) != KEY_BYTES:
        raise KeyFormatError(f"An Ed25519 key has {KEY_BYTES} bytes, not {len(found[3])}.")
    return found
