"""The environment as one frozen value, read once when a process starts."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

import msgspec

PORT_MAX = 65_535


class SettingsError(Exception):
    """A setting is missing or makes no sense; the message says which and what to do."""


class Listen(msgspec.Struct, frozen=True):
    """Where to listen; a shared port is one that several processes take together."""

    host: str
    port: int
    is_shared: bool = False


class CmsSettings(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    dsn: str
    listen: Listen
    own_listen: Listen
    tokens_file: Path | None
    certificate: Path | None
    key: Path | None

    @property
    def own_url(self) -> str:
        """Where other processes reach just this one."""
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://{self.own_listen.host}:{self.own_listen.port}"

    def ssl_context(self) -> ssl.SSLContext | None:
        if self.certificate is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, self.key)
        return context


def cms_settings(environment: Mapping[str, str]) -> CmsSettings:
    return CmsSettings(
        name=environment.get("RINGLOG_NAME", "cms-1"),
        dsn=_needed(environment, "RINGLOG_POSTGRES_DSN"),
        listen=_listen(environment, "RINGLOG_LISTEN", "127.0.0.1:7480", is_shared=True),
        own_listen=_listen(environment, "RINGLOG_OWN_LISTEN", "127.0.0.1:7490", is_shared=False),
        tokens_file=_path(environment, "RINGLOG_TOKENS_FILE"),
        certificate=_path(environment, "RINGLOG_TLS_CERT"),
        key=_path(environment, "RINGLOG_TLS_KEY"),
    )


def _needed(environment: Mapping[str, str], name: str) -> str:
    found = environment.get(name)
    if not found:
        raise SettingsError(f"{name} is not set")
    return found


def _path(environment: Mapping[str, str], name: str) -> Path | None:
    found = environment.get(name)
    if not found:
        return None
    path = Path(found)
    if not path.is_file():
        raise SettingsError(f"{name} names {found}, which is not a file")
    return path


def _listen(environment: Mapping[str, str], name: str, default: str, *, is_shared: bool) -> Listen:
    given = environment.get(name, default)
    host, _, port = given.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) <= PORT_MAX:
        raise SettingsError(f"{name} is {given!r}; it should be like {default}")
    return Listen(host, int(port), is_shared)
