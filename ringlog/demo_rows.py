"""The rows of the demo: written and read over HTTP, with a book of what was promised."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from client.transport import Answer, LostError, Request
from metadata.columns import ColumnType
from metadata.replicas import Consistency
from metadata.schema import Column

KEYSPACE = "shop"
TABLE = "orders"
VERSION = "version"
COLUMNS = (
    Column("id", ColumnType.STRING),
    Column(VERSION, ColumnType.BIGINT),
    Column("text", ColumnType.STRING),
)
PATH = f"/v1/tables/{KEYSPACE}/{TABLE}/rows"
ABSENT = 0
"""The version of a row that is not there; a row's own begin with 1."""
OK = 200
NOT_THERE = 404
NO_ANSWER = "no_answer"

Ask: TypeAlias = Callable[[str, Request], Awaitable[Answer]]
"""One try at one address; no answer is a `LostError`."""


class Book:
    """Per row, the last version that was tried and the last that was acknowledged.

    A row has one writer at a time, and its versions ascend. A read may find any version from the
    last one acknowledged before it began to the last one tried before it ended: what got no answer
    may or may not have happened.
    """

    def __init__(self) -> None:
        self._tried: dict[str, int] = {}
        self._acknowledged: dict[str, int] = {}

    def try_next(self, key: str) -> int:
        self._tried[key] = self._tried.get(key, ABSENT) + 1
        return self._tried[key]

    def acknowledge(self, key: str, version: int) -> None:
        self._acknowledged[key] = max(version, self.promised(key))

    def promised(self, key: str) -> int:
        return self._acknowledged.get(key, ABSENT)

    def allows(self, key: str, since: int, found: int) -> bool:
        return since <= found <= self._tried.get(key, ABSENT)

    @property
    def unsettled(self) -> list[str]:
        """Rows whose last write got no acknowledgement."""
        return [key for key, tried in self._tried.items() if tried > self.promised(key)]

    @property
    def keys(self) -> list[str]:
        """Of all rows that were acknowledged."""
        return list(self._acknowledged)


class Rows:
    """Each request through any node; whoever does not answer is counted, not hidden."""

    def __init__(self, ask: Ask, urls: Callable[[], Sequence[str]]) -> None:
        self.book = Book()
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self._ask = ask
        self._urls = urls
        self._random = random.Random()  # noqa: S311 spreads load, guards nothing

    async def write(
        self, keys: Iterable[str], consistency: Consistency = Consistency.QUORUM
    ) -> list[str]:
        """Write the next version of each; those that were not acknowledged."""
        versions = {key: self.book.try_next(key) for key in keys}
        outcomes = await self._written(versions, consistency)
        failed = []
        for (key, version), code in zip(versions.items(), outcomes, strict=True):
            if code:
                failed.append(key)
                self.counts["unanswered" if code == NO_ANSWER else "refused"] += 1
            else:
                self.book.acknowledge(key, version)
                self.counts["written"] += 1
        return failed

    async def read(self, key: str, consistency: Consistency = Consistency.QUORUM) -> bool:
        """Whether there was an answer; one that breaks a promise is a violation."""
        since = self.book.promised(key)
        request = Request(path=f"{PATH}/{key}", query={"consistency": consistency.value})
        answer = await self._asked(request)
        if answer is None or answer.status not in {OK, NOT_THERE}:
            self.counts["unanswered" if answer is None else "refused"] += 1
            return False
        found = ABSENT
        if answer.status == OK:
            found = msgspec.json.decode(answer.body)["columns"][VERSION]
        if not self.book.allows(key, since, found):
            self.violations.append(f"{key}: version {since} was acknowledged, {found} was read")
        self.counts["read"] += 1
        return True

    async def _written(self, versions: Mapping[str, int], consistency: Consistency) -> list[str]:
        """For each row the code of what went wrong, if anything did."""
        rows = [
            {"key": key, "columns": {VERSION: number, "text": f"{key}, version {number}"}}
            for key, number in versions.items()
        ]
        request = Request(
            path=PATH,
            query={"consistency": consistency.value},
            body=msgspec.json.encode({"rows": rows}),
        )
        answer = await self._asked(request)
        if answer is None:
            return [NO_ANSWER] * len(rows)
        found: dict[str, Any] = msgspec.json.decode(answer.body)
        if answer.status != OK:
            return [str(found.get("code", answer.status))] * len(rows)
        return [item.get("code", "") for item in found["outcomes"]]

    async def _asked(self, request: Request) -> Answer | None:
        url = self._random.choice(self._urls())
        try:
            return await self._ask(url, request)
        except LostError:
            return None
