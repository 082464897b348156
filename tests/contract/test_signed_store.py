"""What every memory of signed checkpoints promises: the one in memory and the one in Postgres."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from audit.checkpoints import Checkpoint
from log.postgres_sessions import Sessions
from services.cms.proofs.signed import MemorySigned, PostgresSigned


@pytest.fixture(params=["memory", "postgres"])
def place(request):
    """Only Postgres needs a database."""
    return request.getfixturevalue("database") if request.param == "postgres" else None


@pytest.fixture
async def store(place):
    if place is None:
        yield MemorySigned()
        return
    sessions = Sessions(place)
    yield PostgresSigned(sessions)
    await sessions.close()


def checkpoint(size, *, root=None, origin="ringlog/a"):
    return Checkpoint(origin, size, bytes([size if root is None else root]) * 32)


async def test_it_moves_on_from_what_was_last(store):
    first, second = checkpoint(1), checkpoint(2)
    assert await store.last("ringlog/a") is None

    assert await store.advance(first, None, by="cms-1")
    assert await store.last("ringlog/a") == first
    assert await store.advance(second, first, by="cms-2")

    assert await store.last("ringlog/a") == second


async def test_who_has_not_seen_the_last_one_does_not_move_it(store):
    """Neither who saw none, nor who saw an older one, nor who saw another of the same size."""
    first, second = checkpoint(1), checkpoint(2)
    await store.advance(first, None, by="cms-1")
    await store.advance(second, first, by="cms-1")

    for seen in (None, first, checkpoint(2, root=9)):
        assert not await store.advance(checkpoint(3), seen, by="cms-2")

    assert await store.last("ringlog/a") == second


async def test_another_log_is_another_memory(store):
    await store.advance(checkpoint(5), None, by="cms-1")

    assert await store.last("ringlog/b") is None
    assert await store.advance(checkpoint(2, origin="ringlog/b"), None, by="cms-1")
    assert await store.last("ringlog/a") == checkpoint(5)


async def test_one_of_many_at_once_moves_it(store):
    """Each would sign another root of the same size."""
    known = checkpoint(1)
    await store.advance(known, None, by="cms-1")

    moved = await asyncio.gather(
        *(store.advance(checkpoint(2, root=root), known, by="cms") for root in range(20))
    )

    assert sum(moved) == 1
    assert await store.last("ringlog/a") == checkpoint(2, root=moved.index(True))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE signed_checkpoints SET size = 4",
        "UPDATE signed_checkpoints SET root = sha256('other')",
        "UPDATE signed_checkpoints SET size = 6, origin = 'ringlog/b'",
        "DELETE FROM signed_checkpoints",
        "TRUNCATE signed_checkpoints",
    ],
)
async def test_what_was_signed_stays_signed(database, statement):
    sessions = Sessions(database)
    await PostgresSigned(sessions).advance(checkpoint(5), None, by="cms-1")

    with pytest.raises(asyncpg.RestrictViolationError, match="what was signed stays signed"):
        await sessions.fetch(statement)
    await sessions.close()
