"""Moving the rows of a sequence with Spark, and proving that all of them arrived."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import msgspec
import structlog

from client.client import Client
from client.errors import ClientError
from metadata.cluster import ClusterMetadata
from metadata.locks import SequenceId
from metadata.receipts import Receipt
from metadata.sequences import Sequence
from metadata.sessions import SessionId
from movement.receipts import Proof
from movement.spark import Spark, SparkError, SparkSettings
from sequences.ports import WorkError
from services.driver.attempt import Attempt, tag_of
from services.driver.copying import Tools
from services.driver.data_nodes import HttpDataNodes
from services.driver.nodes import NodeCalls
from services.driver.progress import Meters
from services.driver.repairing import Newest, Repairer
from services.http.progress import Moved
from services.settings import DriverSettings
from store.failures import StoreError
from store.folder import Folder, folder_at

logger = structlog.get_logger()

WARM_AFTER_S = 120.0
"""Starting Java is work: what else starts with the driver goes first, and a short-lived cluster
never does it.
"""
DETAILS = "receipts"
"""The folder of a driver in which the finer figures behind receipts are kept."""


class SparkMover:
    """Safe to repeat and to cancel; when a call ends, nothing of it runs any more.

    `details` keeps the finer figures behind each receipt, by their hash.
    """

    def __init__(
        self, tools: Tools, clock: Callable[[], float], details: Folder | None = None
    ) -> None:
        self._tools = tools
        self._meters = Meters(clock)
        self._details = details

    async def move(self, metadata: ClusterMetadata, sequence: Sequence) -> tuple[Receipt, ...]:
        meter = self._meters.begin(sequence.id)
        try:
            found = await Attempt(self._tools, metadata, sequence, meter).run()
            await asyncio.to_thread(self._keep, found)
        except StoreError as error:
            raise WorkError(str(error)) from error
        finally:
            self._meters.end(sequence.id)
        return tuple(proof.receipt for proof in found)

    async def sweep(self, sequence: Sequence) -> None:
        """Stop what may still run; a node deletes what was staged when it sees the session end."""
        await self._tools.spark.cancel(tag_of(sequence))
        self._meters.end(sequence.id)

    def moved(self, sequence: SequenceId) -> Moved | None:
        return self._meters.moved(sequence)

    def _keep(self, proofs: Iterable[Proof]) -> None:
        if self._details is None:
            return
        for proof in proofs:
            path = f"{proof.details.hash}.json"
            if self._details.size_bytes(path) is None:
                with self._details.written(path) as sink:
                    sink.write(proof.details.content)


class OpenSessions:
    """Whether a session is open by the newest entry of the log."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, session: SessionId) -> bool:
        try:
            found = await self._client.component("sessions")
        except ClientError as error:
            raise WorkError(str(error)) from error
        return any(item["id"] == session for item in found["sessions"])


class Movements(msgspec.Struct, frozen=True):
    """Both kinds of work that copy rows."""

    mover: SparkMover
    repairer: Repairer


@asynccontextmanager
async def moving(
    settings: DriverSettings, calls: NodeCalls, client: Client, newest: Newest
) -> AsyncIterator[Movements]:
    """With a Spark application of its own, which is started meanwhile."""
    spark = Spark(SparkSettings(master=settings.spark_master, more=settings.spark_conf))
    clock = asyncio.get_running_loop().time
    tools = Tools(spark, HttpDataNodes(calls), OpenSessions(client))
    details = None if settings.state_dir is None else folder_at(str(settings.state_dir / DETAILS))
    async with kept_warm(spark):
        yield Movements(SparkMover(tools, clock, details), Repairer(tools, newest, clock))


@asynccontextmanager
async def kept_warm(spark: Spark, after_s: float = WARM_AFTER_S) -> AsyncIterator[None]:
    """The first sequence need not wait for Java; where it cannot be started, that one says so."""
    stopping = asyncio.Event()
    warming = asyncio.ensure_future(_warm(spark, stopping, after_s))
    try:
        yield
    finally:
        stopping.set()
        await spark.call_off()
        await asyncio.gather(warming, return_exceptions=True)
        await spark.close()


async def _warm(spark: Spark, stopping: asyncio.Event, after_s: float) -> None:
    try:
        async with asyncio.timeout(after_s):
            await stopping.wait()
    except TimeoutError:
        try:
            await spark.warm()
        except SparkError as error:
            logger.warning("spark_not_started", error=str(error))
