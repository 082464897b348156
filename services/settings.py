"""Settings: `RINGLOG_*` variables become one frozen value, read once when a process starts."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

import msgspec

PREFIX = "RINGLOG_"
PORT_MAX = 65535


class SettingsError(Exception):
    """A variable is missing or makes no sense; says which, never what a secret one holds."""


class Listen(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen; a shared address is one that other processes listen on as well."""

    host: str
    port: int
    is_shared: bool

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class CmsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One CMS process: `listen` is where clients come, `own_listen` where only this one answers."""

    dsn: str
    name: str
    listen: Listen
    own_listen: Listen
    tokens_file: Path | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None

    @property
    def own_url(self) -> str:
        scheme = "http" if self.tls_certificate is None else "https"
        return f"{scheme}://{self.own_listen.authority}"

    def ssl_context(self) -> ssl.SSLContext | None:
        """None without certificate files; half of them is a mistake."""
        if self.tls_certificate is None and self.tls_key is None:
            return None
        if self.tls_certificate is None or self.tls_key is None:
            raise SettingsError("RINGLOG_TLS_CERTIFICATE and RINGLOG_TLS_KEY belong together")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.tls_certificate, self.tls_key)
        except OSError as error:
            raise SettingsError(f"the TLS files cannot be used: {error}") from error
        return context


def cms_settings(environment: Mapping[str, str]) -> CmsSettings:
    """From the environment; an empty variable counts as absent."""
    given = {
        name.removeprefix(PREFIX): value
        for name, value in environment.items()
        if name.startswith(PREFIX) and value
    }
    if "POSTGRES_DSN" not in given:
        raise SettingsError("RINGLOG_POSTGRES_DSN is not set: postgresql://…")
    tokens = given.get("TOKENS_FILE")
    return CmsSettings(
        dsn=given["POSTGRES_DSN"],
        name=given.get("NAME", "cms-1"),
        listen=_listen("LISTEN", given.get("LISTEN", "127.0.0.1:7400"), is_shared=True),
        own_listen=_listen("OWN_LISTEN", given.get("OWN_LISTEN", "127.0.0.1:7401")),
        tokens_file=None if tokens is None else Path(tokens),
        tls_certificate=given.get("TLS_CERTIFICATE"),
        tls_key=given.get("TLS_KEY"),
    )


def _listen(name: str, text: str, *, is_shared: bool = False) -> Listen:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > PORT_MAX:
        raise SettingsError(f"{PREFIX}{name} must be HOST:PORT, not {text!r}")
    return Listen(host=host, port=int(port), is_shared=is_shared)
