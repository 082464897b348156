"""What a CMS tells of its relay to Kafka."""

import msgspec

from log.fanout import Relay
from log.memory import MemoryLog
from metadata.directory import NodeId
from metadata.epoch import Epoch
from services.cms.metrics import Gauges, Metrics
from services.cms.reports.marks import AppliedTimes
from services.cms.reports.propagation import Spread, Standing

GAUGES = Gauges(
    tip=1,
    queue_depth=0,
    followers=0,
    is_sequencing=True,
    divergences=0,
    propagation={},
    nodes=(),
)


class Topic:
    """Takes everything and remembers nothing."""

    async def publish(self, entries):
        del entries

    async def read(self):
        return Epoch(0)

    async def advance(self, epoch):
        return epoch


async def test_how_far_the_topic_is_behind_is_told():
    metrics = Metrics()
    relay = Relay(MemoryLog(), Topic(), Topic())
    metrics.watch(relay)
    relay.wake(Epoch(7))

    text = metrics.text(GAUGES).decode()

    assert "ringlog_fanout_lag_epochs 7.0" in text
    assert "ringlog_fanout_failures_total 0.0" in text


def test_at_most_one_straggler_is_named():
    never = AppliedTimes(())
    behind = Spread([Standing(NodeId(4), Epoch(6), never)], [NodeId(4), NodeId(5)])
    found = msgspec.structs.replace(GAUGES, newest=behind.of(Epoch(7)))

    text = Metrics().text(found).decode()
    named = [line for line in text.splitlines() if line.startswith("ringlog_propagation_straggler")]
    assert named == ['ringlog_propagation_straggler_epoch{node="5"} 7.0']
    assert b"straggler_epoch{" not in Metrics().text(GAUGES)


def test_without_a_relay_nothing_is_said_of_one():
    assert b"fanout" not in Metrics().text(GAUGES)
