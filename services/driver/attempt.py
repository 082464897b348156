"""One try at copying what a sequence gains. Whatever an earlier one has published is used."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from uuid import uuid4

from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.sequences import Sequence
from movement import manifests
from movement.batches import Batch, batches
from movement.manifests import Manifest, ManifestError
from movement.receipts import Copied, Proof, proofs
from movement.spark import Spark, SparkError
from movement.transfers import Gained, gained_by
from sequences.ports import WorkError
from services.driver.copying import Copying, Place, Tools
from services.driver.flushing import Flushed, flushed_sources
from services.driver.progress import Meter
from services.driver.together import all_of, beside
from store.failures import StoreError

BATCHES_AT_ONCE_MAX = 2
LOOK_EVERY_S = 1.0


def tag_of(sequence: Sequence) -> str:
    return f"sequence-{sequence.id}"


class Attempt:
    """What it stages is seen by nobody before its manifest is published and imported."""

    def __init__(
        self, tools: Tools, metadata: ClusterMetadata, sequence: Sequence, meter: Meter
    ) -> None:
        self._tools = tools
        self._metadata = metadata
        self._sequence = sequence
        self._meter = meter
        self._unique = uuid4().hex
        self._turns = asyncio.Semaphore(BATCHES_AT_ONCE_MAX)

    async def run(self) -> list[Proof]:
        return await beside(self._proved(), self._watch())

    async def _watch(self) -> None:
        """Whatever job runs: one that waits for executors that never come is seen so."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self._meter.see(await self._tools.spark.tasks(tag_of(self._sequence)))

    async def _proved(self) -> list[Proof]:
        gained = gained_by(self._metadata, self._sequence)
        wanted = batches(gained)
        if not wanted:
            return []
        stagings = await self._stagings({batch.target for batch in wanted})
        copyings = {batch: self._copying(batch, stagings[batch.target]) for batch in wanted}
        found = {batch: await self._found(batch, copyings[batch], gained) for batch in wanted}
        missing = {batch: copyings[batch] for batch in wanted if found[batch] is None}
        flushed = await self._flushed(gained, missing)
        self._meter.say("copying")
        copied = await all_of(
            self._landed(batch, copyings[batch], found[batch], flushed) for batch in wanted
        )
        return proofs(copied)

    async def _stagings(self, targets: Iterable[NodeId]) -> dict[NodeId, str]:
        session = self._sequence.session
        assert session is not None, self._sequence.id
        listed = sorted(targets)
        found = await all_of(self._tools.nodes.staging(node, session) for node in listed)
        return dict(zip(listed, found, strict=True))

    def _copying(self, batch: Batch, staging: str) -> Copying:
        assert self._sequence.session is not None, self._sequence.id
        name = batch.name_in(self._sequence.id, self._sequence.due.value)
        place = Place(
            name=name,
            session=self._sequence.session,
            staging=staging,
            folder=f"{staging}/{self._unique}/{name}",
            unique=self._unique,
            tag=tag_of(self._sequence),
        )
        return Copying(self._tools, batch, place, self._meter)

    async def _found(self, batch: Batch, copying: Copying, gained: list[Gained]) -> Manifest | None:
        """What an earlier attempt has published, if it is still whole."""
        with told(batch):
            manifest = await copying.found()
            if manifest is None:
                return None
            changes = {item.change.range: item.change for item in _of(gained, [batch])}
            suits = manifests.suits(manifest, changes, self._sequence)
            # What was imported is what the target has; it takes no other files under this name.
            if await copying.is_imported(manifest):
                if not suits:
                    raise WorkError(
                        f"node {batch.target} has imported rows of sources that do not suffice: "
                        "cancel the sequence and begin anew"
                    )
            elif not suits or not await copying.is_whole(manifest):
                await copying.withdraw(manifest)
                return None
        rows = sum(item.figures.rows for item in manifest.figures)
        size_bytes = sum(item.size_bytes for item in manifest.files)
        self._meter.find_done(manifest.name, rows, size_bytes)
        return manifest

    async def _flushed(self, gained: list[Gained], missing: dict[Batch, Copying]) -> Flushed:
        if not missing:
            return Flushed()
        await make_sure_of(self._tools.spark)
        self._meter.say("flushing")
        wanted = _of(gained, missing)

        async def unfit(flushed: Flushed) -> dict[NodeId, str]:
            found: dict[NodeId, str] = {}
            for batch, copying in missing.items():
                with told(batch):
                    found |= await copying.unfit(flushed)
            return found

        flushed = await flushed_sources(self._tools.nodes, self._sequence, wanted, unfit)
        for batch, copying in missing.items():
            with told(batch):
                await copying.expect(flushed)
        return flushed

    async def _landed(
        self, batch: Batch, copying: Copying, found: Manifest | None, flushed: Flushed
    ) -> Copied:
        async with self._turns:
            with told(batch):
                manifest = found or await copying.published(flushed)
                return await copying.landed(manifest)


async def make_sure_of(spark: Spark) -> None:
    """Before nodes are asked for anything: what they flush and pin is theirs to carry."""
    try:
        await spark.warm()
    except SparkError as error:
        raise WorkError(str(error)) from error


@contextmanager
def told(batch: Batch) -> Iterator[None]:
    """Every failure becomes one that says what it was about."""
    try:
        yield
    except (WorkError, SparkError, ManifestError, StoreError, OSError) as error:
        raise WorkError(f"{batch}: {error}") from error


def _of(gained: Iterable[Gained], wanted: Iterable[Batch]) -> list[Gained]:
    keys = {(batch.table.id, batch.target, span) for batch in wanted for span in batch.ranges}
    return [item for item in gained if (item.table.id, item.target, item.change.range) in keys]
