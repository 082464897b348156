"""Rows over HTTP, for clients."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from aiohttp import web

from metadata.epoch import Epoch
from services.http.api import Call, encode
from services.http.problems import Code, Problem, ProblemError, malformed
from services.http.quick import quick_json
from services.http.reading import read_json
from services.http.routing import Handler
from services.node.data.bodies import (
    DeletedRow,
    KeyedRow,
    ManyRows,
    OneRow,
    RowAnswer,
    RowBody,
    RowsAnswer,
    RowsBody,
    RowWritten,
    columns_json,
)
from services.node.data.coordinator import Coordinator, Put, Written
from services.node.data.tables import TableName
from services.node.engine import NodeEngine
from services.node.reads import Api

CATCH_UP_TIMEOUT_S = 2.0

B = TypeVar("B", RowBody, RowsBody)


class RowsApi:
    def __init__(self, engine: NodeEngine, coordinator: Coordinator) -> None:
        self._engine = engine
        self._coordinator = coordinator

    def dated(self, run: Handler) -> Handler:
        """With an epoch in every answer, also in one that refuses what it could not even read."""

        async def answer(api: Api, call: Call[Any]) -> web.StreamResponse:
            try:
                return await run(api, call)
            except ProblemError as error:
                if error.problem.epoch is None:
                    own = self._engine.applied.metadata.epoch
                    error.problem = msgspec.structs.replace(error.problem, epoch=own)
                raise

        return answer

    async def put(self, api: Api, call: Call[OneRow]) -> web.StreamResponse:
        body = _decoded(await read_json(api.limits, call.request), RowBody)
        await self._reached(max(body.epoch, call.query.epoch))
        put = Put(key=_raw_key(call.request), columns=body.columns, timestamp=body.timestamp)
        written = await self._written(call.query, put)
        answer = RowAnswer(
            columns=columns_json(written.row, written.table),
            timestamp=written.row.timestamp,
            epoch=written.epoch,
        )
        return quick_json(call.request, encode(answer))

    async def delete(self, _api: Api, call: Call[DeletedRow]) -> web.StreamResponse:
        await self._reached(call.query.epoch)
        key = _raw_key(call.request)
        put = Put(key=key, columns=None, timestamp=call.query.timestamp)
        written = await self._written(call.query, put)
        answer = RowWritten(timestamp=written.row.timestamp, epoch=written.epoch)
        return quick_json(call.request, encode(answer))

    async def get(self, api: Api, call: Call[OneRow]) -> web.StreamResponse:
        query = call.query
        await self._reached(query.epoch)
        name = TableName(query.keyspace, query.table)
        found = await self._coordinator.read(name, _raw_key(call.request), query.consistency)
        if found.row is None or found.row.deleted:
            raise ProblemError(Code.NO_ROW, "There is no row with this key.", epoch=found.epoch)
        answer = RowAnswer(
            columns=columns_json(found.row, found.table),
            timestamp=found.row.timestamp,
            epoch=found.epoch,
        )
        if call.request.method == "HEAD":
            return await api.json(call.request, answer)
        return quick_json(call.request, encode(answer))

    async def put_many(self, api: Api, call: Call[ManyRows]) -> web.StreamResponse:
        query = call.query
        body = _decoded(await read_json(api.limits, call.request), RowsBody)
        await self._reached(query.epoch)
        name = TableName(query.keyspace, query.table)
        outcomes = await self._coordinator.write(name, _puts(body.rows), query.consistency)
        answer = RowsAnswer([msgspec.Raw(encode(_outcome(item))) for item in outcomes])
        return await api.json(call.request, answer)

    async def _written(self, query: OneRow, put: Put) -> Written:
        name = TableName(query.keyspace, query.table)
        (outcome,) = await self._coordinator.write(name, [put], query.consistency)
        if isinstance(outcome, Problem):
            raise refused(outcome)
        return outcome

    async def _reached(self, epoch: Epoch) -> None:
        """A client that has just changed the schema knows of an epoch that this node may not."""
        if not await self._engine.catch_up(epoch, CATCH_UP_TIMEOUT_S):
            own = self._engine.applied.metadata.epoch
            raise ProblemError(
                Code.UNKNOWN_EPOCH,
                f"This node is at epoch {own} and could not reach epoch {epoch} in time.",
                field="epoch",
                epoch=own,
            )


def refused(found: Problem) -> ProblemError:
    error = ProblemError(Code(found.code), found.detail)
    error.problem = found
    return error


def _decoded(body: bytes, kind: type[B]) -> B:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise malformed(error) from error


def _raw_key(request: web.BaseRequest) -> str:
    """As it came: once decoded, a comma inside a value could not be told from one between two."""
    return request.raw_path.partition("#")[0].partition("?")[0].rpartition("/")[2]


def _puts(rows: list[KeyedRow]) -> list[Put]:
    return [Put(key=row.key, columns=row.columns, timestamp=row.timestamp) for row in rows]


def _outcome(found: Written | Problem) -> RowWritten | Problem:
    if isinstance(found, Problem):
        return found
    return RowWritten(timestamp=found.row.timestamp, epoch=found.epoch)
