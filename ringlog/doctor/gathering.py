"""Gathering the picture: thin, bounded in time, and content with part of the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from time import time
from typing import Any

import msgspec

from migrations.looking import LookError, look
from ringlog.commands.naming import roster
from ringlog.doctor.asking import TIMEOUT_S, Questions, Whom
from ringlog.doctor.looking import dsn_of, local_of, whom_of
from ringlog.doctor.picture import Asked, Database, Local, Picture, Snapshot
from services.local.state import Kept, StateDir

SESSIONS_MAX = 16
MICROSECONDS = 1_000_000
HTTP = "http"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where to look: a state directory, or addresses. `where` names it in a command."""

    where: str
    state: StateDir | None = None
    urls: tuple[str, ...] = ()
    driver_urls: tuple[str, ...] = ()
    token: str | None = None
    dsn: str | None = None
    start: str | None = None


async def gathered(place: Place) -> Picture:
    kept = None if place.state is None else place.state.read_kept()
    local = None if place.state is None else local_of(place.state, kept)
    whom = _elsewhere(place) if kept is None else whom_of(kept)
    questions = Questions(place.token)
    try:
        if local is not None and not local.runs:
            asked: tuple[Asked, ...] = ()
            database = None
        else:
            asked, database = await asyncio.gather(
                questions.looked_at(whom), _database(place, kept, local)
            )
        blank = Picture(
            release=version("ringlog"),
            urls=place.urls or tuple(item.url for item in whom if item.role == "cms"),
            where=place.where,
            start=place.start,
            local=local,
            database=database,
            asked=asked,
        )
        return await _told(questions, blank)
    finally:
        await questions.close()


def _elsewhere(place: Place) -> list[Whom]:
    """By the addresses that were given; who else is there, a CMS tells."""
    given = {"cms": place.urls, "driver": place.driver_urls}
    return [Whom(url, role, url) for role, urls in given.items() for url in urls]


async def _database(place: Place, kept: Kept | None, local: Local | None) -> Database | None:
    dsn = place.dsn
    if place.state is not None and kept is not None and kept.own_postgres:
        dsn = dsn_of(place.state, kept)
        if dsn is None:
            assert local is not None
            return Database(complaint="its process does not run")
    if dsn is None:
        return None
    try:
        seen = await look(dsn, timeout_s=TIMEOUT_S)
    except LookError as error:
        return Database(complaint=str(error))
    return msgspec.convert(msgspec.structs.asdict(seen), Database)


async def _told(questions: Questions, blank: Picture) -> Picture:
    """What the cluster says of itself, by whichever CMS answers."""
    urls = [item.url for item in blank.cms if item.answered]
    if not urls:
        return blank
    cluster, nodes, sequences, sessions, schema, divergences, snapshots = await asyncio.gather(
        questions.get(urls, "/v1/metadata/cluster"),
        questions.get(urls, "/v1/nodes"),
        questions.get(urls, "/v1/sequences"),
        questions.get(urls, "/v1/metadata/sessions"),
        questions.get(urls, "/v1/metadata/schema"),
        questions.get(urls, "/v1/divergences", can_be_stale=False),
        questions.get(urls, "/v1/snapshots", can_be_stale=False),
    )
    rows = _listed(nodes, "nodes")
    opened = _listed(sessions, "sessions")
    names = {item.url: item.name for item in blank.asked if item.name != item.url}
    return msgspec.structs.replace(
        blank,
        cluster=cluster,
        tip=None if cluster is None else cluster["epoch"],
        nodes=rows,
        roster=roster(rows or (), names),
        # The nodes of another machine tell their clock and release, where they can be reached.
        asked=blank.asked if blank.local is not None else await _with_nodes(questions, blank, rows),
        sequences=_listed(sequences, "sequences"),
        sessions=opened,
        served={item["id"]: item for item in (sequences or {}).get("sessions", ())},
        session_ages_s=await _ages_s(questions, urls, opened or ()),
        keyspaces=_listed(schema, "keyspaces"),
        divergences=_listed(divergences, "divergences"),
        snapshots=_snapshots(_listed(snapshots, "snapshots")),
        unanswered=tuple(questions.unanswered),
    )


async def _with_nodes(
    questions: Questions, blank: Picture, rows: Sequence[dict[str, Any]] | None
) -> tuple[Asked, ...]:
    whom = [
        Whom(f"node {row['id']}", "node", f"http://{row['addresses'][HTTP]}")
        for row in rows or ()
        if HTTP in row["addresses"]
    ]
    return (*blank.asked, *await questions.looked_at(whom))


async def _ages_s(
    questions: Questions, urls: Sequence[str], sessions: Sequence[dict[str, Any]]
) -> dict[int, float]:
    """A session is named by the epoch that opened it, and the entry there says when."""
    alone = [item["id"] for item in sessions if item["sequence"] is None][:SESSIONS_MAX]
    entries = await asyncio.gather(
        *(questions.get(urls, f"/v1/log/{epoch}", can_be_stale=False) for epoch in alone)
    )
    return {
        epoch: time() - entry["committed_at"] / MICROSECONDS
        for epoch, entry in zip(alone, entries, strict=True)
        if entry is not None
    }


def _listed(answer: dict[str, Any] | None, name: str) -> tuple[dict[str, Any], ...] | None:
    return None if answer is None else tuple(answer[name])


def _snapshots(rows: Sequence[dict[str, Any]] | None) -> tuple[Snapshot, ...] | None:
    return None if rows is None else tuple(map(_snapshot, rows))


def _snapshot(row: dict[str, Any]) -> Snapshot:
    made = datetime.fromisoformat(row["created_at"])
    return Snapshot(epoch=row["epoch"], age_s=(datetime.now(UTC) - made).total_seconds())
