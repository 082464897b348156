"""What every snapshot store promises, whatever keeps the images."""

from __future__ import annotations

import pytest

from log.postgres_sessions import Sessions
from metadata.epoch import Epoch
from snapshots.memory import MemorySnapshots
from snapshots.postgres import PostgresSnapshots
from snapshots.store import Snapshot

EVERYTHING = {"up_to": Epoch(1000), "limit": 100}


@pytest.fixture(params=["memory", "postgres"])
def place(request):
    """Only Postgres needs a database."""
    return request.getfixturevalue("database") if request.param == "postgres" else None


@pytest.fixture
async def store(place):
    if place is None:
        yield MemorySnapshots()
        return
    sessions = Sessions(place)
    yield PostgresSnapshots(sessions)
    await sessions.close()


def snapshot(epoch, image=b"image"):
    return Snapshot(
        epoch=Epoch(epoch), digest=bytes([epoch] * 32), hash=bytes([epoch + 1] * 32), image=image
    )


async def test_an_empty_store_has_nothing(store):
    assert list(await store.listed(**EVERYTHING)) == []
    assert await store.load(Epoch(1)) is None


async def test_what_was_saved_is_loaded(store):
    saved = snapshot(7, b"\x00\xff image")

    await store.save(saved, created_by="cms-1")

    assert await store.load(Epoch(7)) == saved
    assert await store.load(Epoch(8)) is None


async def test_the_newest_is_listed_first_without_its_image(store):
    for epoch in (3, 9, 6):
        await store.save(snapshot(epoch, b"x" * epoch), created_by=f"cms-{epoch}")

    listed = await store.listed(**EVERYTHING)

    assert [(item.epoch, item.size_bytes, item.created_by) for item in listed] == [
        (9, 9, "cms-9"),
        (6, 6, "cms-6"),
        (3, 3, "cms-3"),
    ]
    assert [(item.digest, item.hash) for item in listed] == [
        (snapshot(epoch).digest, snapshot(epoch).hash) for epoch in (9, 6, 3)
    ]


async def test_listing_stops_at_an_epoch_and_at_a_number(store):
    for epoch in (3, 6, 9):
        await store.save(snapshot(epoch), created_by="cms-1")

    assert [item.epoch for item in await store.listed(up_to=Epoch(6), limit=100)] == [6, 3]
    assert [item.epoch for item in await store.listed(up_to=Epoch(8), limit=1)] == [6]
    assert list(await store.listed(up_to=Epoch(2), limit=100)) == []


async def test_the_first_snapshot_of_an_epoch_stays(store):
    """Every process may take one; they are of the same state."""
    await store.save(snapshot(7, b"first"), created_by="cms-1")
    await store.save(snapshot(7, b"second"), created_by="cms-2")

    assert await store.load(Epoch(7)) == snapshot(7, b"first")
    assert [item.created_by for item in await store.listed(**EVERYTHING)] == ["cms-1"]
