"""Having the sources of a movement flush, and others in place of those that cannot."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping

import msgspec
import structlog

from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.plans import Step
from metadata.receipts import Source
from metadata.schema import TableId
from metadata.sequences import Sequence
from metadata.sessions import SessionId
from metadata.tokens import Range, coalesce
from movement.batches import Batch, Piece, Reading, read_from, sources_of
from movement.transfers import Gained, Lacking, Old, Transfer, candidates, chosen
from sequences.ports import WorkError
from services.driver.data_nodes import DataNodes
from services.http.data_messages import Flush, FlushAnswer, SegmentFile

logger = structlog.get_logger()


class Flushed(msgspec.Struct, frozen=True):
    """Who is read for what, how far each was when it was flushed, and the files of each table.

    `old` is where nodes have rows as they were before they were set back.
    """

    transfers: tuple[Transfer, ...] = ()
    epochs: dict[NodeId, Epoch] = {}
    pieces: dict[TableId, tuple[Piece, ...]] = {}
    old: Old = {}

    def sources(self, batch: Batch) -> dict[Range, tuple[Source, ...]]:
        return {
            span: tuple(Source(node, self.epochs[node]) for node in nodes)
            for span, nodes in sources_of(batch, self.transfers).items()
        }

    def readings(self, batch: Batch) -> tuple[Reading, ...]:
        sources = sources_of(batch, self.transfers)
        return tuple(read_from(sources, self.pieces.get(batch.table.id, ())))


Look = Callable[[Flushed], Awaitable[Mapping[NodeId, str]]]
"""Which of the sources have files that cannot be read, and what is wrong with them."""


async def flushed_sources(
    nodes: DataNodes, sequence: Sequence, gained: Iterable[Gained], unfit: Look
) -> Flushed:
    """Choose, flush, look, and choose again without those who failed, while there are enough."""
    listed = tuple(gained)
    start = sequence.epoch_of(Step.START)
    assert start is not None, sequence.id
    assert sequence.session is not None, sequence.id
    asked = candidates(listed, sequence.dead)
    answering = await nodes.answering(asked, start)
    failed: dict[NodeId, str] = {}
    for _ in range(len(asked) + 1):
        transfers = chosen(listed, sequence, answering - failed.keys())
        if isinstance(transfers, Lacking):
            raise WorkError(". ".join([transfers.detail, *failed.values()]))
        answers = await _flush(nodes, _wanted(sequence.session, start, transfers))
        faults = {node: str(item) for node, item in answers.items() if isinstance(item, WorkError)}
        if not faults:
            found = {node: item for node, item in answers.items() if isinstance(item, FlushAnswer)}
            flushed = _flushed(transfers, found)
            faults = dict(await unfit(flushed))
            if not faults:
                return flushed
        for node, text in faults.items():
            logger.warning("source_passed_over", node=node, error=text)
        failed |= faults
    raise AssertionError(failed)


async def flush_all(
    nodes: DataNodes, session: SessionId, epoch: Epoch, transfers: Iterable[Transfer]
) -> Flushed:
    """Everybody who is named, or a `WorkError`."""
    listed = tuple(transfers)
    answers = await _flush(nodes, _wanted(session, epoch, listed))
    found: dict[NodeId, FlushAnswer] = {}
    for node, answer in answers.items():
        if isinstance(answer, WorkError):
            raise answer
        found[node] = answer
    return _flushed(listed, found)


def piece_of(node: NodeId, file: SegmentFile) -> Piece:
    return Piece(
        node=node,
        path=file.path,
        rows=file.rows,
        size_bytes=file.bytes,
        first=file.min_token,
        last=file.max_token,
        ranges=file.ranges,
        sha256=file.checksum,
        footer=file.footer,
    )


async def _flush(
    nodes: DataNodes, wanted: dict[NodeId, Flush]
) -> dict[NodeId, FlushAnswer | WorkError]:
    async def one(node: NodeId, message: Flush) -> FlushAnswer | WorkError:
        try:
            return await nodes.flush(node, message)
        except WorkError as error:
            return error

    answers = await asyncio.gather(*(one(node, message) for node, message in wanted.items()))
    return dict(zip(wanted, answers, strict=True))


def _wanted(session: SessionId, epoch: Epoch, transfers: Iterable[Transfer]) -> dict[NodeId, Flush]:
    tables: dict[NodeId, set[TableId]] = defaultdict(set)
    ranges: dict[NodeId, list[Range]] = defaultdict(list)
    for item in transfers:
        for node in item.sources:
            tables[node].add(item.gained.table.id)
            ranges[node].append(item.gained.change.range)
    return {
        node: Flush(
            session=session,
            epoch=epoch,
            tables=tuple(sorted(tables[node])),
            ranges=coalesce(ranges[node]),
        )
        for node in sorted(tables)
    }


def _flushed(transfers: Iterable[Transfer], answers: dict[NodeId, FlushAnswer]) -> Flushed:
    pieces: dict[TableId, list[Piece]] = defaultdict(list)
    for node, answer in answers.items():
        for file in answer.segments:
            pieces[file.table].append(piece_of(node, file))
    return Flushed(
        transfers=tuple(transfers),
        epochs={node: answer.epoch for node, answer in answers.items()},
        pieces={table: tuple(found) for table, found in pieces.items()},
        old={
            (node, item.table): item.ranges
            for node, answer in answers.items()
            for item in answer.old
        },
    )
