"""The metadata and what follows from it, at any epoch."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from aiohttp import web

from encoding.registry import documents
from encoding.views import component_view, metadata_view, modified_view
from log.replay import Applied
from log.store import StoreUnavailableError
from metadata.cluster import COMPONENTS, ClusterMetadata
from metadata.epoch import Epoch
from metadata.locks import SequenceId
from metadata.sequences import Sequence
from services.cms.api import Api
from services.cms.bodies import (
    At,
    Between,
    ComponentAt,
    DiffAnswer,
    Health,
    Me,
    OneSchema,
    OwnersAt,
    SequenceAt,
)
from services.cms.differences import differences
from services.cms.metrics import Gauges
from services.cms.owners import owners
from services.cms.progress.bodies import SequenceAnswer, SequenceView
from services.cms.progress.views import (
    sequence_at,
    sequences_at,
    sequences_now,
    shown_now,
    surroundings,
)
from services.cms.reports.views import heard_by, nodes_at, nodes_now
from services.http.api import IMMUTABLE, REVALIDATED, Call, is_known, tag_of
from services.http.bodies import Nothing
from services.http.problems import Code, ProblemError
from transformations.outcome import Reason


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


async def modified(api: Api, call: Call[At]) -> web.StreamResponse:
    """By which a client knows what it may keep while it looks at one epoch after another."""
    return await _shown(api, call, call.query, modified_view)


async def nodes(api: Api, call: Call[At]) -> web.StreamResponse:
    """The directory, with what nodes report where the newest version is asked for."""
    query = call.query
    if query.at is not None:
        return await _shown(api, call, query, nodes_at)
    applied = api.engine.applied if query.stale else await api.engine.latest()
    answer = nodes_now(applied.metadata, await heard_by(api, is_stale=query.stale))
    # What nodes report changes while the epoch stands still.
    return await api.json(call.request, answer, Cache_Control="no-store")


async def sequences(api: Api, call: Call[At]) -> web.StreamResponse:
    """The sequences in progress, with what is done about them where the newest are asked for."""
    query = call.query
    if query.at is not None:
        return await _shown(api, call, query, sequences_at)
    found = (api.engine.applied if query.stale else await api.engine.latest()).metadata
    answer = await sequences_now(api, found, is_stale=query.stale)
    return await api.json(call.request, answer, Cache_Control="no-store")


async def sequence(api: Api, call: Call[SequenceAt]) -> web.StreamResponse:
    query = call.query
    if query.at is not None:

        def view(found: ClusterMetadata) -> SequenceAnswer:
            return _named(found, sequence_at(found, _sequence(found, query.id)))

        return await _shown(api, call, query, view)
    found = (api.engine.applied if query.stale else await api.engine.latest()).metadata
    listed = [_sequence(found, query.id)]
    around = await surroundings(api, is_stale=query.stale)
    (shown,) = await shown_now(api, found, listed, around, is_stale=query.stale)
    return await api.json(call.request, _named(found, shown), Cache_Control="no-store")


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


async def me(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    """Open to everybody, so that a page can ask before it asks somebody for a token."""
    tokens, given = call.tokens, call.request.headers.get("Authorization")
    role = call.role if tokens is None else tokens.role_of(given)
    found = Me(role=None if role is None else role.name.lower(), is_open=tokens is None)
    return await api.json(call.request, found, Cache_Control="no-store")


async def healthz(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    """The process runs, whatever else does not."""
    return await api.json(call.request, _health(api), Cache_Control="no-store")


async def readyz(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    """The process can answer and commit: the log is within reach, whole, and it is not stopping."""
    if api.stopping.is_set():
        raise ProblemError(Code.STOPPING, "This process is stopping.")
    api.engine.reporting.watch.check()
    await api.engine.latest()
    return await api.json(call.request, _health(api), Cache_Control="no-store")


async def metrics(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    engine = api.engine
    gauges = Gauges(
        tip=engine.applied.metadata.epoch,
        queue_depth=engine.queue_depth,
        followers=api.followers,
        is_sequencing=engine.is_sequencing,
        divergences=len(engine.reporting.watch.divergences),
        propagation=engine.reporting.observer.seconds,
        newest=engine.reporting.observer.newest,
        nodes=nodes_now(engine.applied.metadata, await heard_by(api, is_stale=True)).nodes,
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


def _sequence(found: ClusterMetadata, wanted: Epoch) -> Sequence:
    item = found.sequences.find(SequenceId(wanted))
    if item is None:
        raise ProblemError(
            Code.NOT_FOUND,
            f"No sequence {wanted} is in progress at epoch {found.epoch} "
            f"({Reason.UNKNOWN_SEQUENCE}).",
            field="id",
            epoch=found.epoch,
        )
    return item


def _named(found: ClusterMetadata, shown: SequenceView) -> SequenceAnswer:
    return SequenceAnswer(epoch=found.epoch, **msgspec.structs.asdict(shown))


def _health(api: Api) -> Health:
    found = api.engine.applied.metadata
    divergence = api.engine.reporting.watch.divergence
    healthy = "ok" if divergence is None else "diverged"
    return Health(
        status="stopping" if api.stopping.is_set() else healthy,
        detail=None if divergence is None else divergence.sentence,
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
