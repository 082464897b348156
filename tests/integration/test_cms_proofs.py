"""Proofs over HTTP, checked by what checks proofs offline; and by Go where it is installed."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import aiohttp
import pytest

from audit.checkpoints import Checkpoint, origin_of, parse_checkpoint
from audit.exporting import export
from audit.folder import folder
from audit.merkle import consistency_holds, inclusion_holds, leaf_hash, root_of
from audit.tile_files import tiles_in
from log.batch import Stamp
from log.chain import NO_ENTRIES, tip_of
from log.memory import MemoryLog
from log.postgres import PostgresLog
from log.postgres_sessions import Sessions
from log.store import StoreUnavailableError
from metadata.epoch import Epoch
from services.cms.engine import Proofs, running
from services.cms.http import serve
from services.cms.proofs.signed import MemorySigned
from services.cms.proofs.tiles import MemoryTiles, PostgresTiles
from services.cms.proofs.tree import LogTree
from services.http.serving import Address
from snapshots.memory import MemorySnapshots
from tests.archives import KEY, OTHER_KEY, entries_of
from tests.integration.test_cms_serving import QUICK, Client

ENTRIES = entries_of(700)
LEAVES = [leaf_hash(sealed.hash) for sealed in ENTRIES]


@asynccontextmanager
async def served(entries=ENTRIES, keys=(KEY,), signed=None):
    log = MemoryLog()
    await log.append(entries, onto=NO_ENTRIES)
    stamp = Stamp("cms-1", 1)
    proofs = Proofs(MemoryTiles(), signed or MemorySigned(), keys)
    async with (
        running("cms-1", log, MemorySnapshots(), lambda: stamp, proofs=proofs) as engine,
        serve(engine, tokens=None, where=Address(), limits=QUICK) as url,
        aiohttp.ClientSession(url) as session,
    ):
        yield Client(session, engine, None)


def hashes(texts):
    return [bytes.fromhex(text) for text in texts]


async def test_an_entry_is_proved_to_be_in_the_log_of_any_size():
    async with served() as client:
        for epoch, size in ((1, 1), (1, 700), (256, 256), (257, 600), (700, 700), (300, 513)):
            response, found = await client.get(f"/v1/proofs/inclusion?epoch={epoch}&size={size}")
            assert response.status == 200
            assert "immutable" in response.headers["Cache-Control"]
            assert found["leaf"] == ENTRIES[epoch - 1].hash.hex()
            root = root_of(LEAVES[:size])
            assert found["root"] == root.hex()
            leaf, proof = LEAVES[epoch - 1], hashes(found["proof"])
            assert inclusion_holds(leaf, epoch - 1, size, root, proof)
            assert not inclusion_holds(LEAVES[epoch - 2], epoch - 1, size, root, proof)
        _, found = await client.get("/v1/proofs/inclusion?epoch=5")
        assert found["size"] == 700


async def test_the_log_is_proved_to_have_only_grown():
    async with served() as client:
        for old, size in ((1, 700), (256, 700), (699, 700), (700, 700), (300, 513)):
            _, found = await client.get(f"/v1/proofs/consistency?from={old}&to={size}")
            roots = root_of(LEAVES[:old]), root_of(LEAVES[:size])
            assert (found["from_root"], found["root"]) == tuple(root.hex() for root in roots)
            assert consistency_holds(old, roots[0], size, roots[1], hashes(found["proof"]))
        await client.commit("SetExtension", name="more", value="1")
        _, found = await client.get("/v1/proofs/consistency?from=700")
        assert (found["from"], found["to"]) == (700, 701)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/proofs/inclusion?epoch=701", 404),
        ("/v1/proofs/inclusion?epoch=5&size=701", 404),
        ("/v1/proofs/inclusion?epoch=5&size=4", 404),
        ("/v1/proofs/inclusion?epoch=0", 400),
        ("/v1/proofs/inclusion?epoch=-1", 400),
        ("/v1/proofs/inclusion", 400),
        ("/v1/proofs/consistency?from=701", 404),
        ("/v1/proofs/consistency?from=5&to=4", 404),
        ("/v1/proofs/consistency?from=5&to=99999999999999999999", 400),
        ("/v1/tile/0/003", 404),
        ("/v1/tile/9/000", 404),
        ("/v1/tile/0/x000/000", 404),
        ("/v1/tile/0/002.p/189", 404),
        ("/v1/tile/0/%00", 404),
    ],
)
async def test_what_is_not_there_is_not_proved(path, status):
    async with served() as client:
        response, problem = await client.get(path)
        assert (response.status, problem["status"]) == (status, status)


async def test_the_newest_root_is_signed():
    async with served() as client:
        response, note = await client.get("/v1/checkpoint")
        signed = parse_checkpoint(note)
        assert response.headers["Cache-Control"] == "no-store"
        assert signed.verified_by([KEY.public, OTHER_KEY.public]) == (KEY.public,)
        assert signed.checkpoint.origin == origin_of(ENTRIES[0].entry.cluster)
        assert (signed.checkpoint.size, signed.checkpoint.root) == (700, root_of(LEAVES))
    async with served(keys=()) as client:
        response, problem = await client.get("/v1/checkpoint")
        assert (response.status, problem["code"]) == (404, "not_found")
        assert "RINGLOG_LOG_KEY" in problem["detail"]


async def test_only_what_extends_the_last_checkpoint_is_signed():
    """Whichever process asks, and whatever log it reads: they remember in one place."""
    signed = MemorySigned()
    async with served(ENTRIES[:600], signed=signed) as client:
        assert (await client.get("/v1/checkpoint"))[0].status == 200
        assert (await client.get("/v1/checkpoint"))[0].status == 200
    others = entries_of(700, salt="other")
    for entries, fault in (
        (ENTRIES[:599], "the log has 599 entries, and 600 were signed"),
        (others[:600], "the first 600 entries are not those that were signed"),
        (others, "the first 600 entries are not those that were signed"),
    ):
        async with served(entries, signed=signed) as client:
            response, problem = await client.get("/v1/checkpoint")
            assert (response.status, problem["code"]) == (409, "signed_otherwise")
            assert fault in problem["detail"]
            _, metrics = await client.get("/metrics")
            assert b'ringlog_problems_total{code="signed_otherwise"} 1.0' in metrics
    async with served(signed=signed) as client:
        response, note = await client.get("/v1/checkpoint")
        assert parse_checkpoint(note).checkpoint.size == 700


class Overtaken(MemorySigned):
    """Another process signs between the look and the signature, so many times."""

    def __init__(self, times):
        super().__init__()
        self._left = times

    async def advance(self, to, last, *, by):
        if self._left:
            self._left -= 1
            size = 10 if last is None else last.size + 10
            overtaking = Checkpoint(to.origin, size, root_of(LEAVES[:size]))
            assert await super().advance(overtaking, last, by="another")
        return await super().advance(to, last, by=by)


async def test_who_is_overtaken_looks_again():
    async with served(signed=Overtaken(9)) as client:
        response, note = await client.get("/v1/checkpoint")
        assert parse_checkpoint(note).checkpoint.size == 700
    async with served(signed=Overtaken(10)) as client:
        response, problem = await client.get("/v1/checkpoint")
        assert (response.status, problem["code"]) == (503, "unavailable")


async def test_tiles_are_those_of_an_archive(tmp_path):
    export(ENTRIES, folder(tmp_path))
    async with served() as client:
        listed = list(tiles_in(folder(tmp_path)))
        assert len(listed) == 7
        for path, _ in listed:
            response, data = await client.get(f"/v1/{path}")
            assert response.status == 200, path
            assert data == (tmp_path / path).read_bytes(), path


class Counting(MemoryLog):
    """How many hashes were read."""

    def __init__(self):
        super().__init__()
        self.read = 0

    async def hashes_after(self, epoch, *, entries_max):
        found = await super().hashes_after(epoch, entries_max=entries_max)
        self.read += len(found)
        return found


class Long(Counting):
    """A log of any length, of which there are only hashes."""

    async def hashes_after(self, epoch, *, entries_max):
        self.read += entries_max
        return [number.to_bytes(32, "big") for number in range(epoch + 1, epoch + entries_max + 1)]


async def test_a_tree_is_computed_once_whoever_asks():
    size = Epoch(200_000)
    leaves = [leaf_hash(number.to_bytes(32, "big")) for number in range(1, size + 1)]
    tiles, log = MemoryTiles(), Long()
    tree = LogTree(log, tiles)
    await asyncio.gather(*(tree.grow(size) for _ in range(5)))
    assert log.read == size
    assert await tiles.count(1) == 3

    log.read = 0
    root = root_of(leaves)
    for epoch in (1, 65_536, 65_537, 131_072, 199_999):
        proof = await tree.inclusion(Epoch(epoch), size)
        assert inclusion_holds(leaves[epoch - 1], epoch - 1, size, root, proof)
    old = root_of(leaves[:70_001])
    assert await tree.root(Epoch(70_001)) == old
    proof = await tree.consistency(Epoch(70_001), size)
    assert consistency_holds(70_001, old, size, root, proof)
    assert log.read < 20 * 256

    log.read = 0
    anew = LogTree(log, tiles)
    await anew.grow(size)
    assert await anew.root(size) == root
    assert log.read <= 65_536


async def test_tiles_survive_in_postgres_also_where_two_write_them(database):
    sessions = Sessions(database)
    tiles = PostgresTiles(sessions)
    size = Epoch(140_000)
    await asyncio.gather(*(LogTree(Long(), tiles).grow(size) for _ in range(2)))
    assert await tiles.count(1) == 2
    log = Long()
    anew = LogTree(log, tiles)
    await anew.grow(size)
    leaves = [leaf_hash(number.to_bytes(32, "big")) for number in range(1, size + 1)]
    assert await anew.root(size) == root_of(leaves)
    assert log.read < 65_536

    real = PostgresLog(sessions)
    await real.append(ENTRIES[:300], onto=NO_ENTRIES)
    await real.append(ENTRIES[300:], onto=tip_of(ENTRIES[299]))
    assert await real.hashes_after(Epoch(5), entries_max=600) == [
        sealed.hash for sealed in ENTRIES[5:605]
    ]
    await sessions.close()


class Away(MemoryTiles):
    """Does not answer once."""

    def __init__(self):
        super().__init__()
        self.is_away = True

    async def keep(self, tiles):
        if self.is_away:
            self.is_away = False
            raise StoreUnavailableError("gone")
        await super().keep(tiles)


async def test_a_tile_that_could_not_be_stored_is_stored_later():
    tiles = Away()
    tree = LogTree(Long(), tiles)
    with pytest.raises(StoreUnavailableError):
        await tree.grow(Epoch(200_000))

    await tree.grow(Epoch(200_000))

    assert await tiles.count(1) == 3
    leaves = [leaf_hash(number.to_bytes(32, "big")) for number in range(1, 200_001)]
    assert await tree.root(Epoch(200_000)) == root_of(leaves)
