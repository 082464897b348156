"""Which files of a node a repair covers."""

from __future__ import annotations

from metadata.tokens import FULL, MINIMUM, Range, Token
from tests.store_model import SESSION, TABLE, rows_at, staged, store_in

LOW, HIGH = Range(MINIMUM, Token(50)), Range(Token(50), MINIMUM)


async def flushed(store, *tokens, **values):
    await store.put(TABLE, rows_at(*tokens, **values))
    (segment,) = await store.flush(TABLE, [FULL])
    return segment


async def test_a_repair_covers_what_it_has_read_and_brought_and_nothing_else(tmp_path):
    """Somebody else may have read and brought other things under the same session."""
    async with store_in(tmp_path) as store:
        before = await flushed(store, 10, amount=None)
        await store.pin(SESSION, TABLE.id, [FULL])
        later = await flushed(store, 20, amount=None)
        await store.pin(SESSION, TABLE.id, [FULL])
        strange = await flushed(store, 30, amount=None)
        brought, other = (
            staged(tmp_path, rows_at(token, amount=None), name)
            for token, name in ((60, "a"), (70, "b"))
        )
        await store.register(TABLE, "repair", [brought])
        await store.register(TABLE, "repair of another", [other])

        marked = await store.cover(SESSION, [LOW, HIGH], {before.path, strange.path, brought.path})

        assert marked == 2
        found = {item.path: item.repaired for item in await store.segments(TABLE.id, [FULL])}
        assert found == {
            before.path: (FULL,),
            later.path: (),
            strange.path: (),
            brought.path: (FULL,),
            other.path: (),
        }
