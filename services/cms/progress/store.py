"""The port to whatever keeps what drivers tell: any CMS may write it, any may be asked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

from metadata.cluster import ClusterMetadata
from metadata.epoch import Epoch
from metadata.locks import SequenceId
from services.http.progress import PROGRESS_EVERY_S

SILENT_AFTER_S = 5 * PROGRESS_EVERY_S
"""A driver that tells nothing for so long may be another's successor."""
RATES_MAX = 32


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver says of one sequence, as it is stored; `rows_per_s` while it moves rows.

    Sessions that stand alone and changes of the CMS are kept beside them: all are named by the
    epoch of their entry.
    """

    sequence: SequenceId
    driver: str
    driven: bytes
    rows_per_s: float | None = None


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """`age_s` is by the store's clock."""

    sequence: SequenceId
    driver: str
    driven: bytes
    age_s: float


class ProgressStore(Protocol):
    """The last word on each sequence."""

    async def keep(self, told: Sequence[Kept]) -> None:
        """One for each sequence at most. Another driver's word counts once the first is silent."""
        ...

    async def known(self) -> Sequence[Known]:
        """By sequence."""
        ...

    async def rates(self) -> Sequence[float]:
        """Rows per second of the newest movements, newest first."""
        ...

    async def forget_others(self, in_progress: Collection[SequenceId], *, up_to: Epoch) -> None:
        """Drop what is over. What began after `up_to` is news, and stays."""
        ...


def spoken_of(metadata: ClusterMetadata) -> list[SequenceId]:
    """Everything that a driver may have something to say about."""
    alone = [item.id for item in metadata.sessions.open.values() if item.sequence is None]
    running = metadata.cms.reconfiguration
    changing = [] if running is None else [running.id]
    return [*metadata.sequences.in_progress, *map(SequenceId, alone), *changing]
