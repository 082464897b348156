"""However large and alike rows are, a compaction holds few of them in memory."""

from __future__ import annotations

import msgspec
import pytest

from metadata.columns import ColumnType
from metadata.schema import Column
from metadata.tokens import FULL
from store import compaction
from store.merging import newest_of
from store.rows import Row, digest_of, encoded
from tests.store_model import TABLE, scanned, store_in

DOCUMENTS = msgspec.structs.replace(
    TABLE, columns=(Column("id", ColumnType.STRING), Column("text", ColumnType.STRING))
)
WINDOW_BYTES = 1024 * 1024
GROUP_BYTES = 64 * 1024
SEGMENTS = 4


def document(number, text):
    content = encoded({"id": f"key{number}", "text": text})
    return Row(
        table=DOCUMENTS.id,
        token=number,
        key=f"key{number}",
        timestamp=1,
        digest=digest_of(content),
        content=content,
    )


@pytest.mark.parametrize("text_bytes", [10, 2000])
async def test_equal_values_do_not_fill_the_memory(tmp_path, monkeypatch, text_bytes):
    """In a file they take no room, because it has each of them once."""
    held = []

    def noting(versions):
        held.append(versions.nbytes)
        return newest_of(versions)

    monkeypatch.setattr(compaction, "newest_of", noting)
    monkeypatch.setattr(compaction, "WINDOW_BYTES_MAX", WINDOW_BYTES)
    monkeypatch.setattr("store.segments.GROUP_BYTES_MAX", GROUP_BYTES)
    rows = [document(number, "x" * text_bytes) for number in range(3000)]
    async with store_in(tmp_path) as store:
        for start in range(SEGMENTS):
            await store.put(DOCUMENTS, rows[start::SEGMENTS])
            await store.flush(DOCUMENTS, [FULL])

        done = await store.compact(DOCUMENTS)

        assert done.output.rows == len(rows)
        assert await scanned(store, table=DOCUMENTS) == rows
    assert max(held) < WINDOW_BYTES + 2 * SEGMENTS * GROUP_BYTES
    assert len(held) < 3 + 2 * sum(held) / WINDOW_BYTES
