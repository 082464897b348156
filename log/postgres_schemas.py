"""The Avro schemas of this release, kept beside the log that is written with them."""

from __future__ import annotations

import msgspec

from encoding.registry import documents
from log.postgres_sessions import Sessions

_RECORD = """
INSERT INTO log_schemas (fingerprint, schema)
SELECT fingerprint, schema FROM unnest($1::bytea[], $2::text[]) AS given (fingerprint, schema)
ON CONFLICT (fingerprint) DO NOTHING
"""


async def record_schemas(sessions: Sessions) -> None:
    """Whoever finds the log without this release can still read every entry of it."""
    found = documents()
    fingerprints = [bytes.fromhex(fingerprint) for fingerprint in found]
    texts = [msgspec.json.encode(schema).decode() for schema in found.values()]
    await sessions.fetch(_RECORD, fingerprints, texts)
