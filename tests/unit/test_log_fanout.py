"""What a relay does next, whatever it is told and whatever fails."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from encoding.registry import documents
from log.backoff import Backoff, Delay
from log.chain import NO_ENTRIES
from log.fanout import Hooks, Limits, Progress, PublisherAwayError, Relay
from log.memory import MemoryLog
from log.messages import MESSAGE_BYTES_MAX, OVERHEAD_BYTES_MAX, message_of
from log.sequencer import BEYOND_ALL
from log.store import StoreUnavailableError
from metadata.epoch import EMPTY, Epoch
from services.local.waiting import until
from tests.golden.history import history

HISTORY = history().entries
QUICK = Limits(look_every_s=60, backoff=Backoff(first_s=0.001, last_s=0.002))


class Topic:
    """A publisher and its position, away as often as `failures` says."""

    def __init__(self, failures=0):
        self.epochs = []
        self.pages = []
        self.position = EMPTY
        self.failures = failures

    async def publish(self, entries):
        self.pages.append(len(entries))
        self.epochs += [sealed.epoch for sealed in entries]
        if self.failures:
            self.failures -= 1
            raise PublisherAwayError("half of it may be there")

    async def read(self):
        return self.position

    async def advance(self, epoch):
        self.position = max(self.position, epoch)
        return self.position


async def filled(count):
    log = MemoryLog()
    await log.append(HISTORY[:count], onto=NO_ENTRIES)
    return log


@asynccontextmanager
async def running(relay):
    task = asyncio.ensure_future(relay.run())
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def reached(topic, epoch):
    await until(lambda: topic.position >= epoch, timeout_s=5)


async def test_publishes_in_order_and_by_pages():
    topic = Topic()
    relay = Relay(await filled(10), topic, topic, limits=Limits(page_entries_max=4))

    async with running(relay):
        await reached(topic, 10)

    assert topic.epochs == list(range(1, 11))
    assert topic.pages == [4, 4, 2]
    assert relay.figures.entries_published == 10


async def test_begins_behind_the_position_that_is_stored():
    topic = Topic()
    topic.position = Epoch(7)

    async with running(Relay(await filled(10), topic, topic)):
        await reached(topic, 10)

    assert topic.epochs == [8, 9, 10]


async def test_what_was_not_acknowledged_is_published_again():
    topic = Topic(failures=2)
    delays: list[Delay] = []
    backs: list[int] = []
    hooks = Hooks(on_delayed=delays.append, on_back=lambda: backs.append(len(delays)))
    relay = Relay(await filled(3), topic, topic, hooks=hooks, limits=QUICK)

    async with running(relay):
        await reached(topic, 3)
        await until(lambda: bool(backs), timeout_s=5)

    assert topic.epochs == [1, 2, 3] * 3
    assert [delay.failures for delay in delays] == [1, 2]
    assert backs == [2], "said once, when all is over"
    assert (relay.figures.failures, relay.figures.failures_total) == (0, 2)


async def test_a_store_that_is_back_is_noticed_also_where_nothing_is_due():
    class Away(Topic):
        asked = 0

        async def read(self):
            self.asked += 1
            if self.asked == 1:
                raise StoreUnavailableError("away")
            return await super().read()

    topic = Away()
    backs: list[int] = []
    hooks = Hooks(on_back=lambda: backs.append(topic.asked))
    async with running(Relay(MemoryLog(), topic, topic, hooks=hooks, limits=QUICK)):
        await until(lambda: bool(backs), timeout_s=5)

    assert backs == [2]


async def test_a_store_that_is_away_is_asked_again():
    class Away(MemoryLog):
        asked = 0

        async def read_after(self, epoch, **bounds):
            self.asked += 1
            if self.asked % 2:
                raise StoreUnavailableError("away")
            return await super().read_after(epoch, **bounds)

    log, topic = Away(), Topic()
    await log.append(HISTORY[:3], onto=NO_ENTRIES)

    async with running(Relay(log, topic, topic, limits=QUICK)):
        await reached(topic, 3)

    assert topic.epochs == [1, 2, 3]


async def test_a_position_that_cannot_be_stored_keeps_failing():
    """Publishing the same page again and again is no progress."""

    class Forgetful(Topic):
        async def advance(self, _epoch):
            raise StoreUnavailableError("read only")

    topic = Forgetful()
    delays: list[Delay] = []
    relay = Relay(
        await filled(1), topic, topic, hooks=Hooks(on_delayed=delays.append), limits=QUICK
    )

    async with running(relay):
        await until(lambda: len(delays) >= 4, timeout_s=5)

    assert [delay.failures for delay in delays[:4]] == [1, 2, 3, 4]


async def test_a_wake_up_during_a_look_is_not_lost():
    """The look may have begun before the entry was there."""

    class Slow(MemoryLog):
        async def read_after(self, epoch, **bounds):
            found = await super().read_after(epoch, **bounds)
            if not found:
                looked.set()
                await appended.wait()
            return found

    looked, appended = asyncio.Event(), asyncio.Event()
    log, topic = Slow(), Topic()
    relay = Relay(log, topic, topic, limits=QUICK)

    async with running(relay):
        await looked.wait()
        await log.append(HISTORY[:1], onto=NO_ENTRIES)
        relay.wake(Epoch(1))
        appended.set()
        await reached(topic, 1)

    assert topic.epochs == [1]


async def test_a_lost_wake_up_costs_a_while():
    class Watched(MemoryLog):
        async def read_after(self, epoch, **bounds):
            found = await super().read_after(epoch, **bounds)
            looked.set()
            return found

    looked = asyncio.Event()
    log, topic = Watched(), Topic()

    async with running(Relay(log, topic, topic, limits=Limits(look_every_s=0.01))):
        await looked.wait()
        await log.append(HISTORY[:2], onto=NO_ENTRIES)
        await reached(topic, 2)

    assert topic.epochs == [1, 2]


async def test_tells_how_far_all_is_published_before_it_stores_the_position():
    topic = Topic()
    told = []

    def published(epoch):
        told.append((epoch, topic.position))

    relay = Relay(
        await filled(4),
        topic,
        topic,
        hooks=Hooks(on_published=published),
        limits=Limits(page_entries_max=2),
    )
    async with running(relay):
        await reached(topic, 4)

    assert told == [(2, 0), (4, 2)]


def test_is_behind_until_it_has_come_to_what_it_heard_of():
    progress = Progress()
    assert progress.is_behind, "nobody knows yet how far the log goes"

    progress.looking()
    assert not progress.is_behind
    progress.heard(Epoch(5))
    assert progress.is_behind
    progress.moved(Epoch(5))
    assert not progress.is_behind


def test_never_moves_backwards():
    progress = Progress()
    progress.moved(Epoch(5))
    progress.moved(Epoch(3))

    assert progress.position == 5


def test_lag_counts_what_is_known_to_be_there():
    progress = Progress()
    progress.heard(Epoch(9))
    progress.heard(BEYOND_ALL)
    progress.moved(Epoch(4))
    assert progress.figures.lag == 5

    progress.moved(Epoch(12))
    assert progress.figures.tip == 12
    assert progress.figures.lag == 0


def test_after_a_failure_it_looks_again():
    progress = Progress()
    progress.looking()

    assert progress.failed() == 1
    assert progress.failed() == 2
    assert progress.is_behind
    progress.published(1, Epoch(1))
    assert progress.went_well()
    assert not progress.went_well(), "that is no news any more"
    assert progress.failed() == 1
    assert progress.figures.failures_total == 3


def test_pauses_double_up_to_a_cap_and_are_spread():
    backoff = Backoff(first_s=1, last_s=5)

    longest = [backoff.pause_s(failures, chance=1) for failures in (1, 2, 3, 4, 10_000)]
    assert longest == [1, 2, 4, 5, 5]
    assert backoff.pause_s(3, chance=0) == 2


@pytest.mark.parametrize("sealed", HISTORY, ids=lambda sealed: sealed.kind)
def test_a_message_says_what_it_holds(sealed):
    message = message_of(sealed)
    headers = dict(message.headers)

    assert message.key == headers["epoch"] == str(sealed.epoch).encode()
    assert bytes.fromhex(headers["hash"].decode()) == sealed.hash
    assert headers["fingerprint"].decode() in documents()
    assert message.value == sealed.payload


def test_a_message_adds_less_than_it_may():
    message = message_of(HISTORY[-1])
    added = len(message.key or b"") + sum(len(name) + len(text) for name, text in message.headers)

    assert added * 2 < OVERHEAD_BYTES_MAX < MESSAGE_BYTES_MAX
