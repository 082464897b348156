"""Settings: `RINGLOG_*` variables become one frozen value, read once when a process starts."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import msgspec

from log.kafka_access import OPEN, Access, Login, Mechanism, Security
from log.partitions import PARTITION_EPOCHS_MAX, PARTITION_EPOCHS_MIN
from metadata.barriers import Level

PREFIX = "RINGLOG_"
PORT_MAX = 65535
S = TypeVar("S", bound=StrEnum)
_DIGITS_MAX = 6


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
    """One CMS process: `listen` is where clients come, `own_listen` where only this one answers.

    `advertised` is where the others reach it, if that is not `own_listen`. If `kafka` names
    brokers, the CMS that sequences publishes the log there. `archives` are where trimmed entries
    are read; `partition_epochs` is how finely a log that is yet to begin is cut; `log_keys` are
    files of private keys that sign its checkpoints.
    """

    dsn: str
    name: str
    listen: Listen
    own_listen: Listen
    advertised: str | None = None
    kafka: str | None = None
    kafka_access: Access = OPEN
    topic: str | None = None
    tokens_file: Path | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    archives: tuple[str, ...] = ()
    partition_epochs: int | None = None
    log_keys: tuple[Path, ...] = ()

    @property
    def own_url(self) -> str:
        scheme = "http" if self.tls_certificate is None else "https"
        return f"{scheme}://{self.advertised or self.own_listen.authority}"

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


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One node: `seeds` are addresses of CMS processes, `advertised` is where others reach it.

    Entries come by Kafka if `kafka` names brokers, by NOTIFY if `dsn` names the database, by both
    or, with neither, by long poll.
    """

    name: str
    state_dir: Path
    seeds: tuple[str, ...]
    listen: Listen
    advertised: str
    datacenter: str
    rack: str
    kafka: str | None = None
    kafka_access: Access = OPEN
    topic: str | None = None
    dsn: str | None = None
    tokens_file: Path | None = None


def node_settings(environment: Mapping[str, str]) -> NodeSettings:
    given = _given(environment)
    for name in ("SEEDS", "STATE_DIR"):
        if name not in given:
            raise SettingsError(f"{PREFIX}{name} is not set")
    listen = _listen("LISTEN", given.get("LISTEN", "127.0.0.1:7500"))
    tokens = given.get("TOKENS_FILE")
    return NodeSettings(
        name=given.get("NAME", "node-1"),
        state_dir=Path(given["STATE_DIR"]),
        seeds=_seeds(given["SEEDS"]),
        listen=listen,
        advertised=given.get("ADVERTISE", listen.authority),
        datacenter=given.get("DATACENTER", "dc1"),
        rack=given.get("RACK", "r1"),
        kafka=_brokers(given.get("KAFKA")),
        kafka_access=_kafka_access(given),
        topic=given.get("KAFKA_TOPIC"),
        dsn=given.get("POSTGRES_DSN"),
        tokens_file=None if tokens is None else Path(tokens),
    )


class DriverSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One driver: `spark_master` is where its jobs run, `spark_conf` what else Spark is told.

    In `state_dir` it keeps the finer figures behind receipts; without one they are not kept.
    `barrier_level` is how many of each group of owners must have applied a step.
    """

    name: str
    seeds: tuple[str, ...]
    listen: Listen
    spark_master: str
    spark_conf: Mapping[str, str] = {}
    tokens_file: Path | None = None
    state_dir: Path | None = None
    barrier_level: Level = Level.EACH_QUORUM


def driver_settings(environment: Mapping[str, str]) -> DriverSettings:
    given = _given(environment)
    if "SEEDS" not in given:
        raise SettingsError(f"{PREFIX}SEEDS is not set")
    tokens = given.get("TOKENS_FILE")
    return DriverSettings(
        name=given.get("NAME", "driver-1"),
        seeds=_seeds(given["SEEDS"]),
        listen=_listen("LISTEN", given.get("LISTEN", "127.0.0.1:7600")),
        spark_master=given.get("SPARK_MASTER", "local[2]"),
        spark_conf=_spark_conf(given.get("SPARK_CONF", "")),
        tokens_file=None if tokens is None else Path(tokens),
        state_dir=Path(given["STATE_DIR"]) if "STATE_DIR" in given else None,
        barrier_level=_barrier_level(given.get("BARRIER_LEVEL", Level.EACH_QUORUM)),
    )


def _barrier_level(text: str) -> Level:
    known = {level.value.replace("-", "_"): level for level in Level}
    level = known.get(text.replace("-", "_"))
    if level is None:
        raise SettingsError(
            f"{PREFIX}BARRIER_LEVEL must be one of {', '.join(known)}, not {text[:20]!r}"
        )
    return level


def _spark_conf(text: str) -> dict[str, str]:
    """`spark.NAME=VALUE`, one a line or with semicolons between; values often have commas."""
    found: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.replace("\n", ";").split(";"))):
        name, equals, value = item.partition("=")
        if not equals or not name.startswith("spark."):
            # Only the name: a value may be a password.
            raise SettingsError(
                f"{PREFIX}SPARK_CONF must be lines of spark.NAME=VALUE, not {name[:40]!r}"
            )
        found[name.strip()] = value.strip()
    return found


def _seeds(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (seed.strip() for seed in text.split(","))))


def bearer_token(tokens_file: Path | None, role: str = "node") -> str | None:
    """How a process of the cluster tells the others that it is one of them."""
    if tokens_file is None:
        return None
    try:
        found = msgspec.json.decode(tokens_file.read_bytes(), type=dict[str, str])
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{tokens_file} is not a file of tokens: {type(error).__name__}"
        ) from error
    return found.get(role)


def _given(environment: Mapping[str, str]) -> dict[str, str]:
    """An empty variable counts as absent."""
    return {
        name.removeprefix(PREFIX): value
        for name, value in environment.items()
        if name.startswith(PREFIX) and value
    }


def cms_settings(environment: Mapping[str, str]) -> CmsSettings:
    given = _given(environment)
    if "POSTGRES_DSN" not in given:
        raise SettingsError("RINGLOG_POSTGRES_DSN is not set: postgresql://…")
    tokens = given.get("TOKENS_FILE")
    return CmsSettings(
        dsn=given["POSTGRES_DSN"],
        name=given.get("NAME", "cms-1"),
        listen=_listen("LISTEN", given.get("LISTEN", "127.0.0.1:7400"), is_shared=True),
        own_listen=_listen("OWN_LISTEN", given.get("OWN_LISTEN", "127.0.0.1:7401")),
        advertised=given.get("ADVERTISE"),
        kafka=_brokers(given.get("KAFKA")),
        kafka_access=_kafka_access(given),
        topic=given.get("KAFKA_TOPIC"),
        tokens_file=None if tokens is None else Path(tokens),
        tls_certificate=given.get("TLS_CERTIFICATE"),
        tls_key=given.get("TLS_KEY"),
        archives=_seeds(given.get("ARCHIVE", "")),
        partition_epochs=_partition_epochs(given.get("PARTITION_EPOCHS")),
        log_keys=tuple(map(Path, _seeds(given.get("LOG_KEY", "")))),
    )


def _partition_epochs(text: str | None) -> int | None:
    if text is None:
        return None
    low, high = PARTITION_EPOCHS_MIN, PARTITION_EPOCHS_MAX
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(high))
    if not (is_number and low <= int(text) <= high):
        raise SettingsError(f"{PREFIX}PARTITION_EPOCHS must be {low} to {high}, not {text[:20]!r}")
    return int(text)


def _brokers(text: str | None) -> str | None:
    """As the library takes them. It finds out what is wrong with one only when it connects."""
    if text is None:
        return None
    brokers = _seeds(text)
    if not brokers or not all(map(_is_broker, brokers)):
        raise SettingsError(
            f"{PREFIX}KAFKA must be HOST:PORT with commas between them, not {text[:100]!r}"
        )
    return ",".join(brokers)


def _is_broker(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    if not colon:
        # Then it is at the port that Kafka has by default.
        return _is_name(text)
    is_port = port.isascii() and port.isdigit() and 0 < int(port[:_DIGITS_MAX]) <= PORT_MAX
    is_address = host.startswith("[") and host.endswith("]")
    return is_port and is_address == (":" in host) and _is_name(host.strip("[]"))


def _is_name(host: str) -> bool:
    return bool(host) and not any(each.isspace() or each in "/@[]" for each in host)


def _kafka_access(given: Mapping[str, str]) -> Access:
    """What does not belong together is refused, lest somebody believes to be safe."""
    security = _one_of(Security, "KAFKA_SECURITY", given.get("KAFKA_SECURITY", "plaintext"))
    unfit = {
        "KAFKA_SECURITY": given.get("KAFKA") is None,
        "KAFKA_CA": not security.is_encrypted,
        "KAFKA_SASL": not security.has_user,
        "KAFKA_USER": not security.has_user,
        "KAFKA_PASSWORD_FILE": not security.has_user,
    }
    for name, is_unfit in unfit.items():
        if is_unfit and name in given:
            needed = "without RINGLOG_KAFKA" if name == "KAFKA_SECURITY" else f"with {security}"
            raise SettingsError(f"{PREFIX}{name} means nothing {needed}")
    return Access(
        security=security,
        tls=_kafka_tls(given.get("KAFKA_CA")) if security.is_encrypted else None,
        login=_kafka_login(given) if security.has_user else None,
    )


def _kafka_tls(ca: str | None) -> ssl.SSLContext:
    """Without a file those are trusted whom the machine trusts."""
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise SettingsError(f"{PREFIX}KAFKA_CA cannot be used: {error}") from error


def _kafka_login(given: Mapping[str, str]) -> Login:
    user, file = given.get("KAFKA_USER"), given.get("KAFKA_PASSWORD_FILE")
    if user is None or file is None:
        raise SettingsError(f"SASL needs {PREFIX}KAFKA_USER and {PREFIX}KAFKA_PASSWORD_FILE")
    try:
        password = Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{PREFIX}KAFKA_PASSWORD_FILE cannot be read: {type(error).__name__}"
        ) from error
    mechanism = _one_of(Mechanism, "KAFKA_SASL", given.get("KAFKA_SASL", "plain"))
    return Login(mechanism=mechanism, user=user, password=password)


def _one_of(kind: type[S], name: str, text: str) -> S:
    try:
        return kind(text)
    except ValueError:
        known = ", ".join(each.value for each in kind)
        raise SettingsError(f"{PREFIX}{name} must be one of {known}; not {text[:20]!r}") from None


def _listen(name: str, text: str, *, is_shared: bool = False) -> Listen:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > PORT_MAX:
        raise SettingsError(f"{PREFIX}{name} must be HOST:PORT, not {text!r}")
    return Listen(host=host, port=int(port), is_shared=is_shared)
