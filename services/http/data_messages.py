"""What nodes and drivers ask a node about its rows and segments; both sides import it.

Replica messages are MessagePack, because there are many of them; all others are JSON.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from metadata.epoch import EMPTY, Epoch
from metadata.limits import ID_MAX, RANGES_LISTED_MAX, Count
from metadata.schema import TableId
from metadata.sessions import SessionId
from metadata.tokens import BoundedToken, Range
from services.http.bodies import EpochField
from store.rows import Row

REPLICA_WRITE_PATH = "/internal/v1/replica/write"
REPLICA_READ_PATH = "/internal/v1/replica/read"
FLUSH_PATH = "/internal/v1/flush"
STAGING_PATH = "/internal/v1/staging"
IMPORT_PATH = "/internal/v1/import"
IMPORTED_PATH = "/internal/v1/imported"
CLEANUP_PATH = "/internal/v1/cleanup"
FORGET_PATH = "/internal/v1/forget"
REPAIRED_PATH = "/internal/v1/repaired"
SIZES_PATH = "/internal/v1/sizes"

ROWS_MAX = 1000
TABLES_MAX = 10_000
FILES_MAX = 10_000
WAIT_S_MAX = 60.0
WAIT_S = 10.0

TableRef = Annotated[TableId, Meta(ge=1, le=ID_MAX)]
SessionRef = Annotated[SessionId, Meta(ge=1, le=ID_MAX)]
Ranges = Annotated[tuple[Range, ...], Meta(max_length=RANGES_LISTED_MAX)]
"""Tokens are decimal strings or numbers: decode with `strict=False`."""
Tables = Annotated[tuple[TableRef, ...], Meta(max_length=TABLES_MAX)]
Wait = Annotated[float, Meta(ge=0, le=WAIT_S_MAX)]
ImportName = Annotated[str, Meta(min_length=1, max_length=512)]
Path = Annotated[str, Meta(min_length=1, max_length=4096)]
Checksum = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whatever is asked of a node; a field that nobody knows is a mistake."""


class ReplicaWrite(Message, frozen=True):
    """Rows of one table for one replica. `epoch` is that of the metadata by which it was chosen."""

    epoch: EpochField
    table: TableRef
    rows: Annotated[tuple[Row, ...], Meta(max_length=ROWS_MAX)]


class ReplicaKey(Message, frozen=True):
    token: BoundedToken
    key: str


class ReplicaRead(Message, frozen=True):
    epoch: EpochField
    table: TableRef
    keys: Annotated[tuple[ReplicaKey, ...], Meta(max_length=ROWS_MAX)]


class WriteAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """By place in the message: rows that lost to a held one, with its timestamp, and rows that
    were refused, with the code. All others are durable. `epoch` is the replica's own.
    """

    epoch: Epoch
    held: dict[int, int] = {}
    refused: dict[int, str] = {}


class ReadAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The newest version of each, which may be a tombstone; None for none, or where refused.

    What does not fit into one answer is refused as `too_large`: to be asked for again. The first
    one always fits.
    """

    epoch: Epoch
    rows: tuple[Row | None, ...]
    refused: dict[int, str] = {}


class Flush(Message, frozen=True):
    """Make segments of what was written to the ranges, once `epoch` is drained, and pin them."""

    session: SessionRef
    epoch: EpochField
    tables: Tables
    ranges: Ranges
    wait_s: Wait = WAIT_S


class SegmentFile(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is absolute. Only rows in `ranges` count: the others were cleaned away.

    `min_token` and `max_token` are the least and the greatest token in the file as plain
    numbers, `oldest` and `newest` its timestamps. `checksum` is the SHA-256 of the file, `footer`
    that of its end, if it is known.
    """

    table: TableId
    path: str
    min_token: BoundedToken
    max_token: BoundedToken
    rows: int
    bytes: int
    checksum: str
    oldest: int
    newest: int
    ranges: tuple[Range, ...]
    footer: str = ""


class TableRanges(msgspec.Struct, frozen=True):
    table: TableId
    ranges: tuple[Range, ...]


class FlushAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`epoch` is the watermark that was drained before the flush began.

    `old` is where the node has rows as they were before it was set back.
    """

    node: int
    epoch: Epoch
    segments: tuple[SegmentFile, ...]
    old: tuple[TableRanges, ...] = ()


class Staging(Message, frozen=True):
    session: SessionRef


class StagingAnswer(msgspec.Struct, frozen=True):
    """Each attempt makes a sub-folder of its own there."""

    uri: str


class StagedFile(Message, frozen=True):
    """`path` is absolute, or relative to the node's data folder; it lies in the staging folder.

    Without `checksum` the one found on arrival is kept.
    """

    path: Path
    bytes: Count
    checksum: Checksum | None = None


class Import(Message, frozen=True):
    """Take over files of one table, all or none; of their rows only those in `ranges` count.

    `name` stands for this list of files for ever.
    """

    session: SessionRef
    name: ImportName
    table: TableRef
    ranges: Ranges
    files: Annotated[tuple[StagedFile, ...], Meta(max_length=FILES_MAX)]


class ImportAnswer(msgspec.Struct, frozen=True):
    """False if this name was registered before, which is as good."""

    registered: bool


class Imported(Message, frozen=True):
    """What became of the imports whose names begin with `prefix`."""

    session: SessionRef
    prefix: ImportName


class ImportedAnswer(msgspec.Struct, frozen=True):
    """What the node's manifest holds of them now, with the ranges that count."""

    segments: tuple[SegmentFile, ...]


class Cleanup(Message, frozen=True):
    session: SessionRef
    ranges: Ranges
    wait_s: Wait = WAIT_S


class CleanupAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was deleted: the sub-ranges that the node neither reads nor writes."""

    node: int
    epoch: Epoch
    deleted: tuple[TableRanges, ...]


class Forget(Message, frozen=True):
    """Delete the old rows of a node that was set back: others have all that counts of these ranges.

    What a node has forgotten once is not old any more, so that a message that comes late does no
    harm to what was brought meanwhile.
    """

    session: SessionRef
    table: TableRef
    ranges: Ranges


class ForgetAnswer(msgspec.Struct, frozen=True):
    """Where there were old rows."""

    ranges: tuple[Range, ...]


class Repaired(Message, frozen=True):
    """Every owner has what any owner had of these ranges.

    `files` are those of this node that the repair has read, and those that it has imported here:
    what is in them was brought to all. It was found at `epoch` that nothing had come in the way.
    """

    session: SessionRef
    ranges: Ranges
    epoch: EpochField = EMPTY
    files: Annotated[tuple[Path, ...], Meta(max_length=FILES_MAX)] = ()


class RepairedAnswer(msgspec.Struct, frozen=True):
    """`segments` is how many were marked; `serves` whether the node may serve data now."""

    segments: int
    serves: bool


class Sizes(Message, frozen=True):
    """Without `tables`, of all of them."""

    ranges: Ranges
    tables: Tables | None = None


class TableSize(msgspec.Struct, frozen=True, kw_only=True):
    table: TableId
    rows: int
    bytes: int


class SizesAnswer(msgspec.Struct, frozen=True):
    """Estimates, for planning."""

    sizes: tuple[TableSize, ...]
