"""What Prometheus is told. Requests only count; the text is made when somebody asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric

from log.fanout import Figures, Relay
from services.cms.reports.bodies import NodeView
from services.cms.reports.liveness import Liveness
from services.cms.reports.propagation import Propagation, Stage
from services.http.metrics import Histogram, HttpCounts

LATENCY_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BATCH_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
OUTCOMES = ("committed", "refused", "reused", "failed")


class Gauges(msgspec.Struct, frozen=True, kw_only=True):
    """How things stand at the moment of asking."""

    tip: int
    queue_depth: int
    followers: int
    is_sequencing: bool
    divergences: int
    propagation: Mapping[Stage, Histogram]
    nodes: Sequence[NodeView]
    newest: Propagation | None = None
    snapshot_epoch: int | None = None
    snapshot_age_s: float | None = None
    snapshot_size_bytes: int | None = None


class Metrics:
    def __init__(self) -> None:
        self.commits = {outcome: Histogram(LATENCY_BOUNDS_S) for outcome in OUTCOMES}
        self.batches = Histogram(BATCH_BOUNDS)
        self.http = HttpCounts()
        self.rejections: Counter[str] = Counter()
        self._relays: list[Relay] = []

    def watch(self, relay: Relay) -> None:
        """From now on its figures are told, too."""
        self._relays.append(relay)

    @property
    def fan_outs(self) -> list[Figures]:
        return [relay.figures for relay in self._relays]

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
        yield from self._nodes()
        for figures in self._metrics.fan_outs:
            yield from _fan_out(figures)

    def _commits(self) -> Metric:
        family = HistogramMetricFamily(
            "ringlog_commit_seconds", "Time to decide and append.", labels=["outcome"]
        )
        for outcome, histogram in self._metrics.commits.items():
            family.add_metric([outcome], *histogram.buckets())
        return family

    def _nodes(self) -> Iterator[Metric]:
        propagation = HistogramMetricFamily(
            "ringlog_propagation_seconds",
            "From commit to a stage, of sampled epochs; measured where commits are sequenced.",
            labels=["stage"],
        )
        for stage, histogram in self._gauges.propagation.items():
            propagation.add_metric([stage.value], *histogram.buckets())
        yield propagation
        newest = self._gauges.newest
        straggler = GaugeMetricFamily(
            "ringlog_propagation_straggler_epoch",
            "An epoch, by the member that applied it last or is furthest behind it.",
            labels=["node"],
        )
        if newest is not None and newest.straggler is not None:
            straggler.add_metric([str(newest.straggler)], newest.epoch)
        yield straggler
        lags = GaugeMetricFamily(
            "ringlog_node_lag_epochs",
            "Epochs between a node's watermark and ours.",
            labels=["node"],
        )
        for node in self._gauges.nodes:
            if node.lag is not None:
                lags.add_metric([str(node.id)], node.lag)
        yield lags
        nodes = GaugeMetricFamily(
            "ringlog_nodes", "Registered nodes, by the age of their report.", labels=["liveness"]
        )
        counts = Counter(node.liveness for node in self._gauges.nodes)
        for state in Liveness:
            nodes.add_metric([state.value], counts[state])
        yield nodes

    def _counters(self) -> Iterator[Metric]:
        yield from self._metrics.http.families()
        rejections = CounterMetricFamily(
            "ringlog_rejections", "Proposals refused, by reason.", labels=["code"]
        )
        for code, count in self._metrics.rejections.items():
            rejections.add_metric([code], count)
        yield rejections

    def _levels(self) -> Iterator[Metric]:
        gauges = self._gauges
        for name, text, value in (
            ("tip_epoch", "The newest epoch this process has applied.", gauges.tip),
            ("queue_depth", "Proposals that wait to be decided.", gauges.queue_depth),
            ("followers", "Requests that wait for entries.", gauges.followers),
            ("sequencing", "Whether this process decides.", float(gauges.is_sequencing)),
            ("diverged", "Histories that stop all commits.", gauges.divergences),
            ("snapshot_epoch", "Epoch of the newest snapshot.", gauges.snapshot_epoch),
            ("snapshot_age_seconds", "Age of the newest snapshot.", gauges.snapshot_age_s),
            ("snapshot_size_bytes", "Size of the newest snapshot.", gauges.snapshot_size_bytes),
        ):
            if value is not None:
                yield GaugeMetricFamily(f"ringlog_{name}", text, value=value)


def _fan_out(figures: Figures) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "ringlog_fanout_lag_epochs", "Epochs that are not published yet.", value=figures.lag
    )
    yield CounterMetricFamily(
        "ringlog_fanout_failures",
        "Times that the broker or the log was away from the relay.",
        value=figures.failures_total,
    )
