"""Snapshots, for whoever would rather not replay everything."""

from __future__ import annotations

import asyncio

from aiohttp import web

from encoding.images import decode_image
from encoding.views import metadata_view
from log.containers import MEDIA_TYPE
from services.http.api import IMMUTABLE, REVALIDATED, Api, Call, M, R, accepts
from services.http.bodies import Listed, OneEpoch, SnapshotsAnswer
from services.http.logs import snapshot_view
from services.http.problems import Code, ProblemError

SINGLE_OBJECT = "avro/binary"
"""One Avro message with its marker and fingerprint, as it is stored."""


async def snapshots(api: Api[R, M], call: Call[Listed]) -> web.StreamResponse:
    """A page of them; whoever wants older ones asks again, up to the epoch before its last."""
    listed = await api.engine.snapshot_epochs(call.query.up_to)
    answer = SnapshotsAnswer([snapshot_view(info) for info in listed])
    return await api.json(call.request, answer, Cache_Control=REVALIDATED)


async def snapshot(api: Api[R, M], call: Call[OneEpoch]) -> web.StreamResponse:
    """As JSON, or the image as it is stored."""
    epoch = call.query.epoch
    image = await api.engine.snapshot(epoch)
    if image is None:
        raise ProblemError(
            Code.UNKNOWN_EPOCH, f"There is no snapshot at epoch {epoch}.", field="epoch"
        )
    if accepts(call.request, SINGLE_OBJECT) or accepts(call.request, MEDIA_TYPE):
        headers = {"Content-Type": SINGLE_OBJECT, "Cache-Control": IMMUTABLE}
        return await api.answer(call.request, image, headers)
    found = await asyncio.to_thread(decode_image, image)
    return await api.json(call.request, metadata_view(found), Cache_Control=IMMUTABLE)
