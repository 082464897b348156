"""Pictures of a history as SVG text, for a page that brings its own colours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import pairwise

import msgspec

from audit.report_chronicle import Course, Sample
from metadata.plans import Step

WIDTH = 960
LEFT = 150
RIGHT = 20
ROW = 20
BAR = 12
AXIS = 30
AREA_HEIGHT = 260
TICKS = 6
NODES_SHOWN_MAX = 11
"""More colours than this cannot be told apart; the other nodes are one band."""

CELL = 5.0
"""How wide a step is drawn at least."""

SHARE_UNITS = 1_000_000
SHARE_MIN = 1e-9
"""Less than this comes from adding fractions."""

STEP_CLASSES = {
    Step.PREPARE: "prepare",
    Step.START: "start",
    Step.MID: "mid",
    Step.FINISH: "finish",
    Step.RETIRE: "retire",
    Step.CANCEL: "cancel",
}


class Axis(msgspec.Struct, frozen=True):
    """Epochs from left to right, the same in every picture so that they can be compared."""

    first: int
    last: int

    def x(self, epoch: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (epoch - self.first) / max(1, self.last - self.first)

    def ticks(self) -> list[int]:
        """Round numbers, some way apart."""
        span = max(1, self.last - self.first)
        step = next(
            factor * 10**power
            for power in range(20)
            for factor in (1, 2, 5)
            if factor * 10**power * TICKS >= span
        )
        return list(range(-(-self.first // step) * step, self.last + 1, step))

    def drawn(self, height: float) -> Iterator[str]:
        for epoch in self.ticks():
            x = self.x(epoch)
            yield f'<line class="grid" x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{height:.1f}"/>'
            yield _text("tick", x, height + 18, f"{epoch:,}", "middle")


def timeline(courses: Sequence[Course], axis: Axis) -> str:
    """One bar per sequence, cut where its steps are; one still under way goes on to the end."""
    height = max(1, len(courses)) * ROW + 6
    lines = list(axis.drawn(height))
    for row, course in enumerate(courses):
        lines.extend(_bar(course, row * ROW + 4, axis))
    label = f"Time line of {len(courses)} sequences by epoch"
    return _svg(lines, height + AXIS, label)


def areas(samples: Sequence[Sample], axis: Axis, shown: Sequence[int]) -> str:
    """How the nodes share what is read, as bands on top of one another."""
    lines = [
        f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>'
        + _text("tick", LEFT - 8, y + 4, f"{percent} %", "end")
        for percent in (0, 25, 50, 75, 100)
        for y in [AREA_HEIGHT * (1 - percent / 100) + 8]
    ]
    columns = [_column(sample, shown) for sample in samples]
    for band in range(len(shown) + 1):
        path = _band(samples, columns, band, axis)
        if path:
            lines.append(f'<path class="band {band_class(band, len(shown))}" d="{path}"/>')
    lines.extend(axis.drawn(AREA_HEIGHT + 8))
    return _svg(lines, AREA_HEIGHT + 8 + AXIS, "Share of the replicas of each node by epoch")


def largest(samples: Iterable[Sample]) -> list[int]:
    """The nodes that had most over all the time, by number."""
    most: Counter[int] = Counter()
    for sample in samples:
        most.update({node: round(share * SHARE_UNITS) for node, share in sample.shares.items()})
    return sorted(sorted(most, key=lambda node: (-most[node], node))[:NODES_SHOWN_MAX])


def band_class(band: int, shown: int) -> str:
    return "rest" if band == shown else f"n{band}"


def _bar(course: Course, y: float, axis: Axis) -> Iterator[str]:
    who = f"{course.id:,} {course.kind} {course.node}"
    yield _text("row", LEFT - 8, y + BAR - 2, who, "end")
    title = f"Sequence {course.id}: {course.kind} of node {course.node}, {course.outcome}; "
    title += ", ".join(f"{item.step.value} at {item.epoch}" for item in course.steps)
    edges = _edges(course, axis)
    yield f"<g><title>{escape(title)}</title>"
    if course.is_open:
        yield _rect("under", edges[0], axis.x(axis.last) - edges[0], y)
    for item, (left, right) in zip(course.steps, pairwise(edges), strict=True):
        yield _rect(f"step {STEP_CLASSES[item.step]}", left, right - left, y)
    yield "</g>"


def _edges(course: Course, axis: Axis) -> list[float]:
    """Where each step begins and the last one ends; short ones are drawn wider than they were."""
    exact = [axis.x(item.epoch) for item in course.steps]
    if exact[-1] - exact[0] >= CELL * len(exact):
        return [*exact, exact[-1] + CELL]
    # Kept inside the picture, also at its right end.
    begin = min(exact[0], WIDTH - RIGHT - CELL * len(exact))
    return [begin + CELL * number for number in range(len(exact) + 1)]


def _text(style: str, x: float, y: float, text: str, anchor: str) -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _rect(style: str, x: float, width: float, y: float) -> str:
    return f'<rect class="{style}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2"/>'


def _column(sample: Sample, shown: Sequence[int]) -> list[float]:
    """The upper edges of the bands, from the bottom."""
    edges, reached = [], 0.0
    for node in shown:
        reached += sample.shares.get(node, 0.0)
        edges.append(reached)
    edges.append(1.0 if sample.shares else 0.0)
    return edges


def _band(
    samples: Sequence[Sample], columns: Sequence[Sequence[float]], band: int, axis: Axis
) -> str:
    """Steps, because shares hold until the next change; nothing where the band is empty."""
    upper = [column[band] for column in columns]
    lower = [column[band - 1] if band else 0.0 for column in columns]
    if all(high - low < SHARE_MIN for low, high in zip(lower, upper, strict=True)):
        return ""
    lefts = [axis.x(max(sample.epoch, axis.first)) for sample in samples]
    rights = [*lefts[1:], axis.x(axis.last)]
    there = [
        point
        for left, right, share in zip(lefts, rights, upper, strict=True)
        for point in ((left, share), (right, share))
    ]
    back = [
        point
        for left, right, share in zip(lefts, rights, lower, strict=True)
        for point in ((left, share), (right, share))
    ]
    points = [*there, *reversed(back)]
    return "M" + "L".join(f"{x:.1f} {AREA_HEIGHT * (1 - share) + 8:.1f}" for x, share in points)


def _svg(lines: Iterable[str], height: float, label: str) -> str:
    body = "\n".join(lines)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}">\n'
        f"{body}\n</svg>"
    )
