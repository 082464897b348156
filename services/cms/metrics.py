"""What Prometheus is told. Requests only count; the text is made when somebody asks."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric

LATENCY_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BATCH_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
OUTCOMES = ("committed", "refused", "reused", "failed")


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


class Gauges(msgspec.Struct, frozen=True, kw_only=True):
    """How things stand at the moment of asking."""

    tip: int
    queue_depth: int
    followers: int
    is_sequencing: bool
    snapshot_epoch: int | None = None
    snapshot_age_s: float | None = None
    snapshot_size_bytes: int | None = None


class Metrics:
    def __init__(self) -> None:
        self.commits = {outcome: Histogram(LATENCY_BOUNDS_S) for outcome in OUTCOMES}
        self.batches = Histogram(BATCH_BOUNDS)
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.problems: Counter[str] = Counter()
        self.rejections: Counter[str] = Counter()

    def observe_batch(self, entries: int) -> None:
        """A batch was appended."""
        self.batches.observe(entries)

    def text(self, gauges: Gauges) -> bytes:
        registry = CollectorRegistry()
        registry.register(_Collected(self, gauges))
        return generate_latest(registry)


class _Collected:
    """The one collector, in the form the library asks for."""

    def __init__(self, metrics: Metrics, gauges: Gauges) -> None:
        self._metrics = metrics
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        yield self._commits()
        batches = HistogramMetricFamily("ringlog_batch_entries", "Entries appended in one batch.")
        batches.add_metric([], *self._metrics.batches.buckets())
        yield batches
        yield from self._counters()
        yield from self._levels()

    def _commits(self) -> Metric:
        family = HistogramMetricFamily(
            "ringlog_commit_seconds", "Time to decide and append.", labels=["outcome"]
        )
        for outcome, histogram in self._metrics.commits.items():
            family.add_metric([outcome], *histogram.buckets())
        return family

    def _counters(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "ringlog_requests", "HTTP requests answered.", labels=["method", "path", "status"]
        )
        for (method, path, status), count in self._metrics.requests.items():
            requests.add_metric([method, path, str(status)], count)
        yield requests
        for name, text, counts in (
            ("ringlog_rejections", "Proposals refused, by reason.", self._metrics.rejections),
            ("ringlog_problems", "Problems answered, by code.", self._metrics.problems),
        ):
            family = CounterMetricFamily(name, text, labels=["code"])
            for code, count in counts.items():
                family.add_metric([code], count)
            yield family

    def _levels(self) -> Iterator[Metric]:
        gauges = self._gauges
        for name, text, value in (
            ("tip_epoch", "The newest epoch this process has applied.", gauges.tip),
            ("queue_depth", "Proposals that wait to be decided.", gauges.queue_depth),
            ("followers", "Requests that wait for entries.", gauges.followers),
            ("sequencing", "Whether this process decides.", float(gauges.is_sequencing)),
            ("snapshot_epoch", "Epoch of the newest snapshot.", gauges.snapshot_epoch),
            ("snapshot_age_seconds", "Age of the newest snapshot.", gauges.snapshot_age_s),
            ("snapshot_size_bytes", "Size of the newest snapshot.", gauges.snapshot_size_bytes),
        ):
            if value is not None:
                yield GaugeMetricFamily(f"ringlog_{name}", text, value=value)
