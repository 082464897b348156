"""From processes that run to a cluster that serves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from client.answers import Committed, Rejected
from client.client import Client
from client.connection import Connection
from client.errors import ClientError
from client.patience import ORDINARY
from encoding.entries import EntryId
from services.local.failure import LocalServerError
from services.local.state import Kept
from transformations.initialize import Initialize
from transformations.outcome import Reason

ACTOR = "ringlog up"
PROBE_INTERVAL_S = 0.05
PROBE_TIMEOUT_S = 2.0
READY_TIMEOUT_S = 60.0
FOUND_DEADLINE_S = 30.0


async def wait_until(
    path: str,
    urls: Sequence[str],
    *,
    give_up: Callable[[], str | None],
    timeout_s: float = READY_TIMEOUT_S,
    but: str | None = None,
) -> list[str]:
    """Until every address says yes to `path`; `give_up` may say why that will not happen.

    The answer is who says no by the code `but`, which is not waited for either.
    """
    if not urls:
        return []
    connection = Connection(urls, token=None, cluster=None, patience=ORDINARY)
    try:
        async with asyncio.timeout(timeout_s):
            return [
                url for url in urls if await _wait_for(connection, url, path, but, give_up) == but
            ]
    except TimeoutError:
        raise LocalServerError(
            f"Not all of {', '.join(urls)} serve after {timeout_s:.0f} s: see the log files."
        ) from None
    finally:
        await connection.close()


async def _wait_for(
    connection: Connection,
    url: str,
    path: str,
    but: str | None,
    give_up: Callable[[], str | None],
) -> str | None:
    enough = ("", but or "")
    while (code := await connection.refusal(url, path, timeout_s=PROBE_TIMEOUT_S)) not in enough:
        if (sentence := give_up()) is not None:
            raise LocalServerError(sentence)
        await asyncio.sleep(PROBE_INTERVAL_S)
    return code


@contextlib.asynccontextmanager
async def founder(url: str | Sequence[str], token: str | None) -> AsyncIterator[Client]:
    """A client for what has to be committed before the cluster serves."""
    patience = msgspec.structs.replace(ORDINARY, deadline_s=FOUND_DEADLINE_S)
    try:
        async with Client(url, token, patience=patience) as client:
            yield client
    except ClientError as error:
        raise LocalServerError(f"The cluster cannot be made ready: {error}") from error


async def found(client: Client, kept: Kept) -> None:
    """Commit the first entry of an empty log, or see that the log is what it was."""
    if kept.founded:
        await _check_founded(client, kept)
    else:
        await _commit_initialize(client, kept)


async def _commit_initialize(client: Client, kept: Kept) -> None:
    outcome = await client.commit(
        Initialize(name=kept.name, partitioner=kept.partitioner),
        entry_id=EntryId(kept.founding_entry_id),
        actor=ACTOR,
    )
    match outcome:
        case Committed():
            return
        case Rejected(code=Reason.ALREADY_INITIALIZED.value):
            await _check_founded(client, kept)
        case Rejected():
            raise LocalServerError(f"Initialize was refused: {outcome.detail}.")


async def _check_founded(client: Client, kept: Kept) -> None:
    status = await client.status()
    if status.cluster is None:
        raise LocalServerError(
            "This cluster was founded before and its log is empty now: restore Postgres, or "
            "start anew in another --state-dir."
        )
    if status.partitioner != kept.partitioner:
        raise LocalServerError(
            f"The cluster was founded with --partitioner {status.partitioner}: leave the option "
            "out, or start anew in another --state-dir."
        )
