"""Asking any of several addresses until one answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec

from client.answers import Problem
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

ADDRESSES_MAX = 64
OK = 200
NOT_A_REQUEST = 400
CONFLICT = 409
GONE = 410
SERVER_FAILED = 500

_CODES = {
    "diverged": DivergedError,
    "diverged_log": DivergedError,
    "trimmed": TrimmedError,
    "wrong_cluster": DivergedError,
}


class Connection:
    """Asks the address that answered last, and the others when it does not.

    Addresses outlive what they were given to, so whoever speaks of another cluster, or not like
    a CMS at all, is believed only where all say so.

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
        self.urls = self._seeds = tuple(map(checked, urls))
        assert self.urls, "a client needs an address"
        self._patience = patience
        self._session = new_session(token, cluster)
        self._preferred = self.urls[0]
        self._was_connected = False
        self._random = random.Random()  # noqa: S311 spreads load, guards nothing

    async def close(self) -> None:
        await self._session.close()

    def learn(self, urls: Sequence[str]) -> None:
        """All other addresses of the same cluster, in place of those that were learnt before.

        Those given at first are kept. The log takes many a text for an address: what is none is
        left out.
        """
        found = dict.fromkeys((*self._seeds, *map(checked, filter(_is_address, urls))))
        self.urls = tuple(found)[: max(ADDRESSES_MAX, len(self._seeds))]

    def send_as(self, node: int) -> None:
        """Name this node as the sender of all that follows.

        Nodes share a token, and with it one may commit what concerns itself alone.
        """
        self._session.headers["Ringlog-Node"] = str(node)

    async def ask(
        self, request: Request, *, commits: tuple[EntryId, ...] = (), wait_s: float = 0.0
    ) -> Answer:
        """The first answer that decides, whatever it says.

        `wait_s` is how long the request itself asks a CMS to hold it.
        """
        clock = asyncio.get_running_loop().time
        urls = self.urls
        patience = self._patience.among(len(urls), wait_s=wait_s)
        if self._was_connected or commits:
            patience = patience.for_what_is_there
        first = urls.index(self._preferred) if self._preferred in urls else 0
        attempts = Attempts(patience, len(urls), first=first, now_s=clock())
        strangers: set[str] = set()
        while True:
            url = urls[attempts.address]
            tried = await self._attempt(request, url, attempts.timeout_s(clock()))
            self._was_connected |= tried.was_connected
            strangers = strangers | {url} if tried.is_strange else strangers - {url}
            answer = tried.answer
            if answer is not None and (tried.is_decided or len(strangers) == len(urls)):
                if tried.is_decided:
                    self._preferred = url
                return answer
            pause = attempts.failed(
                clock(),
                chance=self._random.random(),
                may_have_arrived=tried.may_have_arrived,
                was_connected=tried.was_connected,
                retry_after_s=None if answer is None else answer.retry_after_s,
            )
            self._preferred = urls[attempts.address]
            if pause is None:
                raise _given_up(tried.complaint, commits if attempts.may_have_arrived else ())
            await asyncio.sleep(pause)

    async def read(self, request: Request, *, wait_s: float = 0.0) -> bytes:
        """The body of the answer to a question that has one."""
        answer = await self.ask(request, wait_s=wait_s)
        if answer.status != OK:
            raise failure(answer)
        return answer.body

    async def probe(self, url: str, path: str, *, timeout_s: float) -> bool:
        """Whether this very address says yes, now."""
        return await self.refusal(url, path, timeout_s=timeout_s) == ""

    async def refusal(self, url: str, path: str, *, timeout_s: float) -> str | None:
        """The code by which this very address says no, now; empty for a yes, None for no answer."""
        try:
            answer = await ask(self._session, url, Request(path=path), timeout_s=timeout_s)
        except LostError:
            return None
        return "" if answer.status == OK else problem_in(answer.body, answer.status).code or None

    async def _attempt(self, request: Request, url: str, timeout_s: float) -> _Tried:
        try:
            answer = await ask(self._session, url, request, timeout_s=timeout_s)
        except LostError as error:
            arrived = error.may_have_arrived
            return _Tried(complaint=str(error), may_have_arrived=arrived, was_connected=arrived)
        return _judged(url, answer)


class _Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one try at one address."""

    answer: Answer | None = None
    complaint: str = ""
    may_have_arrived: bool = False
    was_connected: bool = True
    is_decided: bool = False
    is_strange: bool = False


def _judged(url: str, answer: Answer) -> _Tried:
    if answer.status == OK:
        # Whatever a CMS is asked for it says in JSON or Avro.
        is_strange, said = answer.media_type.startswith("text/"), answer.media_type
    else:
        problem = problem_in(answer.body, answer.status)
        is_strange = _is_strange(problem)
        said = problem.detail or problem.title or str(answer.status)
        if answer.status in UNDECIDED:
            return _Tried(
                answer=answer,
                complaint=f"{url} says {said}".rstrip("."),
                # 429 is answered before anything is done; 503 says when it may have been.
                may_have_arrived=problem.code == "unknown",
                # No other address and no later time helps, only an operator.
                is_decided=problem.code == "diverged_log",
            )
    if not is_strange:
        return _Tried(answer=answer, is_decided=True)
    return _Tried(
        answer=answer,
        complaint=f"{url} is no CMS of this cluster, it says {said}".rstrip("."),
        # Somebody in between may have sent it on before it failed.
        may_have_arrived=answer.status >= SERVER_FAILED,
        was_connected=False,
        is_strange=True,
    )


def _is_strange(problem: Problem) -> bool:
    """Whether another cluster says so, or nobody of any.

    A refused transformation may be of another cluster too: that is for this one to say, and the
    answer has the epoch at which it holds.
    """
    return not problem.code or (problem.code == "wrong_cluster" and problem.epoch is None)


def failure(answer: Answer) -> RequestError | AnswerError:
    """The exception for an answer that is not the one asked for."""
    problem = problem_in(answer.body, answer.status)
    if problem.code in _CODES or NOT_A_REQUEST <= answer.status < SERVER_FAILED:
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
        complaint,
    )


def checked(url: str) -> str:
    """An address that may be asked; `ValueError` says in a sentence why it may not."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        is_address = is_address and url.isprintable()
    except ValueError:
        is_address = False
    if not is_address:
        raise ValueError(f"{url!r} is no address: give http://HOST:PORT.")
    return url.rstrip("/")


def _is_address(url: str) -> bool:
    try:
        checked(url)
    except ValueError:
        return False
    return True
