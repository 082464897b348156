"""What Prometheus is told of a node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from client.standing import State
from services.http.metrics import HttpCounts
from services.node.engine import NodeEngine


class NodeMetrics:
    """`damaged_segments` counts files of the node's tables that cannot be read."""

    def __init__(self, damaged_segments: Callable[[], int]) -> None:
        self.http = HttpCounts()
        self.damaged_segments = damaged_segments
        self.jumps = 0
        self.listener_failures = 0

    def text(self, engine: NodeEngine, followers: int) -> bytes:
        registry = CollectorRegistry()
        registry.register(_Collected(self, engine, followers))
        return generate_latest(registry)


class _Collected:
    """The one collector, in the form the library asks for."""

    def __init__(self, metrics: NodeMetrics, engine: NodeEngine, followers: int) -> None:
        self._metrics = metrics
        self._engine = engine
        self._followers = followers

    def collect(self) -> Iterable[Metric]:
        yield from self._metrics.http.families()
        yield from self._counters()
        yield from self._levels()

    def _counters(self) -> Iterator[Metric]:
        faults = CounterMetricFamily(
            "ringlog_arrivals_refused", "Arrivals that were not believed.", labels=["fault"]
        )
        for fault, count in self._engine.following.follower.faults.items():
            faults.add_metric([fault.value], count)
        yield faults
        for name, text, count in (
            ("jumps", "Times that a snapshot was taken instead of entries.", self._metrics.jumps),
            (
                "listener_failures",
                "Changes that a listener in this process failed on.",
                self._metrics.listener_failures,
            ),
        ):
            yield CounterMetricFamily(f"ringlog_{name}", text, value=count)

    def _levels(self) -> Iterator[Metric]:
        engine = self._engine
        states = GaugeMetricFamily(
            "ringlog_follower_state", "1 for how the follower stands.", labels=["state"]
        )
        for state in State:
            states.add_metric([state.value], float(engine.following.standing.state is state))
        yield states
        for name, text, value in (
            ("watermark_epoch", "The highest epoch applied.", engine.applied.metadata.epoch),
            ("lag_epochs", "Epochs that the log is ahead.", engine.lag),
            (
                "log_silence_seconds",
                "Time since a CMS last said how far the log is.",
                engine.silence_s,
            ),
            ("followers", "Requests that wait for entries.", self._followers),
            (
                "damaged_segments",
                "Segments that cannot be read and are left out of compactions.",
                self._metrics.damaged_segments(),
            ),
        ):
            yield GaugeMetricFamily(f"ringlog_{name}", text, value=value)
