"""Proofs, checkpoints and tiles: everything that it takes not to trust this service."""

from __future__ import annotations

import time

import msgspec
from aiohttp import web

from audit.checkpoints import Checkpoint, origin_of, sign
from audit.tiles import place_of
from metadata.epoch import EMPTY, Epoch
from services.cms.api import Api
from services.cms.proofs.bodies import (
    ConsistencyAnswer,
    Extended,
    Included,
    InclusionAnswer,
    Tile1,
)
from services.http.api import IMMUTABLE, Call
from services.http.bodies import Nothing
from services.http.problems import Code, ProblemError

NOTE = "text/plain; charset=utf-8"
TILE = "application/octet-stream"


async def inclusion(api: Api, call: Call[Included]) -> web.StreamResponse:
    """That an entry is in the log of some size."""
    query = call.query
    size = await _size(api, query.size, "size")
    if query.epoch > size:
        raise _unknown(query.epoch, size, "epoch")
    tree = api.engine.tree
    leaf = await api.engine.hash_at(query.epoch)
    assert leaf is not None, query.epoch
    answer = InclusionAnswer(
        epoch=query.epoch,
        size=size,
        leaf=leaf.hex(),
        root=(await tree.root(size)).hex(),
        proof=[item.hex() for item in await tree.inclusion(query.epoch, size)],
    )
    caching = "no-store" if query.size is None else IMMUTABLE
    return await api.json(call.request, answer, Cache_Control=caching)


async def consistency(api: Api, call: Call[Extended]) -> web.StreamResponse:
    """That the log of some size begins with an earlier one."""
    query = call.query
    size = await _size(api, query.to, "to")
    if query.old > size:
        raise _unknown(query.old, size, "from")
    tree = api.engine.tree
    answer = ConsistencyAnswer(
        old=query.old,
        to=size,
        old_root=(await tree.root(query.old)).hex(),
        root=(await tree.root(size)).hex(),
        proof=[item.hex() for item in await tree.consistency(query.old, size)],
    )
    caching = "no-store" if query.to is None else IMMUTABLE
    return await api.json(call.request, answer, Cache_Control=caching)


async def checkpoint(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    """The newest size and root, signed; nothing is signed while the log is in doubt."""
    keys = api.engine.keys
    if not keys:
        raise ProblemError(
            Code.NOT_FOUND, "This CMS signs nothing: name a private key by RINGLOG_LOG_KEY."
        )
    api.engine.reporting.watch.check()
    size = await _size(api, None, "size")
    if size == EMPTY:
        raise ProblemError(Code.NOT_FOUND, "There is no entry to sign yet.")
    cluster = api.engine.applied.metadata.cluster.id
    stated = Checkpoint(origin_of(cluster), size, await api.engine.tree.root(size))
    signed = sign(stated, keys, at_s=int(time.time()))
    headers = {"Content-Type": NOTE, "Cache-Control": "no-store"}
    return await api.answer(call.request, signed.encode(), headers)


async def tile(api: Api, call: Call[Tile1]) -> web.StreamResponse:
    """A file of C2SP tlog-tiles; the tree never changes where it is full, or cut off."""
    place = place_of("/".join(("tile", *msgspec.structs.astuple(call.query))))
    size = await _size(api, None, "size")
    if place is None or not place.is_within(size):
        raise ProblemError(
            Code.NOT_FOUND, f"There is no such tile in the tree of {size} entries.", tip=size
        )
    headers = {"Content-Type": TILE, "Cache-Control": IMMUTABLE}
    return await api.answer(call.request, await api.engine.tree.tile(place), headers)


async def _size(api: Api, wanted: Epoch | None, field: str) -> Epoch:
    """A size that the log has, and the tree with all of it."""
    tip = api.engine.applied.metadata.epoch
    if wanted is None or wanted > tip:
        tip = (await api.engine.latest()).metadata.epoch
    size = tip if wanted is None else wanted
    if size > tip:
        raise _unknown(size, tip, field)
    await api.engine.tree.grow(size)
    return size


def _unknown(epoch: Epoch, tip: Epoch, field: str) -> ProblemError:
    return ProblemError(
        Code.UNKNOWN_EPOCH, f"There is no epoch {epoch}; the log has {tip}.", field=field, tip=tip
    )
