"""Progress over HTTP: taking in what drivers tell."""

from __future__ import annotations

import msgspec
from aiohttp import web

from metadata.locks import SequenceId
from services.cms.api import Api
from services.cms.progress.store import Kept, spoken_of
from services.http.api import Call
from services.http.bodies import Nothing
from services.http.limits import HttpLimits
from services.http.problems import Code, ProblemError, malformed
from services.http.progress import PROGRESS_BYTES_MAX, Driven, Moved, Progress, ProgressAnswer
from services.http.reading import read_json

RATE_ROWS_MIN = 1_000
"""With fewer, a movement takes as long as its preparations."""

_LIMITS = HttpLimits(body_bytes_max=PROGRESS_BYTES_MAX)
_decode = msgspec.json.Decoder(Progress).decode
_encode = msgspec.json.Encoder().encode


async def progress(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    """What a driver does. Of sequences and sessions that are over nothing is kept."""
    body = await read_json(_LIMITS, call.request)
    if len(body) > PROGRESS_BYTES_MAX:
        raise ProblemError(
            Code.TOO_LARGE, f"Progress has at most {PROGRESS_BYTES_MAX} bytes.", field="sequences"
        )
    try:
        given = _decode(body)
    except (ValueError, RecursionError) as error:
        raise malformed(error) from error
    driven = {SequenceId(item.sequence): item for item in given.sequences}
    # A driver may have heard of a sequence, or of its end, before this process has.
    metadata = (await api.engine.latest()).metadata
    in_progress = metadata.sequences.in_progress
    kept = [
        _kept(given.driver, driven[sequence])
        for sequence in sorted(driven)
        if sequence in in_progress
    ]
    served = {item.session: item for item in given.sessions}
    kept += [
        Kept(sequence=SequenceId(session), driver=given.driver, driven=_encode(served[session]))
        for session in sorted(served)
        if session in metadata.sessions.open
    ]
    changing, running = given.reconfiguration, metadata.cms.reconfiguration
    if changing is not None and running is not None and SequenceId(changing.session) == running.id:
        kept.append(Kept(sequence=running.id, driver=given.driver, driven=_encode(changing)))
    store = api.engine.reporting.stores.progress
    await store.keep(sorted(kept, key=lambda item: item.sequence))
    await store.forget_others(spoken_of(metadata), up_to=metadata.epoch)
    return await api.json(call.request, ProgressAnswer(len(kept)), Cache_Control="no-store")


def _kept(driver: str, driven: Driven) -> Kept:
    return Kept(
        sequence=SequenceId(driven.sequence),
        driver=driver,
        driven=_encode(driven),
        rows_per_s=_rate(driven.moved),
    )


def _rate(moved: Moved | None) -> float | None:
    if moved is None or moved.rows_done < RATE_ROWS_MIN:
        return None
    return moved.rows_per_s or None
