"""The one way in which parts of the log in Postgres go: a function that sees for itself."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from log.postgres_sessions import BROKEN, CONNECT_TIMEOUT_S
from log.store import StoreUnavailableError
from log.trimming import Cut, Standing, TrimRefusedError

TRIM_TIMEOUT_S = 1800.0
"""All rows of a partition are read again before it goes."""

_STANDING = """
SELECT epochs_per_partition() AS epochs_per_partition,
       coalesce((SELECT max(epoch) FROM log_seams), 0) AS seam,
       coalesce((SELECT max(epoch) FROM log_entries), 0) AS tip
"""
_TRIM = "SELECT trim_log($1, $2, $3, $4, $5, $6) AS is_done"


class PostgresTrimming:
    """On a connection of its own: a trim takes long, and those of the services answer soon."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    async def standing(self) -> Standing:
        (row,) = await self._fetch(_STANDING)
        return Standing(**dict(row))

    async def trim(self, cut: Cut) -> bool:
        """Let go of the oldest partition, or raise `TrimRefusedError`; False if it is gone."""
        (row,) = await self._fetch(
            _TRIM,
            cut.seam.epoch,
            cut.seam.hash,
            cut.root,
            cut.archive,
            list(cut.anchored_by),
            cut.by,
        )
        return bool(row["is_done"])

    async def _fetch(self, statement: str, *arguments: object) -> Sequence[asyncpg.Record]:
        try:
            connection = await asyncpg.connect(self._dsn, timeout=CONNECT_TIMEOUT_S)
            try:
                rows: Sequence[asyncpg.Record] = await connection.fetch(
                    statement, *arguments, timeout=TRIM_TIMEOUT_S
                )
                return rows
            finally:
                await connection.close(timeout=CONNECT_TIMEOUT_S)
        except asyncpg.RestrictViolationError as error:
            raise TrimRefusedError(f"{error} {error.hint}.") from error
        except asyncpg.LockNotAvailableError as error:
            raise TrimRefusedError("Nothing is trimmed: the log is busy; try again.") from error
        except asyncpg.InsufficientPrivilegeError as error:
            raise TrimRefusedError(
                f"Nothing is trimmed: {error}; let an administrator grant EXECUTE on trim_log."
            ) from error
        except BROKEN as error:
            raise StoreUnavailableError(repr(error)) from error
