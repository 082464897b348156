"""Proofs, checkpoints and tiles: everything that it takes not to trust this service."""

from __future__ import annotations

import time

import msgspec
import structlog
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

logger = structlog.get_logger()

SIGN_ATTEMPTS_MAX = 10
"""Each that fails was overtaken by another process that signed."""
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
    signed = sign(await _signable(api), keys, at_s=int(time.time()))
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


async def _signable(api: Api) -> Checkpoint:
    """The newest size and root, once it is recorded that they extend what was signed before."""
    known = api.engine.signed
    metadata = (await api.engine.latest()).metadata
    if metadata.epoch == EMPTY:
        raise ProblemError(Code.NOT_FOUND, "There is no entry to sign yet.")
    # A lineage is recorded before the first entry, so this log has one by now or never.
    origin = origin_of(metadata.cluster.id, await known.lineage())
    for _ in range(SIGN_ATTEMPTS_MAX):
        # Looked at before the tip: a log that only grows is never smaller than what was signed.
        last = await known.last(origin)
        size = await _size(api, None, "size")
        stated = Checkpoint(origin, size, await api.engine.tree.root(size))
        await _check_extends(api, stated, last)
        if stated == last or await known.advance(stated, last, by=api.engine.name):
            return stated
    raise ProblemError(Code.UNAVAILABLE, "Others sign all the time; ask again.")


async def _check_extends(api: Api, stated: Checkpoint, last: Checkpoint | None) -> None:
    if last is None:
        return
    if stated.size < last.size:
        fault = f"the log has {stated.size} entries, and {last.size} were signed"
    elif await api.engine.tree.root(Epoch(last.size)) != last.root:
        fault = f"the first {last.size} entries are not those that were signed"
    else:
        return
    logger.error("checkpoint_refused", origin=last.origin, size=stated.size, signed=last.size)
    raise ProblemError(
        Code.SIGNED_OTHERWISE,
        f"Nothing is signed: {fault}. Restore what was lost, or export the log and import it into "
        "an empty database, where it signs as another lineage.",
        tip=stated.size,
    )


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
