"""Copying one batch: staged, published if the session is open, imported, and counted again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import msgspec

from metadata.schema import Column
from metadata.sessions import SessionId
from movement import jobs, manifests
from movement.batches import Batch, Reading, read_from
from movement.checking import fault_of
from movement.jobs import Wanted, Written
from movement.manifests import Manifest, Read, StagedPart
from movement.receipts import Copied, SliceFigures, differences
from movement.spark import JobFailedError, Spark, Work
from sequences.ports import WorkError
from services.driver.data_nodes import DataNodes
from services.driver.flushing import Flushed, piece_of
from services.driver.progress import Meter
from services.driver.together import together
from services.http.data_messages import Import, SegmentFile, StagedFile

T = TypeVar("T")

LOOK_EVERY_S = 0.5
COPY_SHARE = 0.8
"""Of the work of a batch; the rest is counting the rows."""
DIFFERENCES_SHOWN_MAX = 3

StillOpen = Callable[[SessionId], Awaitable[bool]]
"""By the newest entry of the log, not by what is known here."""


class Tools(msgspec.Struct, frozen=True):
    spark: Spark
    nodes: DataNodes
    still_open: StillOpen


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a batch goes: `name` is the same in every attempt, `folder` in none."""

    name: str
    session: SessionId
    staging: str
    folder: str
    unique: str
    tag: str


class Copying:
    def __init__(self, tools: Tools, batch: Batch, place: Place, meter: Meter) -> None:
        self._tools = tools
        self._batch = batch
        self._place = place
        self._meter = meter

    async def found(self) -> Manifest | None:
        """What an earlier attempt has published."""
        return await asyncio.to_thread(manifests.find, self._place.staging, self._place.name)

    async def is_whole(self, manifest: Manifest) -> bool:
        """Whether its files are still what it says."""
        paths = [item.path for item in manifest.files]
        if not paths:
            return True
        try:
            found = await self._run(lambda spark: jobs.written(spark, paths))
        except JobFailedError:
            return False
        return _parts(found) == manifest.files

    async def withdraw(self) -> None:
        await asyncio.to_thread(manifests.withdraw, self._place.staging, self._place.name)

    async def published(self, flushed: Flushed) -> Manifest:
        """Copy and publish. Who was quicker is believed; what is not published is removed."""
        place, kept = self._place, False
        try:
            made = await self._staged(flushed)
            if not await self._tools.still_open(place.session):
                raise WorkError(f"session {place.session} was closed meanwhile")
            there = await asyncio.to_thread(manifests.publish, place.staging, made, place.unique)
            kept = there == made
            return there
        finally:
            if not kept:
                await asyncio.to_thread(manifests.discard, place.folder)

    async def landed(self, manifest: Manifest) -> Copied:
        """Import at the target, and count again what it says that it holds."""
        await self._import(manifest)
        found = await self._stored(manifest)
        differing = differences(manifest.figures, found)
        if differing:
            shown = "; ".join(map(str, differing[:DIFFERENCES_SHOWN_MAX]))
            raise WorkError(f"source and target differ in {len(differing)} places: {shown}")
        return Copied(
            target=self._batch.target,
            ranges=manifest.ranges,
            sources={item.range: item.sources for item in manifest.reads},
            source=manifest.figures,
            target_rows=tuple(found),
        )

    async def _staged(self, flushed: Flushed) -> Manifest:
        batch, folder = self._batch, self._place.folder
        sources = flushed.sources(batch)
        wanted = await self._checked(flushed.readings(batch))
        # Neither knows of the other: what is counted is read from the sources again.
        files, figures = await together(
            self._files(wanted, folder),
            self._run(lambda spark: jobs.merged_figures(spark, wanted)),
        )
        self._meter.advance(self._place.name, 1.0)
        return Manifest(
            name=self._place.name,
            table=batch.table.id,
            target=batch.target,
            columns=batch.table.columns,
            reads=tuple(Read(span, sources[span]) for span in batch.ranges),
            files=_parts(files),
            figures=tuple(figures),
        )

    async def _files(self, wanted: Wanted, folder: str) -> list[Written]:
        if not wanted.readings:
            return []
        await self._watched(lambda spark: jobs.copy(spark, wanted, folder))
        return await self._run(lambda spark: jobs.written(spark, [folder]))

    async def _checked(self, readings: tuple[Reading, ...]) -> Wanted:
        for reading in readings:
            for piece in reading.pieces:
                fault = await asyncio.to_thread(fault_of, piece, self._batch.table)
                if fault is not None:
                    raise WorkError(f"segment {piece.path} of node {piece.node} {fault}")
        return self._wanted(self._batch.table.columns, readings)

    async def _import(self, manifest: Manifest) -> None:
        if not manifest.files:
            return
        files = tuple(
            StagedFile(path=item.path, bytes=item.size_bytes, checksum=item.sha256)
            for item in manifest.files
        )
        wanted = Import(
            session=self._place.session,
            name=manifest.name,
            table=manifest.table,
            ranges=manifest.ranges,
            files=files,
        )
        await self._tools.nodes.take_over(manifest.target, wanted)

    async def _stored(self, manifest: Manifest) -> list[SliceFigures]:
        target, segments = manifest.target, tuple[SegmentFile, ...]()
        if manifest.files:
            segments = await self._tools.nodes.imported(target, self._place.session, manifest.name)
        pieces = [piece_of(target, item) for item in segments]
        readings = read_from(dict.fromkeys(manifest.ranges, (target,)), pieces)
        wanted = self._wanted(manifest.columns, tuple(readings))
        return await self._run(lambda spark: jobs.stored_figures(spark, wanted))

    def _wanted(self, columns: tuple[Column, ...], readings: tuple[Reading, ...]) -> Wanted:
        return Wanted(
            table=self._batch.table,
            columns=columns,
            ranges=self._batch.ranges,
            readings=readings,
        )

    async def _run(self, work: Work[T]) -> T:
        return await self._tools.spark.run(self._place.tag, work)

    async def _watched(self, work: Work[None]) -> None:
        """Run a job, and tell how many of its tasks are done."""
        watching = asyncio.ensure_future(self._watch())
        try:
            await self._run(work)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            tasks = await self._tools.spark.tasks(self._place.tag)
            if tasks.all:
                self._meter.advance(self._place.name, COPY_SHARE * tasks.done / tasks.all)


def _parts(files: Iterable[Written]) -> tuple[StagedPart, ...]:
    return tuple(StagedPart(item.path, item.size_bytes, item.sha256) for item in files)
