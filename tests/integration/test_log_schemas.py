"""The schemas lie beside the log."""

from __future__ import annotations

import msgspec

from encoding.registry import documents
from log.postgres_schemas import record_schemas
from log.postgres_sessions import Sessions


async def test_every_schema_of_this_release_is_beside_the_log(database):
    """Also when several processes start at once, and again."""
    sessions = Sessions(database)
    try:
        await record_schemas(sessions)
        await record_schemas(sessions)
        rows = await sessions.fetch("SELECT fingerprint, schema FROM log_schemas")
    finally:
        await sessions.close()

    found = {row["fingerprint"].hex(): msgspec.json.decode(row["schema"]) for row in rows}
    assert found == documents()
