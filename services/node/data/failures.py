"""What is said when the node's own store, or a row, is not as it should be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from services.http.problems import Code, ProblemError, malformed
from store.failures import (
    ClosedError,
    DiskFullError,
    InvalidRowError,
    OverloadedError,
    SegmentError,
    StoreError,
)
from store.imports import ImportNameReusedError

_CODES: tuple[tuple[type[StoreError], Code], ...] = (
    (InvalidRowError, Code.MALFORMED),
    (OverloadedError, Code.OVERLOADED),
    (ClosedError, Code.STOPPING),
    (DiskFullError, Code.DISK_FULL),
    (ImportNameReusedError, Code.IMPORT_NAME_REUSED),
    (SegmentError, Code.UNUSABLE_SEGMENT),
    (StoreError, Code.STORE_FAILED),
)


@contextmanager
def told() -> Iterator[None]:
    """What the store raises ends the request with the problem that it is."""
    try:
        yield
    except StoreError as error:
        raise as_problem(error) from error


def as_problem(error: StoreError | RecursionError) -> ProblemError:
    """A value that could just be decoded may be too deep to be shown."""
    if isinstance(error, RecursionError):
        return malformed(error, "columns")
    code = next(code for kind, code in _CODES if isinstance(error, kind))
    field = None
    if isinstance(error, InvalidRowError):
        field = "key" if error.column is None else _field(error.column)
    return ProblemError(code, str(error), field=field)


def _field(column: str) -> str:
    return column if column == "timestamp" else f"columns.{column}"
