"""When each entry passes which place on its way through a node, by stamps on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from client.following import Following
from client.pages import Page
from client.publication import Publication
from log.follower import Step, fanned_out
from log.messages import Message
from metadata.epoch import Epoch

Stamps = dict[str, dict[int, float]]

SENT = "sent"
ACKNOWLEDGED = "acknowledged"
HEARD = "heard of"
AT_HAND = "entry at hand"
APPLIED = "applied"
TOLD = "kept and told"
STAGES = (SENT, ACKNOWLEDGED, HEARD, AT_HAND, APPLIED, TOLD)
"""In the order of the table; the acknowledgement may come later than what stands behind it."""


@contextmanager
def stamped() -> Iterator[Stamps]:
    """Every node of this process leaves stamps; `sent` and `acknowledged` are the caller's."""
    stamps: Stamps = {stage: {} for stage in STAGES}
    places: list[tuple[type, str, Callable[[Any], Callable[..., Any]]]] = [
        (Following, "hear", lambda inner: _hear(inner, stamps)),
        (Following, "hear_of", lambda inner: _hear_of(inner, stamps)),
        (Following, "_take", lambda inner: _take(inner, stamps)),
        (Publication, "go_on", lambda inner: _go_on(inner, stamps)),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    for owner, name, around in places:
        setattr(owner, name, around(getattr(owner, name)))
    try:
        yield stamps
    finally:
        for owner, name, inner in before:
            setattr(owner, name, inner)


def _note(stamps: Stamps, stage: str, epoch: int) -> None:
    stamps[stage].setdefault(epoch, time.perf_counter())


def _hear(inner: Callable[..., None], stamps: Stamps) -> Callable[..., None]:
    def hear(self: Following, message: Message) -> None:
        arrival = fanned_out(message)
        if arrival is not None:
            _note(stamps, HEARD, arrival.epoch)
            _note(stamps, AT_HAND, arrival.epoch)
        inner(self, message)

    return hear


def _hear_of(inner: Callable[..., None], stamps: Stamps) -> Callable[..., None]:
    def hear_of(self: Following, tip: Epoch) -> None:
        _note(stamps, HEARD, tip)
        inner(self, tip)

    return hear_of


def _take(inner: Callable[..., Any], stamps: Stamps) -> Callable[..., Any]:
    async def take(self: Following, page: Page, heard_of: Epoch) -> None:
        for sealed in page.entries:
            _note(stamps, AT_HAND, sealed.epoch)
        await inner(self, page, heard_of)

    return take


def _go_on(inner: Callable[..., Any], stamps: Stamps) -> Callable[..., Any]:
    async def go_on(self: Publication, steps: Sequence[Step]) -> None:
        for step in steps:
            _note(stamps, APPLIED, step.sealed.epoch)
        await inner(self, steps)
        for step in steps:
            _note(stamps, TOLD, step.sealed.epoch)

    return go_on


def since_sent_s(stamps: Stamps, stage: str) -> list[float]:
    at = stamps[stage]
    return [at[number] - start for number, start in stamps[SENT].items() if number in at]
