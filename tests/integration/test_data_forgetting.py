"""What a node keeps for sessions goes when they are closed, and not before."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyarrow import fs

from metadata.directory import NodeId
from metadata.sessions import SessionId
from metadata.tokens import FULL
from services.http.data_messages import Import, Imported
from services.node.data import manifests
from services.node.data.upkeep import Upkeep
from store.database import opened
from store.folder import Folder
from store.store import SCHEMAS, Store
from tests.builders import commit, joined_cluster
from tests.store_model import TABLE, rows_at, staged
from transformations.sessions import CloseSession, Errand, OpenSession


class Kept:
    """A store in which a session has pinned, imported and staged something."""

    def __init__(self, tmp_path, database):
        self._tmp_path, self.database = tmp_path, database
        folder = Folder(fs.LocalFileSystem(), str(tmp_path / "data"))
        self.store = Store(database, folder)

    async def fill(self, session):
        await self.store.put(TABLE, rows_at(10))
        await self.store.flush(TABLE, [FULL])
        await self.store.pin(session, TABLE.id, [FULL])
        file = staged(self._tmp_path, rows_at(20), "imported", session)
        wanted = Import(session=session, name="x", table=TABLE.id, ranges=(FULL,), files=())
        await self.store.register(
            TABLE, "x", [file], lambda c: manifests.note_import(c, wanted, [file.path])
        )
        staged(self._tmp_path, rows_at(30), "not-yet", session)

    async def found(self, session):
        """Whether there are pins, imports, and files that nobody has imported."""
        wanted = Imported(session=session, prefix="x")
        imported = await self.database.read(lambda c: manifests.imported_segments(c, wanted))
        path = self._tmp_path / "data" / "staged" / str(session) / "not-yet.parquet"
        return bool(await self.store.pinning()), bool(imported), path.exists()


@pytest.fixture
async def kept(tmp_path):
    async with opened(tmp_path / "node.sqlite", [*SCHEMAS, manifests.SCHEMA]) as database:
        yield Kept(tmp_path, database)


async def turned(kept, metadata):
    """A turn of upkeep that began with this metadata, whatever was applied since."""

    async def drained(_epoch, _timeout_s):
        return False

    engine = SimpleNamespace(applied=SimpleNamespace(metadata=metadata), node=1, drained=drained)
    await Upkeep(engine, kept.store, kept.database).turn()  # type: ignore[arg-type] # a stand-in


async def test_a_session_that_was_opened_after_a_turn_began_loses_nothing(kept):
    before = joined_cluster(3)
    during = commit(before, OpenSession(purpose=Errand.REPAIR, nodes=(NodeId(1),), ranges=(FULL,)))
    (session,) = during.sessions.open
    await kept.fill(SessionId(session))

    await turned(kept, before)
    assert await kept.found(session) == (True, True, True)
    await turned(kept, during)
    assert await kept.found(session) == (True, True, True)
    await turned(kept, commit(during, CloseSession(session=session)))
    assert await kept.found(session) == (False, False, False)
