"""What the Spark data source was asked for: its options, and the history that they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from audit.errors import ArchiveError
from audit.history import History, check_epoch
from audit.reading import open_archive
from audit.tables import Part, Table
from log.chain import NO_ENTRIES
from log.replay import ReplayError
from metadata.epoch import Epoch

ENTRIES_PER_TRIGGER = 10_000
DEADLINE_S = 30.0
ABSENT_S = 5.0
_WEB = ("http://", "https://")
_KNOWN = {
    name.lower(): name
    for name in (
        "path",
        "url",
        "token",
        "table",
        "asOfEpoch",
        "fromEpoch",
        "toEpoch",
        "maxEntriesPerTrigger",
    )
}


class SourceError(ValueError):
    """A sentence for whoever wrote the query."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The options, with what cannot be meant refused."""

    place: str
    token: str | None = None
    table: Table = Table.ENTRIES
    as_of: int | None = None
    first: int | None = None
    last: int | None = None
    entries_per_trigger: int = ENTRIES_PER_TRIGGER

    @property
    def is_live(self) -> bool:
        return self.place.startswith(_WEB)


def asked_for(options: Mapping[str, str]) -> Asked:
    given = {name.lower(): value for name, value in options.items()}
    unknown = sorted(given.keys() - _KNOWN.keys())
    if unknown:
        known = ", ".join(_KNOWN.values())
        raise SourceError(f"There is no option {unknown[0]}: use {known}.")
    asked = Asked(
        place=_place(given),
        token=given.get("token"),
        table=_table(given.get("table", Table.ENTRIES.value)),
        as_of=_number(given, "asOfEpoch", at_least=0),
        first=_number(given, "fromEpoch", at_least=1),
        last=_number(given, "toEpoch", at_least=0),
        entries_per_trigger=_number(given, "maxEntriesPerTrigger", at_least=1)
        or ENTRIES_PER_TRIGGER,
    )
    if asked.as_of is not None and (asked.first is not None or asked.last is not None):
        raise SourceError(
            "asOfEpoch is one version and fromEpoch and toEpoch are changes: give one or the other."
        )
    if asked.first is not None and asked.last is not None and asked.last < asked.first - 1:
        raise SourceError(f"toEpoch {asked.last} is before fromEpoch {asked.first}: swap them.")
    return asked


def asked_for_stream(options: Mapping[str, str]) -> Asked:
    asked = asked_for(options)
    if asked.as_of is not None or asked.last is not None:
        raise SourceError(
            "A stream goes on for ever: leave asOfEpoch and toEpoch out, or read it as a batch."
        )
    return asked


def whole_part(history: History, asked: Asked) -> Part:
    """What a batch reads, if the history has it."""
    for epoch in (asked.as_of, asked.last, None if asked.first is None else asked.first - 1):
        if epoch is not None:
            check_epoch(history, epoch)
    begin = first_epoch(history) if asked.first is None else Epoch(asked.first - 1)
    named = asked.as_of if asked.last is None else asked.last
    up_to = history.tip.epoch if named is None else Epoch(named)
    is_feed = asked.first is not None or asked.last is not None
    is_version = asked.table not in (Table.ENTRIES, Table.RECEIPTS) and not is_feed
    return Part(table=asked.table, after=None if is_version else begin, up_to=up_to)


def first_epoch(history: History) -> Epoch:
    """Behind which a history begins: a later archive begins behind those before it."""
    found: Epoch = getattr(history, "after", NO_ENTRIES).epoch
    return found


@contextmanager
def opened(asked: Asked) -> Iterator[History]:
    """The archive or the running cluster, with what goes wrong turned into sentences."""
    try:
        if asked.is_live:
            with _live(asked) as history:
                yield history
        else:
            yield open_archive(asked.place)
    except (LookupError, ReplayError) as error:
        raise SourceError(str(error)) from error
    except ArchiveError as error:
        raise SourceError(f"The archive {asked.place} cannot be read: {error}") from error


@contextmanager
def _live(asked: Asked) -> Iterator[History]:
    # Only here: every query starts processes that import this module, and most read archives.
    from client.connection import Connection
    from client.errors import ClientError, UnreachableError
    from client.patience import Patience
    from ringlog.live_history import live_history

    patience = Patience(deadline_s=DEADLINE_S, absent_s=ABSENT_S)
    try:
        with live_history(
            lambda: Connection([asked.place], token=asked.token, cluster=None, patience=patience)
        ) as history:
            yield history
    except UnreachableError as error:
        raise SourceError(f"{asked.place} cannot be reached: {error}") from error
    except ClientError as error:
        raise SourceError(str(error)) from error


def _place(given: Mapping[str, str]) -> str:
    named = [given[name] for name in ("path", "url") if given.get(name)]
    if len(named) != 1:
        raise SourceError(
            "Name one history: load(PATH) of an archive, or the option url of a running cluster."
        )
    if given.get("url") and not named[0].startswith(_WEB):
        raise SourceError(f"The url {named[0]} does not begin with http:// or https://.")
    return named[0]


def _table(name: str) -> Table:
    try:
        return Table(name)
    except ValueError:
        known = ", ".join(Table)
        raise SourceError(f"There is no table {name}: choose one of {known}.") from None


def _number(given: Mapping[str, str], name: str, *, at_least: int) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > len(str(2**63)):
        raise SourceError(f"{name} is {text!r} and must be a whole number.")
    if int(text) < at_least:
        raise SourceError(f"{name} is {text} and must be {at_least} or more.")
    return int(text)
