"""What a driver said, as it is shown; pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

from services.cms.progress.bodies import DriverView, MovementView, ServingView
from services.cms.progress.store import Known
from services.http.progress import Driven, Moved, Served

_decode = msgspec.json.Decoder(Driven).decode
_decode_served = msgspec.json.Decoder(Served).decode


def driven_in(known: Known | None) -> Driven | None:
    """None also for what another release may have written there."""
    if known is None:
        return None
    try:
        return _decode(known.driven)
    except ValueError:
        return None


def driver_view(known: Known, driven: Driven) -> DriverView:
    missing = {node for item in driven.waiting for node in item.missing}
    return DriverView(
        name=known.driver,
        step=driven.step,
        doing=driven.doing,
        for_s=round(driven.for_s + known.age_s, 3),
        detail=driven.detail or None,
        failures=driven.failures,
        waiting=sorted(map(int, missing)),
        age_s=round(known.age_s, 3),
    )


def serving_view(known: Known | None) -> ServingView | None:
    try:
        served = None if known is None else _decode_served(known.driven)
    except ValueError:
        return None
    if known is None or served is None:
        return None
    return ServingView(
        name=known.driver,
        doing=served.doing,
        for_s=round(served.for_s + known.age_s, 3),
        detail=served.detail or None,
        failures=served.failures,
        nodes=[*map(int, served.nodes)],
        age_s=round(known.age_s, 3),
    )


def movement_view(moved: Moved, age_s: float) -> MovementView:
    return MovementView(
        phase=moved.phase,
        detail=moved.detail or None,
        rows_done=moved.rows_done,
        rows_total=moved.rows_total,
        bytes_done=moved.bytes_done,
        bytes_total=moved.bytes_total,
        rows_per_s=round(moved.rows_per_s, 3),
        eta_s=_eta_s(moved, age_s),
        stalled_s=round(moved.stalled_s + age_s, 3),
    )


def usual_rate(rates: Sequence[float]) -> float | None:
    """Rows per second of a movement as they usually are; one that was disturbed counts little."""
    return median(rates) if rates else None


def _eta_s(moved: Moved, age_s: float) -> float | None:
    """From now on; what the driver says itself, or else by its rate."""
    left_s = moved.left_s
    if left_s is None and moved.rows_per_s > 0:
        left_s = max(0, moved.rows_total - moved.rows_done) / moved.rows_per_s
    return None if left_s is None else round(max(0.0, left_s - age_s), 3)
