"""The paths of the data plane: those for clients, and those between processes."""

from __future__ import annotations

from services.http.data_messages import (
    CLEANUP_PATH,
    FLUSH_PATH,
    FORGET_PATH,
    IMPORT_PATH,
    IMPORTED_PATH,
    REPAIRED_PATH,
    REPLICA_READ_PATH,
    REPLICA_WRITE_PATH,
    SIZES_PATH,
    STAGING_PATH,
    Cleanup,
    Flush,
    Forget,
    Import,
    Imported,
    Repaired,
    ReplicaRead,
    ReplicaWrite,
    Sizes,
    Staging,
)
from services.http.problems import Code
from services.http.roles import Role
from services.http.routing import Route
from services.node.data.bodies import (
    DeletedRow,
    ManyRows,
    OneRow,
    RowAnswer,
    RowBody,
    RowsAnswer,
    RowsBody,
    RowWritten,
)
from services.node.data.inner import asked_in_json, asked_in_message_pack
from services.node.data.movement import Movement
from services.node.data.replica import Replica
from services.node.data.rows import RowsApi

ROW = "/v1/tables/{keyspace}/{table}/rows/{key}"
ROWS = "/v1/tables/{keyspace}/{table}/rows"

_READ = (
    Code.UNKNOWN_TABLE,
    Code.DIVERGED,
    Code.NEEDS_REPAIR,
    Code.UNAVAILABLE_REPLICAS,
    Code.UNKNOWN_EPOCH,
)
_WRITE = (
    *_READ,
    Code.WRITE_UNKNOWN,
    Code.NEWER_HELD,
    Code.TOO_LARGE,
    Code.UNSUPPORTED_MEDIA_TYPE,
)


def client_routes(rows: RowsApi) -> tuple[Route, ...]:
    return (
        Route(
            method="PUT",
            path=ROW,
            run=rows.dated(rows.put),
            summary="Write a row, whole",
            query=OneRow,
            body=RowBody,
            answer=RowAnswer,
            problems=_WRITE,
            role=Role.NODE,
        ),
        Route(
            method="GET",
            path=ROW,
            run=rows.dated(rows.get),
            summary="Read a row",
            query=OneRow,
            answer=RowAnswer,
            problems=(*_READ, Code.NO_ROW),
        ),
        Route(
            method="DELETE",
            path=ROW,
            run=rows.dated(rows.delete),
            summary="Delete a row",
            query=DeletedRow,
            answer=RowWritten,
            problems=_WRITE,
            role=Role.NODE,
        ),
        Route(
            method="POST",
            path=ROWS,
            run=rows.dated(rows.put_many),
            summary="Write many rows, each with its own outcome",
            query=ManyRows,
            body=RowsBody,
            answer=RowsAnswer,
            problems=_WRITE,
            role=Role.NODE,
        ),
    )


def inner_routes(replica: Replica, movement: Movement) -> tuple[Route, ...]:
    return (
        asked_in_message_pack(REPLICA_WRITE_PATH, ReplicaWrite, replica.write),
        asked_in_message_pack(REPLICA_READ_PATH, ReplicaRead, replica.read),
        asked_in_json(FLUSH_PATH, Flush, movement.flush),
        asked_in_json(STAGING_PATH, Staging, movement.staging),
        asked_in_json(IMPORT_PATH, Import, movement.take_over),
        asked_in_json(IMPORTED_PATH, Imported, movement.imported),
        asked_in_json(CLEANUP_PATH, Cleanup, movement.cleanup),
        asked_in_json(FORGET_PATH, Forget, movement.forget),
        asked_in_json(REPAIRED_PATH, Repaired, movement.repaired),
        asked_in_json(SIZES_PATH, Sizes, movement.sizes),
    )
