"""What every service counts of its requests; the text is made when somebody asks."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric


class Histogram:
    """Counts by upper bound: a tenth of the cost of the library's, whose locks we do not need."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def buckets(self) -> tuple[list[tuple[str, float]], float]:
        """Cumulative counts as Prometheus wants them, and the sum of all values."""
        total = 0
        found: list[tuple[str, float]] = []
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += count
            found.append(("+Inf" if bound == float("inf") else str(bound), total))
        return found, self._sum


class HttpCounts:
    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.problems: Counter[str] = Counter()

    def families(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "ringlog_requests", "HTTP requests answered.", labels=["method", "path", "status"]
        )
        for (method, path, status), count in self.requests.items():
            requests.add_metric([method, path, str(status)], count)
        yield requests
        problems = CounterMetricFamily(
            "ringlog_problems", "Problems answered, by code.", labels=["code"]
        )
        for code, count in self.problems.items():
            problems.add_metric([code], count)
        yield problems


class Counted(Protocol):
    """The metrics of a service; whatever else they hold, they count requests."""

    @property
    def http(self) -> HttpCounts: ...
