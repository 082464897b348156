"""Publishing the log to Kafka, by the CMS that sequences."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import structlog

from log.backoff import Delay
from log.entry import SealedEntry
from log.fanout import Hooks, Outbox, Relay
from log.kafka import KafkaPublisher
from log.kafka_access import Brokers
from log.postgres import PostgresLog
from log.postgres_positions import PostgresPositions
from log.postgres_sessions import Sessions
from log.store import StoreUnavailableError, TrimmedError
from metadata.epoch import Epoch

logger = structlog.get_logger()


class Recent(Protocol):
    """Entries behind an epoch that are in memory; None, or none, where they are not."""

    def __call__(
        self, epoch: Epoch, *, entries_max: int, bytes_max: int
    ) -> Sequence[SealedEntry] | None: ...


class WhileSequencing:
    """An outbox that is empty for everybody but the CMS that sequences.

    All are woken by the same append; if each published it, the topic would hold everything as
    often as there are processes. Whoever takes over finds what is due at its next look. Whoever
    sequences has just appended what is due, so it is mostly in memory.
    """

    def __init__(
        self, log: Outbox, recent_after: Recent, is_sequencing: Callable[[], bool]
    ) -> None:
        self._log = log
        self._recent_after = recent_after
        self._is_sequencing = is_sequencing

    async def read_after(
        self, epoch: Epoch, *, entries_max: int, bytes_max: int
    ) -> Sequence[SealedEntry]:
        if not self._is_sequencing():
            return ()
        recent = self._recent_after(epoch, entries_max=entries_max, bytes_max=bytes_max)
        if recent:
            return recent
        # The wake-up may have come before the answer to the append itself.
        try:
            return await self._log.read_after(epoch, entries_max=entries_max, bytes_max=bytes_max)
        except TrimmedError as error:
            # A topic that was begun late, or stood still for long. Whoever follows it finds a gap
            # and asks the log, as after any other loss.
            logger.warning("fanout_jumped", before=epoch, to=error.seam)
            return await self._from_seam(error.seam, entries_max, bytes_max)

    async def _from_seam(
        self, seam: Epoch, entries_max: int, bytes_max: int
    ) -> Sequence[SealedEntry]:
        try:
            return await self._log.read_after(seam, entries_max=entries_max, bytes_max=bytes_max)
        except TrimmedError as error:
            # Somebody trims at this moment; the next look finds the new seam.
            raise StoreUnavailableError(str(error)) from error


@asynccontextmanager
async def relay_to(
    brokers: Brokers,
    topic: str,
    sessions: Sessions,
    *,
    recent_after: Recent,
    is_sequencing: Callable[[], bool],
    on_published: Callable[[Epoch], None],
) -> AsyncIterator[Relay]:
    """A relay to run; its connections end with the block."""
    publisher = KafkaPublisher(
        brokers.bootstrap, topic=topic, on_skipped=_skipped, access=brokers.access
    )
    hooks = Hooks(on_published=on_published, on_delayed=_delayed, on_back=_back)
    outbox = WhileSequencing(PostgresLog(sessions), recent_after, is_sequencing)
    try:
        yield Relay(outbox, publisher, PostgresPositions(sessions, topic), hooks)
    finally:
        await publisher.close()


def _delayed(delay: Delay) -> None:
    if delay.failures == 1:
        logger.warning("fanout_delayed", error=repr(delay.error))


def _back() -> None:
    logger.info("fanout_back")


def _skipped(epoch: Epoch, size_bytes: int) -> None:
    logger.warning("fanout_skipped", epoch=epoch, size_bytes=size_bytes)
