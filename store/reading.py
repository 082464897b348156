"""Reading segments: only the row groups that matter, and a few of them kept at hand."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from metadata.schema import Table
from metadata.tokens import Token
from store.failures import (
    SegmentChecksumError,
    SegmentError,
    SegmentMissingError,
    SegmentSizeError,
    SegmentUnreadableError,
)
from store.folder import Folder
from store.manifest import Segment
from store.merging import rows_of, schema_of, within
from store.ranges import Span, common
from store.rows import Row
from store.segments import Footer, Group, footer_of, hash_of, misfit

T = TypeVar("T")

CACHED_FOOTERS_BYTES_MAX = 32 * 1024 * 1024
CACHED_GROUPS_BYTES_MAX = 64 * 1024 * 1024


class Cache(Generic[T]):
    """What was used last, up to a number of bytes. Threads may share it."""

    def __init__(self, size_of: Callable[[T], int], *, bytes_max: int) -> None:
        self._size_of = size_of
        self._bytes_max = bytes_max
        self._held: OrderedDict[Hashable, T] = OrderedDict()
        self._held_bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable, load: Callable[[], T]) -> T:
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        found = load()
        with self._lock:
            if key not in self._held:
                self._held[key] = found
                self._held_bytes += self._size_of(found)
            while self._held_bytes > self._bytes_max and self._held:
                _, oldest = self._held.popitem(last=False)
                self._held_bytes -= self._size_of(oldest)
        return found


class AtHand(msgspec.Struct, frozen=True):
    """A row group in memory, and its tokens as an array of numpy."""

    rows: pa.Table
    tokens: Any


class SegmentReader:
    """Blocks: call it in a thread. Every failure names the file and the table."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._footers: Cache[Footer] = Cache(_footer_bytes, bytes_max=CACHED_FOOTERS_BYTES_MAX)
        self._groups: Cache[AtHand] = Cache(_group_bytes, bytes_max=CACHED_GROUPS_BYTES_MAX)

    def versions(self, table: Table, segment: Segment, token: Token, key: str) -> list[Row]:
        """What the segment has of one row."""
        found: list[Row] = []
        for group in self.groups(table, segment, (Span(token, token),)):
            at_hand = self._at_hand(table, segment, group)
            # Not sorted by anybody we know, so all of them are looked at; that is quick.
            for place in (at_hand.tokens == token).nonzero()[0]:
                if at_hand.rows["_key"][place].as_py() == key:
                    found += rows_of(table, at_hand.rows.slice(place, 1))
        return found

    def _at_hand(self, table: Table, segment: Segment, group: Group) -> AtHand:
        def load() -> AtHand:
            rows = self.read(table, segment, [group]).combine_chunks()
            return AtHand(rows, rows["_token"].to_numpy())

        return self._groups.get((segment.path, group.index, table.epoch), load)

    def rows(self, table: Table, segment: Segment, spans: Sequence[Span]) -> pa.Table:
        """Its rows in these spans, as the table has them now."""
        seen = common(spans, segment.spans)
        return within(self.read(table, segment, self.groups(table, segment, seen)), seen)

    def groups(self, table: Table, segment: Segment, spans: Sequence[Span]) -> list[Group]:
        """Those that may have a row in these spans."""
        seen = common(spans, segment.spans)
        groups = self.footer(table, segment).groups
        return [group for group in groups if any(group.span.intersects(span) for span in seen)]

    def count(self, table: Table, segment: Segment) -> int:
        """How many rows count; only row groups at the edge of something hidden are read."""
        bare = msgspec.structs.replace(table, columns=())
        rows = 0
        for group in self.groups(table, segment, segment.spans):
            seen = common(segment.spans, (group.span,))
            is_whole = seen == (group.span,)
            rows += group.rows if is_whole else len(within(self.read(bare, segment, [group]), seen))
        return rows

    def footer(self, table: Table, segment: Segment) -> Footer:
        return self._footers.get(segment.path, lambda: self._load(table, segment))

    def read(self, table: Table, segment: Segment, groups: Sequence[Group]) -> pa.Table:
        wanted = schema_of(table)
        if not groups:
            return wanted.empty_table()
        footer = self.footer(table, segment)
        names = [name for name in wanted.names if name in footer.schema.names]
        with _named(table, segment), self._folder.opened(segment.path) as source:
            file = pq.ParquetFile(source, metadata=footer.parquet, page_checksum_verification=True)
            found = file.read_row_groups(
                [group.index for group in groups], columns=names, use_threads=False
            )
            return _conformed(found, wanted)

    def verify(self, table: Table, segment: Segment) -> None:
        """Read the whole file and compare its hash."""
        if self.sha256(table, segment) != segment.sha256:
            raise _changed(table, segment)

    def sha256(self, table: Table, segment: Segment) -> str:
        self._check_size(table, segment)
        with _named(table, segment):
            return self._folder.sha256(segment.path)

    def end(self, table: Table, segment: Segment) -> bytes:
        """Its footer as it lies in the file."""
        self._check_size(table, segment)
        with _named(table, segment):
            return self._folder.footer(segment.path)

    def _load(self, table: Table, segment: Segment) -> Footer:
        """Looked at only if it is as it was: Arrow skips rows by it, or dies of it, unasked."""
        end = self.end(table, segment)
        if segment.footer is not None and hash_of(end) != segment.footer:
            raise _changed(table, segment)
        with _named(table, segment):
            parquet = pq.read_metadata(pa.BufferReader(end))
            reason = misfit(table, parquet.schema.to_arrow_schema())
        if reason is not None:
            raise SegmentUnreadableError(
                f"Segment {segment.path} of table {table.name} does not fit: {reason}."
            )
        return footer_of(parquet)

    def _check_size(self, table: Table, segment: Segment) -> None:
        with _named(table, segment):
            found = self._folder.size_bytes(segment.path)
        if found is None:
            raise _missing(table, segment)
        if found != segment.size_bytes:
            raise SegmentSizeError(
                f"Segment {segment.path} of table {table.name} has {found} bytes instead of "
                f"{segment.size_bytes}: put the file back, or replace the node."
            )


def _conformed(found: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Columns that the file lacks are null; those that the table lacks were not read."""
    arrays = [
        found[field.name].cast(field.type, safe=False)
        if field.name in found.column_names
        else pa.nulls(len(found), field.type)
        for field in wanted
    ]
    return pa.Table.from_arrays(arrays, schema=wanted)


@contextmanager
def _named(table: Table, segment: Segment) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise _missing(table, segment) from error
    except (OSError, pa.ArrowException) as error:
        kind: type[SegmentError] = SegmentUnreadableError
        if "CRC" in str(error):
            kind = SegmentChecksumError
        raise kind(
            f"Segment {segment.path} of table {table.name} cannot be read ({error}): "
            "put the file back, or replace the node."
        ) from error


def _changed(table: Table, segment: Segment) -> SegmentChecksumError:
    return SegmentChecksumError(
        f"Segment {segment.path} of table {table.name} has another checksum than when it "
        "was written: put the file back, or replace the node."
    )


def _missing(table: Table, segment: Segment) -> SegmentMissingError:
    return SegmentMissingError(
        f"Segment {segment.path} of table {table.name} is missing: "
        "put the file back, or replace the node."
    )


def _footer_bytes(footer: Footer) -> int:
    return int(footer.parquet.serialized_size) * 4


def _group_bytes(group: AtHand) -> int:
    return int(group.rows.nbytes)
