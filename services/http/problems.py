"""What is said when something is not done: RFC 9457, with a stable `code`."""

from __future__ import annotations

import re
from enum import StrEnum
from http import HTTPStatus
from typing import Any
from uuid import UUID

import msgspec
from aiohttp import web

from encoding.json import rejection_json
from log.queue import OverloadedError
from log.sequencer import OutcomeUnknownError, StoppedError
from log.store import StoreUnavailableError, TrimmedError
from transformations.outcome import Rejected

MEDIA_TYPE = "application/problem+json"


class Code(StrEnum):
    """Everything but the reasons of rejections, which are codes too; part of the API."""

    MALFORMED = "malformed"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    UNKNOWN_EPOCH = "unknown_epoch"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    ENTRY_ID_REUSED = "entry_id_reused"
    WRONG_CLUSTER = "wrong_cluster"
    WRONG_NODE = "wrong_node"
    WRONG_HOST = "wrong_host"
    DIVERGED = "diverged"
    TRIMMED = "trimmed"
    TOO_LARGE = "too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    OVERLOADED = "overloaded"
    INTERNAL = "internal"
    UNKNOWN = "unknown"
    STOPPING = "stopping"
    UNAVAILABLE = "unavailable"
    DIVERGED_LOG = "diverged_log"
    SIGNED_OTHERWISE = "signed_otherwise"
    UNKNOWN_TABLE = "unknown_table"
    NO_ROW = "no_row"
    NEWER_HELD = "newer_held"
    UNAVAILABLE_REPLICAS = "unavailable_replicas"
    WRITE_UNKNOWN = "write_unknown"
    NEEDS_REPAIR = "needs_repair"
    COORDINATOR_BEHIND = "coordinator_behind"
    REPLICA_BEHIND = "replica_behind"
    NOT_OWNER = "not_owner"
    NO_PERMIT = "no_permit"
    NOT_DRAINED = "not_drained"
    RANGES_RESERVED = "ranges_reserved"
    UNUSABLE_SEGMENT = "unusable_segment"
    IMPORT_NAME_REUSED = "import_name_reused"
    DISK_FULL = "disk_full"
    STORE_FAILED = "store_failed"


STATUSES = {
    Code.MALFORMED: HTTPStatus.BAD_REQUEST,
    Code.UNAUTHORIZED: HTTPStatus.UNAUTHORIZED,
    Code.FORBIDDEN: HTTPStatus.FORBIDDEN,
    Code.NOT_FOUND: HTTPStatus.NOT_FOUND,
    Code.UNKNOWN_EPOCH: HTTPStatus.NOT_FOUND,
    Code.METHOD_NOT_ALLOWED: HTTPStatus.METHOD_NOT_ALLOWED,
    Code.ENTRY_ID_REUSED: HTTPStatus.CONFLICT,
    Code.WRONG_CLUSTER: HTTPStatus.CONFLICT,
    Code.WRONG_NODE: HTTPStatus.CONFLICT,
    Code.WRONG_HOST: HTTPStatus.MISDIRECTED_REQUEST,
    Code.DIVERGED: HTTPStatus.CONFLICT,
    Code.TRIMMED: HTTPStatus.GONE,
    Code.TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    Code.UNSUPPORTED_MEDIA_TYPE: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    Code.OVERLOADED: HTTPStatus.TOO_MANY_REQUESTS,
    Code.INTERNAL: HTTPStatus.INTERNAL_SERVER_ERROR,
    Code.UNKNOWN: HTTPStatus.SERVICE_UNAVAILABLE,
    Code.STOPPING: HTTPStatus.SERVICE_UNAVAILABLE,
    Code.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    Code.DIVERGED_LOG: HTTPStatus.SERVICE_UNAVAILABLE,
    Code.SIGNED_OTHERWISE: HTTPStatus.CONFLICT,
    Code.UNKNOWN_TABLE: HTTPStatus.NOT_FOUND,
    Code.NO_ROW: HTTPStatus.NOT_FOUND,
    Code.NEWER_HELD: HTTPStatus.CONFLICT,
    Code.UNAVAILABLE_REPLICAS: HTTPStatus.SERVICE_UNAVAILABLE,
    Code.WRITE_UNKNOWN: HTTPStatus.SERVICE_UNAVAILABLE,
    Code.NEEDS_REPAIR: HTTPStatus.SERVICE_UNAVAILABLE,
    Code.COORDINATOR_BEHIND: HTTPStatus.CONFLICT,
    Code.REPLICA_BEHIND: HTTPStatus.SERVICE_UNAVAILABLE,
    Code.NOT_OWNER: HTTPStatus.CONFLICT,
    Code.NO_PERMIT: HTTPStatus.CONFLICT,
    Code.NOT_DRAINED: HTTPStatus.SERVICE_UNAVAILABLE,
    Code.RANGES_RESERVED: HTTPStatus.CONFLICT,
    Code.UNUSABLE_SEGMENT: HTTPStatus.CONFLICT,
    Code.IMPORT_NAME_REUSED: HTTPStatus.CONFLICT,
    Code.DISK_FULL: HTTPStatus.INSUFFICIENT_STORAGE,
    Code.STORE_FAILED: HTTPStatus.SERVICE_UNAVAILABLE,
}

TEMPORARY = {
    Code.OVERLOADED,
    Code.UNKNOWN,
    Code.STOPPING,
    Code.UNAVAILABLE,
    Code.UNAVAILABLE_REPLICAS,
    Code.WRITE_UNKNOWN,
    Code.REPLICA_BEHIND,
    Code.NOT_DRAINED,
}
"""Worth another try, after a while."""

EXPECTED: dict[type[Exception], tuple[Code, str]] = {
    OverloadedError: (Code.OVERLOADED, "too many proposals wait; this one was not taken in"),
    OutcomeUnknownError: (
        Code.UNKNOWN,
        "it may or may not be in the log, which did not answer; send it again with the same id",
    ),
    StoppedError: (Code.STOPPING, "this process takes no more proposals"),
    StoreUnavailableError: (Code.UNAVAILABLE, "the log does not answer"),
    web.RequestPayloadError: (Code.MALFORMED, "the body is not encoded as its headers say"),
}
"""What may go wrong outside the domain. Anything else is a bug."""


class Span(msgspec.Struct, frozen=True):
    left: str
    right: str


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`code` is for programs, `detail` for people; the others say where and what is in the way."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    field: str | None = None
    index: int | None = None
    epoch: int | None = None
    tip: int | None = None
    entry_id: UUID | None = None
    remedy: str | None = None
    archive: str | None = None
    sequence: int | None = None
    step: str | None = None
    ranges: tuple[Span, ...] = ()


class ProblemError(Exception):
    """Ends a request with a problem."""

    def __init__(self, code: Code, detail: str, **members: Any) -> None:  # noqa: ANN401 - of Problem
        super().__init__(detail)
        self.problem = problem(code, detail, **members)


def problem(code: Code, detail: str, **members: Any) -> Problem:  # noqa: ANN401 - of Problem
    return _titled(code.value, STATUSES[code], detail=detail, **members)


def refused(rejected: Rejected, **members: Any) -> Problem:  # noqa: ANN401 - of Problem
    plain = rejection_json(rejected)
    ranges = tuple(Span(**span) for span in plain.pop("ranges", ()))
    return _titled(plain.pop("code"), HTTPStatus.CONFLICT, ranges=ranges, **plain, **members)


def expected(error: Exception) -> Problem | None:
    """The problem behind an exception of the table; none for a bug."""
    if isinstance(error, ProblemError):
        return error.problem
    if isinstance(error, TrimmedError):
        return problem(Code.TRIMMED, str(error), epoch=error.seam, archive=error.archive)
    found = EXPECTED.get(type(error))
    return None if found is None else problem(*found)


def malformed(error: Exception, prefix: str = "") -> ProblemError:
    """Bytes that are not what they should be, with the name of the field where that is known."""
    if isinstance(error, RecursionError):
        return ProblemError(Code.MALFORMED, "The JSON is nested too deeply.", field=prefix or None)
    path = ".".join(part for part in (prefix, _path_of(error)) if part)
    return ProblemError(Code.MALFORMED, _sentence(error), field=path.replace(".[", "[") or None)


_named = re.compile(r"(?:unknown|required) field `([^`]*)`")


def _path_of(error: Exception) -> str:
    """The path that msgspec gives, and the field that is missing there or too many."""
    found = error if isinstance(error, msgspec.ValidationError) else error.__cause__
    if not isinstance(found, msgspec.ValidationError):
        return ""
    complaint, at, place = str(found).rpartition(" - at ")
    path = place.strip("`").removeprefix("$").removeprefix(".") if at else ""
    name = _named.search(complaint if at else str(found))
    return ".".join(part for part in (path, name[1] if name else "") if part)


def _sentence(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "The text is not UTF-8."
    text = str(error).partition(" - at ")[0].rstrip(".")
    return f"{text[:500]}."


def _titled(code: str, status: HTTPStatus, **members: Any) -> Problem:  # noqa: ANN401 - of Problem
    title = code.replace("_", " ").capitalize()
    return Problem(
        type=f"urn:ringlog:problem:{code}", title=title, status=status.value, code=code, **members
    )
