"""Telling the CMS something again and again, and complaining once while it does not listen."""

from __future__ import annotations

from typing import TypeVar

import msgspec
import structlog

from client.connection import OK, Connection
from client.errors import ClientError
from client.transport import Request

logger = structlog.get_logger()

T = TypeVar("T")


class Teller:
    """`failure` is the event in the log when it does not work any more."""

    def __init__(self, connection: Connection, path: str, failure: str) -> None:
        self._connection = connection
        self._path = path
        self._failure = failure
        self._was_heard = True

    async def tell(self, message: msgspec.Struct, answer: type[T]) -> T | None:
        """What the CMS answers; None if it did not, or not with sense."""
        request = Request(path=self._path, body=msgspec.json.encode(message))
        try:
            given = await self._connection.ask(request)
            found = msgspec.json.decode(given.body, type=answer) if given.status == OK else None
        except ClientError as error:
            self._complain(str(error))
            return None
        except (ValueError, RecursionError) as error:
            self._complain(f"an answer that makes no sense: {error}")
            return None
        if found is None:
            self._complain(f"status {given.status}: {given.body[:200]!r}")
        else:
            self._was_heard = True
        return found

    def _complain(self, error: str) -> None:
        """Once, until it works again."""
        if self._was_heard:
            logger.warning(self._failure, error=error)
        self._was_heard = False
