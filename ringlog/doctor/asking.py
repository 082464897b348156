"""Asking processes over HTTP: a few questions each, all at once, and none for long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from client.proposals import problem_in
from client.transport import Answer, LostError, Request, ask, new_session
from ringlog.doctor.picture import Asked, Disk, Plain, Unanswered

TIMEOUT_S = 3.0
ASKED_MAX = 128
"""Of a larger cluster these many processes are asked themselves; the CMS tells of all."""
OK = 200


class Whom(msgspec.Struct, frozen=True):
    name: str
    role: str
    url: str


class Questions:
    """Keeps what nobody answered."""

    def __init__(self, token: str | None) -> None:
        self.unanswered: list[Unanswered] = []
        self._session = new_session(token, None)

    async def close(self) -> None:
        await self._session.close()

    async def looked_at(self, whom: Iterable[Whom]) -> tuple[Asked, ...]:
        listed = list(whom)[:ASKED_MAX]
        return tuple(await asyncio.gather(*map(self._look, listed)))

    async def get(
        self, urls: Sequence[str], path: str, *, can_be_stale: bool = True
    ) -> dict[str, Any] | None:
        """From whoever answers first; old news where nobody has new ones."""
        complaint = "nobody to ask"
        for query in ({}, {"stale": "1"}) if can_be_stale else ({},):
            for url in urls:
                found = await self._try(url, Request(path=path, query=query))
                if isinstance(found, dict):
                    return found
                complaint = found
        self.unanswered.append(Unanswered(path.rpartition("/")[2], complaint))
        return None

    async def _try(self, url: str, request: Request) -> dict[str, Any] | str:
        try:
            answer = await ask(self._session, url, request, timeout_s=TIMEOUT_S)
        except LostError as error:
            return str(error)
        if answer.status != OK:
            problem = problem_in(answer.body, answer.status)
            return f"{problem.code}: {problem.sentence}" if problem.code else problem.sentence
        try:
            return msgspec.json.decode(answer.body, type=dict[str, Any])
        except (ValueError, RecursionError):
            return f"{url} answers something else than a CMS"

    async def _look(self, whom: Whom) -> Asked:
        """Ready is asked beside healthy, because it may wait for Postgres."""
        before_s = time.time()
        health, ready, described = await asyncio.gather(
            self._answer(whom.url, "/healthz"),
            self._answer(whom.url, "/readyz"),
            self._answer(whom.url, "/openapi.json"),
        )
        if isinstance(health, str):
            return Asked(
                name=whom.name, role=whom.role, url=whom.url, answered=False, complaint=health
            )
        said = _decoded(health)
        is_ready = isinstance(ready, Answer) and ready.status == OK
        problem = None
        if isinstance(ready, Answer) and not is_ready:
            problem = problem_in(ready.body, ready.status)
        return Asked(
            name=whom.name,
            role=whom.role,
            url=whom.url,
            answered=True,
            ready=is_ready,
            code=None if problem is None else problem.code,
            detail=said.get("detail") or (None if problem is None else problem.sentence),
            complaint=ready if isinstance(ready, str) else None,
            cluster=said.get("cluster"),
            sequencing=said.get("sequencing"),
            version=_decoded(described).get("info", {}).get("version"),
            skew_s=_skew_s(health.date, before_s, time.time()),
            disk=_disk(said.get("disk")),
        )

    async def _answer(self, url: str, path: str) -> Answer | str:
        try:
            return await ask(self._session, url, Request(path=path), timeout_s=TIMEOUT_S)
        except LostError as error:
            return str(error).removeprefix(url).strip()


def _decoded(answer: Answer | str) -> Plain:
    if isinstance(answer, str):
        return {}
    try:
        found = msgspec.json.decode(answer.body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, Mapping) else {}


def _disk(said: object) -> Disk | None:
    """None also of a process of the release before, and of a CMS, which keeps nothing."""
    try:
        return None if said is None else msgspec.convert(said, Disk)
    except msgspec.ValidationError:
        return None


def _skew_s(date: str | None, before_s: float, after_s: float) -> float | None:
    """HTTP cuts a date to whole seconds, and it may be of any moment in between.

    Nothing is made of what the cut and the way explain, however slow this machine is.
    """
    if date is None:
        return None
    try:
        theirs_s = parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError):
        return None
    if theirs_s > after_s:
        return theirs_s - after_s
    return min(0.0, theirs_s + 1.0 - before_s)
