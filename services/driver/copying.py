"""Copying one batch: staged, published if the session is open, imported, and counted again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from metadata.directory import NodeId
from metadata.schema import Column, Table
from metadata.sessions import SessionId
from movement import jobs, manifests, taking
from movement.batches import Batch, Piece, Reading, copies_of, divided, expected, read_from
from movement.checking import Unfit, looked_at
from movement.counting import counted
from movement.jobs import Wanted, Written
from movement.manifests import Manifest, Read, StagedPart
from movement.receipts import Copied, SliceFigures, differences
from movement.spark import JobFailedError, Spark, Work
from sequences.ports import WorkError
from services.driver.data_nodes import DataNodes
from services.driver.flushing import Flushed, piece_of
from services.driver.progress import Meter
from services.driver.together import beside, together
from services.http.data_messages import Import, SegmentFile, StagedFile

T = TypeVar("T")

LOOK_EVERY_S = 0.5
COPY_SHARE = 0.8
"""Of the work of a batch; the rest is counting the rows."""
DIFFERENCES_SHOWN_MAX = 3
ROWS = "rows"
WHOLE = "whole"
"""Sub-folders of an attempt: what was written by the job, and files that were taken as they are."""

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
        self._looked_at: tuple[Reading, ...] | None = None

    async def unfit(self, flushed: Flushed) -> dict[NodeId, str]:
        """Look at the files that are to be read: which of these sources will not do, and why."""
        self._looked_at = None
        found = await asyncio.to_thread(
            _looked_at, flushed.readings(self._batch), self._batch.table
        )
        if isinstance(found, dict):
            return found
        self._looked_at = found
        return {}

    async def expect(self, flushed: Flushed) -> None:
        """Tell how much there is to move."""
        readings = await self._checked(flushed)
        sources = flushed.sources(self._batch)
        copies = copies_of({span: [item.node for item in found] for span, found in sources.items()})
        counts = await asyncio.to_thread(counted, readings)
        rows, size_bytes = expected(readings, counts)
        self._meter.expect(self._place.name, round(rows / copies), round(size_bytes / copies))

    async def found(self) -> Manifest | None:
        """What an earlier attempt has published."""
        return await asyncio.to_thread(manifests.find, self._place.staging, self._place.name)

    async def is_imported(self, manifest: Manifest) -> bool:
        """Whether the target has taken its files over: then no others can come in their place."""
        if not manifest.files:
            return False
        return bool(
            await self._tools.nodes.imported(manifest.target, self._place.session, manifest.name)
        )

    async def is_whole(self, manifest: Manifest) -> bool:
        """Whether its files are still what it says; raises where that cannot be found out."""
        if not await asyncio.to_thread(manifests.all_there, manifest):
            return False
        paths = [item.path for item in manifest.files]
        return not paths or sorted(await self._hashed(paths)) == sorted(manifest.files)

    async def withdraw(self, manifest: Manifest) -> None:
        await asyncio.to_thread(manifests.withdraw, self._place.staging, manifest)

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

    async def drop(self, manifest: Manifest) -> None:
        """Take back what was published, which nobody was asked to import."""
        await self.withdraw(manifest)
        await asyncio.to_thread(manifests.discard, self._place.folder)

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
        batch = self._batch
        sources = flushed.sources(batch)
        readings = await self._checked(flushed)
        # Neither knows of the other: what is counted is read from the sources again.
        files, figures = await together(
            self._files(readings),
            self._run(lambda spark: jobs.merged_figures(spark, self._wanted(readings))),
        )
        rows, size_bytes = _moved(files, figures)
        self._meter.settle(self._place.name, rows, size_bytes)
        return Manifest(
            name=self._place.name,
            table=batch.table.id,
            target=batch.target,
            columns=batch.table.columns,
            reads=tuple(Read(span, sources[span]) for span in batch.ranges),
            files=files,
            figures=tuple(figures),
        )

    async def _files(self, readings: Sequence[Reading]) -> tuple[StagedPart, ...]:
        """Whole files as they are where that will do, and the rows of all others."""
        whole, rest = divided(readings)
        try:
            parts = await self._taken(whole) if whole else []
        except JobFailedError:
            # Perhaps the workers have no Python. The rows need none; what else may be in the way
            # is in theirs too, and told then.
            parts, rest = [], list(readings)
        if rest:
            wanted, folder = self._wanted(rest), f"{self._place.folder}/{ROWS}"
            await self._watched(lambda spark: jobs.copy(spark, wanted, folder))
            parts += _parts(await self._run(lambda spark: jobs.written(spark, [folder])))
        return tuple(parts)

    async def _taken(self, pieces: Sequence[Piece]) -> list[StagedPart]:
        """The target compares them with what their node has noted when it wrote them."""
        paths, folder = [piece.path for piece in pieces], f"{self._place.folder}/{WHOLE}"
        found = await self._run(lambda spark: taking.taken(spark, paths, folder))
        return [
            StagedPart(path, piece.size_bytes, piece.sha256)
            for path, piece in zip(found, pieces, strict=True)
        ]

    async def _hashed(self, paths: Sequence[str]) -> list[StagedPart]:
        """Piece by piece, because files that were taken as they are may be larger than memory."""
        try:
            found = await self._run(lambda spark: taking.hashed(spark, paths))
        except JobFailedError:
            # Perhaps the workers have no Python.
            found = await self._run(lambda spark: jobs.written(spark, paths))
        return _parts(found)

    async def _checked(self, flushed: Flushed) -> tuple[Reading, ...]:
        if self._looked_at is None:
            unfit = await self.unfit(flushed)
            if unfit:
                raise WorkError("; ".join(unfit.values()))
        assert self._looked_at is not None
        return self._looked_at

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
        wanted = self._wanted(readings, manifest.columns)
        return await self._run(lambda spark: jobs.stored_figures(spark, wanted))

    def _wanted(
        self, readings: Iterable[Reading], columns: tuple[Column, ...] | None = None
    ) -> Wanted:
        table = self._batch.table
        return Wanted(
            table=table,
            columns=table.columns if columns is None else columns,
            ranges=self._batch.ranges,
            readings=tuple(readings),
        )

    async def _run(self, work: Work[T]) -> T:
        return await self._tools.spark.run(self._place.tag, work)

    async def _watched(self, work: Work[None]) -> None:
        """Run a job, and tell how many of its tasks are done."""
        await beside(self._run(work), self._watch())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            tasks = await self._tools.spark.tasks(self._place.tag)
            if tasks.all:
                self._meter.advance(self._place.name, COPY_SHARE * tasks.done / tasks.all)


def _looked_at(
    readings: Iterable[Reading], table: Table
) -> tuple[Reading, ...] | dict[NodeId, str]:
    """With what the footers tell, or what is wrong with a file of each node that has a bad one."""
    faults: dict[NodeId, str] = {}
    checked: list[Reading] = []
    for reading in readings:
        pieces: list[Piece] = []
        for piece in reading.pieces:
            found = looked_at(piece, table)
            if isinstance(found, Piece):
                pieces.append(found)
            else:
                faults[piece.node] = _fault(piece, found)
        checked.append(Reading(reading.spans, tuple(pieces)))
    return faults or tuple(checked)


def _fault(piece: Piece, found: Unfit) -> str:
    told = f"segment {piece.path} of node {piece.node} {found.reason}"
    if found.is_too_new:
        raise WorkError(told)
    return told


def _moved(files: Iterable[StagedPart], figures: Iterable[SliceFigures]) -> tuple[int, int]:
    return sum(item.figures.rows for item in figures), sum(item.size_bytes for item in files)


def _parts(files: Iterable[Written]) -> list[StagedPart]:
    return [StagedPart(item.path, item.size_bytes, item.sha256) for item in files]
