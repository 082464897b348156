"""How a Kafka cluster lets us in: encryption, and who we are."""

from __future__ import annotations

import ssl
from enum import StrEnum
from typing import Any

import msgspec


class Security(StrEnum):
    """By the names that Kafka has for them."""

    PLAINTEXT = "plaintext"
    SSL = "ssl"
    SASL_PLAINTEXT = "sasl_plaintext"
    SASL_SSL = "sasl_ssl"

    @property
    def is_encrypted(self) -> bool:
        return self in {Security.SSL, Security.SASL_SSL}

    @property
    def has_user(self) -> bool:
        return self in {Security.SASL_PLAINTEXT, Security.SASL_SSL}


class Mechanism(StrEnum):
    PLAIN = "plain"
    SCRAM_SHA_256 = "scram-sha-256"
    SCRAM_SHA_512 = "scram-sha-512"


class Login(msgspec.Struct, frozen=True, kw_only=True):
    mechanism: Mechanism = Mechanism.PLAIN
    user: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.mechanism.value}, {self.user!r})"


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The same for producer, consumer and admin."""

    security: Security = Security.PLAINTEXT
    tls: ssl.SSLContext | None = None
    login: Login | None = None

    def options(self) -> dict[str, Any]:
        """As the library names them."""
        found: dict[str, Any] = {"security_protocol": self.security.value.upper()}
        if self.tls is not None:
            found["ssl_context"] = self.tls
        if self.login is not None:
            found["sasl_mechanism"] = self.login.mechanism.value.upper()
            found["sasl_plain_username"] = self.login.user
            found["sasl_plain_password"] = self.login.password
        return found


OPEN = Access()


class Brokers(msgspec.Struct, frozen=True):
    """Where a cluster is, and how it lets us in."""

    bootstrap: str
    access: Access = OPEN
