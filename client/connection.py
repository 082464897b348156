"""Asking any of several addresses until one answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec

from client.errors import (
    AnswerError,
    DivergedError,
    OutcomeUnknownError,
    RequestError,
    TrimmedError,
    UnreachableError,
)
from client.patience import Attempts, Patience
from client.proposals import UNDECIDED, problem_in
from client.transport import Answer, LostError, Request, ask, new_session
from encoding.entries import EntryId

OK = 200
NOT_A_REQUEST = 400
CONFLICT = 409
GONE = 410
SERVER_FAILED = 500

_CODES = {"diverged": DivergedError, "trimmed": TrimmedError}


class Connection:
    """Asks the address that answered last, and the others when it does not.

    Nothing but what says of itself that it is not decided is sent again; whoever sends a commit
    names its entry ids, so that giving up says whether it may have been made.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        token: str | None,
        cluster: str | None,
        patience: Patience,
    ) -> None:
        self.urls = tuple(map(_checked, urls))
        assert self.urls, "a client needs an address"
        self._patience = patience
        self._session = new_session(token, cluster)
        self._preferred = 0
        self._random = random.Random()  # noqa: S311 spreads load, guards nothing

    async def close(self) -> None:
        await self._session.close()

    async def ask(
        self, request: Request, *, commits: tuple[EntryId, ...] = (), wait_s: float = 0.0
    ) -> Answer:
        """The first answer that decides, whatever it says.

        `wait_s` is how long the request itself asks a CMS to hold it.
        """
        clock = asyncio.get_running_loop().time
        patience = self._patience
        if wait_s:
            patience = msgspec.structs.replace(
                patience,
                attempt_timeout_s=patience.attempt_timeout_s + wait_s,
                deadline_s=patience.deadline_s + wait_s,
            )
        attempts = Attempts(patience, len(self.urls), first=self._preferred, now_s=clock())
        while True:
            address = attempts.address
            answer, complaint, may_have_arrived = await self._attempt(
                request, address, attempts.timeout_s(clock())
            )
            if answer is not None and answer.status not in UNDECIDED:
                self._preferred = address
                return answer
            pause = attempts.failed(
                clock(),
                chance=self._random.random(),
                may_have_arrived=may_have_arrived,
                retry_after_s=None if answer is None else answer.retry_after_s,
            )
            if pause is None:
                raise _given_up(complaint, commits if attempts.may_have_arrived else ())
            await asyncio.sleep(pause)

    async def read(self, request: Request, *, wait_s: float = 0.0) -> bytes:
        """The body of the answer to a question that has one."""
        answer = await self.ask(request, wait_s=wait_s)
        if answer.status != OK:
            raise failure(answer)
        return answer.body

    async def probe(self, url: str, path: str, *, timeout_s: float) -> bool:
        """Whether this very address says yes, now."""
        try:
            answer = await ask(self._session, url, Request(path=path), timeout_s=timeout_s)
        except LostError:
            return False
        return answer.status == OK

    async def _attempt(
        self, request: Request, address: int, timeout_s: float
    ) -> tuple[Answer | None, str, bool]:
        url = self.urls[address]
        try:
            answer = await ask(self._session, url, request, timeout_s=timeout_s)
        except LostError as error:
            return None, str(error), error.may_have_arrived
        problem = problem_in(answer.body, answer.status)
        complaint = f"{url} says {problem.detail or problem.title or answer.status}"
        # 429 is answered before anything is done; 503 says when it may have been.
        return answer, complaint.rstrip("."), problem.code == "unknown"


def failure(answer: Answer) -> RequestError | AnswerError:
    """The exception for an answer that is not the one asked for."""
    problem = problem_in(answer.body, answer.status)
    if NOT_A_REQUEST <= answer.status < SERVER_FAILED:
        return _CODES.get(problem.code, RequestError)(problem)
    return AnswerError(f"The CMS failed with status {answer.status}: {problem.sentence}")


def _given_up(complaint: str, commits: tuple[EntryId, ...]) -> UnreachableError:
    if not commits:
        return UnreachableError(f"No CMS answered: {complaint}.")
    named = ", ".join(map(str, commits[:1])) + (" and others" if len(commits) > 1 else "")
    return OutcomeUnknownError(
        f"It is not known whether the commit was made: {complaint}. "
        f"Send it again with the same entry id: {named}.",
        commits,
    )


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise ValueError(f"{url!r} is no address of a CMS: give http://HOST:PORT.")
    return url.rstrip("/")
