"""Who sequences at the moment. Only for speed: any CMS may append at any time."""

from __future__ import annotations

import msgspec

from log.postgres_sessions import Sessions

NAME = "sequencer"
LEASE_S = 6.0
RENEW_EVERY_S = LEASE_S / 3

# By the database's clock alone. The holder renews, anybody takes over what has expired.
_TAKE = """
WITH taken AS (
    INSERT INTO lease (name, holder, url, term, expires_at)
    VALUES ($1, $2, $3, 1, clock_timestamp() + make_interval(secs => $4))
    ON CONFLICT (name) DO UPDATE SET
        holder = excluded.holder,
        url = excluded.url,
        term = lease.term + (lease.holder <> excluded.holder)::int,
        expires_at = excluded.expires_at
    WHERE lease.holder = excluded.holder OR lease.expires_at < clock_timestamp()
    RETURNING holder, url, term
)
SELECT holder, url, term FROM taken
UNION ALL
SELECT holder, url, term FROM lease WHERE name = $1 AND NOT EXISTS (SELECT FROM taken)
LIMIT 1
"""
_HELD = """
SELECT holder, url, term FROM lease
WHERE name = $1 AND holder <> $2 AND expires_at > clock_timestamp()
"""
_GIVE_UP = """
UPDATE lease SET expires_at = clock_timestamp() WHERE name = $1 AND holder = $2
"""


class Lease(msgspec.Struct, frozen=True):
    holder: str
    url: str
    term: int


async def take(sessions: Sessions, *, holder: str, url: str) -> Lease:
    """Renew, take over, or learn who has it."""
    rows = await sessions.fetch(_TAKE, NAME, holder, url, LEASE_S)
    if not rows:
        # Another took the very first lease while this statement waited: its row conflicts, and
        # is too young to be seen. The next look sees it.
        rows = await sessions.fetch(_TAKE, NAME, holder, url, LEASE_S)
    return Lease(**dict(rows[0]))


async def held_by_another(sessions: Sessions, *, than: str) -> Lease | None:
    """Who has it, without taking it."""
    rows = await sessions.fetch(_HELD, NAME, than)
    return Lease(**dict(rows[0])) if rows else None


async def give_up(sessions: Sessions, *, holder: str) -> None:
    await sessions.fetch(_GIVE_UP, NAME, holder)
