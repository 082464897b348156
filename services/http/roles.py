"""Who somebody is: bearer tokens, and the roles they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from hashlib import sha256
from hmac import compare_digest
from ipaddress import ip_address
from pathlib import Path

import msgspec


class Role(IntEnum):
    """Each may do all that the ones below it may."""

    VIEWER = 1
    NODE = 2
    OPERATOR = 3
    ADMIN = 4


class TokensError(Exception):
    """The tokens cannot be used, or there must be some. Says why, never what they are."""


class Tokens:
    """Knows the digests of the tokens only, so that comparing takes the same time for all."""

    def __init__(self, by_role: Mapping[Role, str]) -> None:
        self._digests = {role: _digest(token) for role, token in by_role.items()}

    def role_of(self, authorization: str | None) -> Role | None:
        """The highest role that the `Authorization` header proves."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        given = _digest(token.strip())
        # Compare with every one, whichever matches.
        proved = [role for role, kept in self._digests.items() if compare_digest(kept, given)]
        return max(proved, default=None)


def load_tokens(path: Path) -> Tokens:
    """Tokens from a file `{role: token}`."""
    try:
        content = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except (OSError, ValueError) as error:
        raise TokensError(f"{path} is not a file of tokens: {type(error).__name__}") from error
    roles = {role.name.lower(): role for role in Role}
    unknown = sorted(content.keys() - roles.keys())
    if unknown:
        raise TokensError(f"{path}: {unknown[0]!r} is not a role; roles are {', '.join(roles)}")
    if not content or not all(content.values()):
        raise TokensError(f"{path}: there is no token, or an empty one")
    return Tokens({roles[name]: token for name, token in content.items()})


def check_open(host: str) -> None:
    """A service without tokens may listen only where nobody else can reach it."""
    try:
        local = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local:
        raise TokensError(f"without tokens the service listens on 127.0.0.1 only, not on {host}")


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()
