"""The log by pages: entries as JSON or as stored, waiting for news, noticing a lost tail."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from aiohttp import web

from log.chain import NO_HASH, Tip
from log.containers import MEDIA_TYPE, container
from log.entry import SealedEntry
from log.store import StoreUnavailableError, TrimmedError
from metadata.epoch import EMPTY, Epoch, following
from services.http.api import IMMUTABLE, Api, Call, M, R, accepts, is_known
from services.http.bodies import LogPage, LogState, OneEpoch, SnapshotView
from services.http.problems import Code, ProblemError
from snapshots.store import SnapshotInfo


async def log_page(api: Api[R, M], call: Call[LogPage]) -> web.StreamResponse:
    query = call.query
    tip = (api.engine.applied if query.stale else await api.engine.latest()).tip
    await check_lineage(api, query.after, query.hash, tip)
    await _check_replay(api, query.after, query.digest, tip)
    if query.wait and tip.epoch <= query.after:
        with api.following():
            await api.wait_beyond(query.after, min(query.wait, api.limits.wait_s_max))
        tip = api.engine.applied.tip
    entries, snapshot = await _from(api, query, tip)
    if snapshot is not None:
        entries = await page_after(api, snapshot.epoch, tip, query.limit)
    # The page may reach further than what was read as the tip before it.
    newest = max(tip.epoch, entries[-1].epoch if entries else EMPTY)
    if accepts(call.request, MEDIA_TYPE):
        notes = {"tip": str(newest)}
        if snapshot is not None:
            notes["snapshot"] = str(snapshot.epoch)
        body = container(entries, notes)
        return await api.answer(call.request, body, {"Content-Type": MEDIA_TYPE})
    state = LogState(
        tip=newest,
        snapshot=None if snapshot is None else snapshot_view(snapshot),
        entries=[msgspec.Raw(api.texts.of(sealed)) for sealed in entries],
    )
    return await api.json(call.request, state, Cache_Control="no-store")


async def log_entry(api: Api[R, M], call: Call[OneEpoch]) -> web.StreamResponse:
    epoch = call.query.epoch
    tip = (await api.engine.latest()).tip
    if not EMPTY < epoch <= tip.epoch:
        raise ProblemError(
            Code.UNKNOWN_EPOCH,
            f"There is no entry {epoch}; the tip is {tip.epoch}.",
            field="epoch",
            tip=tip.epoch,
        )
    (sealed,) = await page_after(api, Epoch(epoch - 1), tip, 1)
    tag = f'"{sealed.hash.hex()}"'
    if is_known(call.request, tag):
        return web.Response(status=304, headers={"ETag": tag, "Cache-Control": IMMUTABLE})
    headers = {"ETag": tag, "Cache-Control": IMMUTABLE}
    if accepts(call.request, MEDIA_TYPE):
        body = container([sealed], {"tip": str(tip.epoch)})
        return await api.answer(call.request, body, {"Content-Type": MEDIA_TYPE, **headers})
    body = api.texts.of(sealed)
    return await api.answer(call.request, body, {"Content-Type": "application/json", **headers})


async def page_after(api: Api[R, M], after: Epoch, tip: Tip, limit: int) -> Sequence[SealedEntry]:
    """Entries from `after` + 1 on. Those that are no longer kept are a problem, not a gap."""
    entries = await api.engine.entries_after(
        after,
        entries_max=min(limit, api.limits.page_entries_max),
        bytes_max=api.limits.page_bytes_max,
    )
    first = following(after)
    found = entries[0].epoch if entries else None
    if found != first and first <= tip.epoch:
        raise _trimmed(first, tip)
    return entries


async def _from(
    api: Api[R, M], query: LogPage, tip: Tip
) -> tuple[Sequence[SealedEntry], SnapshotInfo | None]:
    """The entries behind `after`, or the snapshot to begin with where that may be and is better."""
    try:
        entries = await page_after(api, query.after, tip, query.limit)
    except (ProblemError, TrimmedError, StoreUnavailableError):
        # Gone, or out of reach with the archive that has them; a snapshot needs neither.
        snapshot = await _shortcut(api, query.after, ()) if query.snapshot else None
        if snapshot is None:
            raise
        return (), snapshot
    return entries, await _shortcut(api, query.after, entries) if query.snapshot else None


async def check_lineage(api: Api[R, M], after: Epoch, known: str | None, tip: Tip) -> None:
    """Refuse to go on from an entry that this log does not have."""
    if after > tip.epoch:
        raise ProblemError(
            Code.DIVERGED,
            f"Epoch {after} is beyond the tip, which is {tip.epoch}: this log has lost entries, "
            "or it is another one.",
            field="after",
            tip=tip.epoch,
        )
    if known is not None and bytes.fromhex(known) != await _hash_at(api, after, tip):
        raise ProblemError(
            Code.DIVERGED,
            f"The entry at epoch {after} has another hash here: the histories differ.",
            field="hash",
            tip=tip.epoch,
        )


async def _check_replay(api: Api[R, M], after: Epoch, known: str | None, tip: Tip) -> None:
    """The same entries must have led the client where they led everybody."""
    if known is None or after == EMPTY:
        return
    if after == api.engine.applied.metadata.epoch:
        digest = api.engine.applied.metadata.digest
    else:
        try:
            (sealed,) = await page_after(api, Epoch(after - 1), tip, 1)
        except TrimmedError:
            # Its hash was found right; only a snapshot leads on, with a digest of its own.
            return
        digest = sealed.entry.digest
    if bytes.fromhex(known) != digest:
        raise ProblemError(
            Code.DIVERGED,
            f"The metadata at epoch {after} has another digest here: one of us is wrong.",
            field="digest",
            tip=tip.epoch,
        )


def snapshot_view(info: SnapshotInfo) -> SnapshotView:
    return SnapshotView(
        epoch=info.epoch,
        digest=info.digest.hex(),
        hash=info.hash.hex(),
        size_bytes=info.size_bytes,
        created_at=info.created_at.isoformat(),
        created_by=info.created_by,
        url=f"/v1/snapshots/{info.epoch}",
    )


async def _hash_at(api: Api[R, M], epoch: Epoch, tip: Tip) -> bytes:
    if epoch == EMPTY:
        return NO_HASH
    if epoch == tip.epoch:
        return tip.hash
    found = await api.engine.hash_at(epoch)
    if found is None:
        raise _trimmed(epoch, tip)
    return found


def _trimmed(first: Epoch, tip: Tip) -> ProblemError:
    return ProblemError(
        Code.TRIMMED,
        f"Entry {first} is no longer kept here; begin with a snapshot (snapshot=true), or look "
        "in an archive.",
        field="after",
        tip=tip.epoch,
    )


async def _shortcut(
    api: Api[R, M], after: Epoch, entries: Sequence[SealedEntry]
) -> SnapshotInfo | None:
    """The newest snapshot, where it is shorter than the entries that it stands for."""
    info = await api.engine.newest_snapshot_after(after)
    if info is None:
        return None
    if not entries or entries[-1].epoch < info.epoch:
        return info
    replaced = sum(len(sealed.payload) for sealed in entries if sealed.epoch <= info.epoch)
    return info if info.size_bytes < replaced else None
