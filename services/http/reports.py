"""What a node tells the CMS about itself, once a second; both sides import it."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

import msgspec
from msgspec import Meta

from metadata.directory import KnownNode
from metadata.epoch import Epoch
from metadata.limits import ID_MAX, Count, Hash, Label
from services.http.bodies import EpochField

REPORTS_PATH = "/internal/v1/reports"
REPORT_EVERY_S = 1.0
MARKS_MAX = 256
"""A node that has applied in more steps since its last report leaves the oldest out."""
TABLES_MAX = 1000
COUNTERS_MAX = 16
REPORT_BYTES_MAX = 256 * 1024

Micros = Annotated[int, Meta(ge=0, le=ID_MAX)]
"""Microseconds since 1970, by the clock of whoever says so."""

Mark = tuple[EpochField, Micros]
"""Everything up to this epoch was applied, the last of it at this time."""

Writes = Annotated[int, Meta(ge=0, le=ID_MAX)]

Counters = Annotated[dict[Label, Count], Meta(max_length=COUNTERS_MAX)]


class Report(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a node is.

    `epoch` is its watermark, `hash` the hash of the entry there (64 zeros at epoch 0) and
    `digest` that of its metadata. `applied` are marks since its last report, oldest first.
    `drained` is the highest epoch such that no replica operation which the node admitted under
    an older version still runs; `data` are counters by table, such as rows and bytes; `writes`
    is how often the node has ever put rows. A node without a data plane leaves the three out. A
    node that stopped because its history is another goes on reporting: only so is a log that lost
    its tail noticed. At epoch 0 it says only that it is there.
    """

    node: KnownNode
    epoch: EpochField
    hash: Hash
    digest: Hash
    sent_at_us: Micros
    version: Label
    applied: Annotated[tuple[Mark, ...], Meta(max_length=MARKS_MAX)] = ()
    drained: EpochField | None = None
    data: Annotated[dict[Label, Counters], Meta(max_length=TABLES_MAX)] | None = None
    writes: Writes | None = None


class ReportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`tip` tells the node how far behind it is; `now_us` is the CMS's clock.

    `reported` is the highest epoch that this node ever reported before, and `reported_writes` the
    highest count of writes: a node whose own state is older was restored from an old copy.
    """

    tip: Epoch
    now_us: int
    reported: Epoch | None = None
    reported_writes: int | None = None

    def is_beyond(self, epoch: Epoch, writes: int) -> bool:
        """Whether the node had been further than this."""
        return (self.reported or 0) > epoch or (self.reported_writes or 0) > writes


def fault_in(report: Report) -> tuple[str, str] | None:
    """The field that contradicts the others, and how; types are checked before."""
    epochs = [epoch for epoch, _ in report.applied]
    if any(before >= after for before, after in pairwise(epochs)):
        return "applied", "The epochs of marks must ascend."
    if epochs and epochs[-1] > report.epoch:
        return "applied", f"A mark is beyond the watermark {report.epoch}."
    if report.drained is not None and report.drained > report.epoch:
        return "drained", f"It is beyond the watermark {report.epoch}."
    if report.epoch == 0 and report.hash.strip("0"):
        return "hash", "There is no entry at epoch 0: its hash is 64 zeros."
    return None
