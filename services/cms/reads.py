"""The metadata and what follows from it, at any epoch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web

from encoding.images import decode_image
from encoding.registry import documents
from encoding.views import component_view, metadata_view, sequence_view
from log.replay import Applied
from log.store import StoreUnavailableError
from metadata.cluster import COMPONENTS, ClusterMetadata
from metadata.epoch import Epoch
from metadata.locks import SequenceId
from metadata.sequences import Sequence
from services.cms.api import (
    IMMUTABLE,
    REVALIDATED,
    Api,
    Call,
    accepts,
    is_known,
    tag_of,
)
from services.cms.bodies import (
    At,
    Between,
    ComponentAt,
    DiffAnswer,
    Health,
    Nothing,
    OneEpoch,
    OneSchema,
    OwnersAt,
    SequenceAt,
    SnapshotsAnswer,
)
from services.cms.containers import MEDIA_TYPE
from services.cms.differences import differences
from services.cms.logs import snapshot_view
from services.cms.metrics import Gauges
from services.cms.owners import owners
from services.cms.plans import voters_of
from services.cms.problems import Code, ProblemError
from transformations.outcome import Reason

SINGLE_OBJECT = "avro/binary"
"""One Avro message with its marker and fingerprint, as it is stored."""


async def metadata(api: Api, call: Call[At]) -> web.StreamResponse:
    return await _shown(api, call, call.query, metadata_view)


async def component(api: Api, call: Call[ComponentAt]) -> web.StreamResponse:
    name = call.query.component
    if name not in COMPONENTS:
        known = ", ".join(COMPONENTS)
        raise ProblemError(
            Code.NOT_FOUND, f"There is no component {name}; there are {known}.", field="component"
        )
    return await _shown(api, call, call.query, lambda found: component_view(found, name))


async def nodes(api: Api, call: Call[At]) -> web.StreamResponse:
    """The directory. Liveness and watermarks come with the data plane."""
    return await _shown(api, call, call.query, _nodes)


async def sequences(api: Api, call: Call[At]) -> web.StreamResponse:
    return await _shown(api, call, call.query, _sequences)


async def sequence(api: Api, call: Call[SequenceAt]) -> web.StreamResponse:
    wanted = SequenceId(call.query.id)

    def view(found: ClusterMetadata) -> dict[str, Any]:
        item = found.sequences.find(wanted)
        if item is None:
            raise ProblemError(
                Code.NOT_FOUND,
                f"No sequence {wanted} is in progress at epoch {found.epoch} "
                f"({Reason.UNKNOWN_SEQUENCE}).",
                field="id",
                epoch=found.epoch,
            )
        return {"epoch": found.epoch, **_sequence(found, item)}

    return await _shown(api, call, call.query, view)


async def key_owners(api: Api, call: Call[OwnersAt]) -> web.StreamResponse:
    raw_key = _raw_parameter(call.request, "key")
    return await _shown(api, call, call.query, lambda found: owners(found, call.query, raw_key))


async def diff(api: Api, call: Call[Between]) -> web.StreamResponse:
    query = call.query
    before = await _version(api, query.before, "from")
    after = await _version(api, query.to, "to")
    tag = f'W/"v1-{before.hash.hex()[:32]}-{after.hash.hex()[:32]}"'
    if is_known(call.request, tag):
        return web.Response(status=304, headers={"ETag": tag, "Cache-Control": IMMUTABLE})
    found = DiffAnswer(
        before=query.before,
        to=query.to,
        components=differences(before.metadata, after.metadata),
    )
    return await api.json(call.request, found, ETag=tag, Cache_Control=IMMUTABLE)


async def snapshots(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    listed = await api.engine.snapshot_epochs()
    answer = SnapshotsAnswer([snapshot_view(info) for info in listed])
    return await api.json(call.request, answer, Cache_Control=REVALIDATED)


async def snapshot(api: Api, call: Call[OneEpoch]) -> web.StreamResponse:
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


async def schemas(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    return await api.json(call.request, documents(), Cache_Control=REVALIDATED)


async def schema(api: Api, call: Call[OneSchema]) -> web.StreamResponse:
    wanted = call.query.fingerprint.lower()
    found = documents().get(wanted)
    if found is None:
        raise ProblemError(
            Code.NOT_FOUND, f"No schema has fingerprint {wanted}.", field="fingerprint"
        )
    return await api.json(call.request, {wanted: found}, Cache_Control=IMMUTABLE)


async def healthz(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    """The process runs, whatever else does not."""
    return await api.json(call.request, _health(api), Cache_Control="no-store")


async def readyz(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    """The process can answer: the log is within reach and it is not stopping."""
    if api.stopping.is_set():
        raise ProblemError(Code.STOPPING, "This process is stopping.")
    await api.engine.latest()
    return await api.json(call.request, _health(api), Cache_Control="no-store")


async def metrics(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    engine = api.engine
    gauges = Gauges(
        tip=engine.applied.metadata.epoch,
        queue_depth=engine.queue_depth,
        followers=api.followers,
        is_sequencing=engine.is_sequencing,
        **await _snapshot_gauges(api),
    )
    headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
    return await api.answer(call.request, api.metrics.text(gauges), headers)


async def _snapshot_gauges(api: Api) -> dict[str, Any]:
    """Nothing where the store does not answer: the other figures matter most just then."""
    try:
        listed = await api.engine.snapshot_epochs()
    except StoreUnavailableError:
        return {}
    if not listed:
        return {}
    newest = max(listed, key=lambda info: info.epoch)
    return {
        "snapshot_epoch": newest.epoch,
        "snapshot_age_s": (datetime.now(UTC) - newest.created_at).total_seconds(),
        "snapshot_size_bytes": newest.size_bytes,
    }


async def _shown(
    api: Api,
    call: Call[Any],
    query: At,
    view: Callable[[ClusterMetadata], Any],
) -> web.StreamResponse:
    """A view of the version asked for; what is at a named epoch never changes."""
    if query.at is not None:
        applied = await _version(api, query.at, "at")
    else:
        applied = api.engine.applied if query.stale else await api.engine.latest()
    tag = tag_of(applied)
    caching = REVALIDATED if query.at is None else IMMUTABLE
    if is_known(call.request, tag):
        return web.Response(status=304, headers={"ETag": tag, "Cache-Control": caching})
    return await api.json(call.request, view(applied.metadata), ETag=tag, Cache_Control=caching)


async def _version(api: Api, epoch: Epoch, field: str) -> Applied:
    tip = api.engine.applied.metadata.epoch
    if epoch > tip:
        tip = (await api.engine.latest()).metadata.epoch
    try:
        return await api.engine.metadata_at(epoch)
    except LookupError as error:
        raise ProblemError(
            Code.UNKNOWN_EPOCH,
            f"There is no epoch {epoch}; the tip is {tip}.",
            field=field,
            tip=tip,
        ) from error


def _nodes(found: ClusterMetadata) -> dict[str, Any]:
    listed = component_view(found, "directory")["nodes"]
    unknown = {"liveness": None, "watermark": None}
    tokens = {node: len(own) for node, own in found.ring.by_node.items()}
    nodes = [{**node, "tokens": tokens.get(node["id"], 0), **unknown} for node in listed]
    return {"epoch": found.epoch, "nodes": nodes}


def _sequences(found: ClusterMetadata) -> dict[str, Any]:
    items = [_sequence(found, item) for item in found.sequences.in_progress.values()]
    return {"epoch": found.epoch, "sequences": items}


def _sequence(found: ClusterMetadata, item: Sequence) -> dict[str, Any]:
    """`barrier`, `laggards`, `rows` and `bytes` come with the data plane."""
    unknown = {"barrier": None, "laggards": None, "rows": None, "bytes": None}
    return {**sequence_view(item), "voters": voters_of(found, item), **unknown}


def _health(api: Api) -> Health:
    found = api.engine.applied.metadata
    return Health(
        status="stopping" if api.stopping.is_set() else "ok",
        name=api.engine.name,
        epoch=found.epoch,
        cluster=found.cluster.id or None,
        sequencing=api.engine.is_sequencing,
    )


def _raw_parameter(request: web.BaseRequest, name: str) -> str | None:
    """A query parameter before percent-decoding."""
    for part in request.raw_path.partition("?")[2].partition("#")[0].split("&"):
        key, _, value = part.partition("=")
        if parse_qsl(f"{key}=x") == [(name, "x")]:
            return value
    return None
