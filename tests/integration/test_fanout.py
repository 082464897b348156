"""From the log in Postgres to a topic in Kafka, over real servers."""

import asyncio
import contextlib
import os
import random
import signal
from contextlib import asynccontextmanager
from io import BytesIO

import fastavro
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from encoding.registry import documents
from log import kafka_consumer
from log.backoff import Backoff, Delay
from log.chain import NO_ENTRIES, tip_of
from log.fanout import Hooks, Limits, PublisherAwayError, Relay
from log.follower import Follower
from log.kafka import BATCH_BYTES_MAX, KafkaPublisher
from log.kafka_consumer import FETCH_BYTES_MAX, consume
from log.kafka_consumer import Hooks as Hearing
from log.kafka_topic import RETENTION_BYTES
from log.messages import Message
from log.notify import listen
from log.postgres import PostgresLog
from log.postgres_positions import PostgresPositions
from log.postgres_sessions import Sessions
from log.replay import Applied
from metadata.epoch import EMPTY, Epoch
from metadata.image import image_of
from services.local.kafka import find, running, start
from services.local.ports import HeldPorts
from services.local.waiting import until
from tests.golden.history import history
from tests.golden.scribe import Scribe
from tests.integration.batches import garbled, snappy, tailed
from transformations.extensions import SetExtension
from transformations.initialize import ForceSnapshot

HISTORY = history().entries
ALL = [sealed.epoch for sealed in HISTORY]
QUICK = Limits(page_entries_max=7, look_every_s=60, backoff=Backoff(first_s=0.02, last_s=0.2))


@pytest.fixture(autouse=True)
async def nothing_is_left():
    """Whatever was started, by us or by the library, has ended with the test."""
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not left, left


@pytest.fixture
async def sessions(database):
    opened = Sessions(database)
    yield opened
    await opened.close()


@pytest.fixture
def log(sessions):
    return PostgresLog(sessions)


@pytest.fixture
def positions(sessions, topic):
    return PostgresPositions(sessions, topic)


@asynccontextmanager
async def doing(*works):
    """Tasks for as long as the block runs; if one fails so does the block."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in works]
        yield
        for task in tasks:
            task.cancel()


@asynccontextmanager
async def publishing(*arguments, **options):
    publisher = KafkaPublisher(*arguments, **options)
    try:
        yield publisher
    finally:
        await publisher.close()


@asynccontextmanager
async def administering(bootstrap):
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


@asynccontextmanager
async def producing(bootstrap):
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def append(log, entries, after=()):
    await log.append(entries, onto=tip_of(after[-1]) if after else NO_ENTRIES)


async def publish_all(log, positions, bootstrap, topic):
    async with publishing(bootstrap, topic=topic) as publisher:
        relay = Relay(log, publisher, positions, limits=QUICK)
        async with doing(relay.run()):
            await stands_at(positions, ALL[-1])


async def stands_at(positions, epoch):
    async with asyncio.timeout(30):
        while await positions.read() < epoch:  # noqa: ASYNC110 the database has no event
            await asyncio.sleep(0.02)


async def everything_in(bootstrap, topic):
    """All messages of the topic, as anybody may read them."""
    place = TopicPartition(topic, 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        end = (await consumer.end_offsets([place]))[place]
        found: list[ConsumerRecord] = []
        async with asyncio.timeout(20):
            while len(found) < end:
                found += (await consumer.getmany(place, timeout_ms=200)).get(place, [])
        return found
    finally:
        await consumer.stop()


async def epochs_in(bootstrap, topic):
    return [int(message.key) for message in await everything_in(bootstrap, topic)]


def epochs_of(messages):
    return [int(message.key) for message in messages]


async def test_entries_arrive_in_order_as_they_are_committed(
    database, log, positions, kafka, topic
):
    heard: list[Message] = []
    delays: list[Delay] = []
    published: list[Epoch] = []
    async with publishing(kafka, topic=topic) as publisher:
        relay = Relay(log, publisher, positions, Hooks(on_published=published.append), QUICK)
        listening = consume(
            kafka, heard.append, topic=topic, hooks=Hearing(on_delayed=delays.append)
        )
        async with doing(relay.run(), listen(database, relay.wake), listening):
            await until(lambda: bool(delays), timeout_s=20)  # there is no topic yet
            for index, sealed in enumerate(HISTORY):
                await append(log, [sealed], after=HISTORY[:index])
            await until(lambda: len(heard) >= len(HISTORY), timeout_s=30)
            await stands_at(positions, ALL[-1])

    assert epochs_of(heard) == ALL
    assert [message.value for message in heard] == [sealed.payload for sealed in HISTORY]
    assert published == sorted(published)
    assert published[-1] == ALL[-1]
    assert relay.figures.lag == 0


async def test_a_crash_before_the_position_is_stored_costs_duplicates_only(
    log, positions, kafka, topic
):
    class CrashError(Exception):
        pass

    class Crashing:
        read = positions.read

        async def advance(self, epoch):
            if epoch > 20:
                raise CrashError
            return await positions.advance(epoch)

    await append(log, HISTORY)
    async with publishing(kafka, topic=topic) as publisher:
        with pytest.raises(CrashError):
            await Relay(log, publisher, Crashing(), limits=QUICK).run()
    assert await positions.read() == 14

    await publish_all(log, positions, kafka, topic)

    assert await epochs_in(kafka, topic) == [*range(1, 22), *range(15, ALL[-1] + 1)]


async def test_relays_at_once_only_repeat_each_other(log, positions, kafka, topic):
    """Also while the topic does not exist: all of them make it."""
    await append(log, HISTORY[:30])
    async with (
        publishing(kafka, topic=topic) as first,
        publishing(kafka, topic=topic) as second,
    ):
        relays = [Relay(log, each, positions, limits=QUICK) for each in (first, second)]
        async with doing(*(relay.run() for relay in relays)):
            await append(log, HISTORY[30:], after=HISTORY[:30])
            for relay in relays:
                relay.wake(ALL[-1])
            await until(lambda: all(r.figures.position == ALL[-1] for r in relays), timeout_s=30)

    found = await epochs_in(kafka, topic)
    assert list(dict.fromkeys(found)) == ALL, "each comes first behind the one before it"
    assert await positions.read() == ALL[-1]


async def test_a_broker_that_is_not_there_yet_is_waited_for(log, positions, topic, tmp_path):
    delays: list[Delay] = []
    with HeldPorts() as ports:
        port = ports.hold()
    await append(log, HISTORY)
    async with publishing(f"127.0.0.1:{port}", topic=topic) as publisher:
        relay = Relay(log, publisher, positions, Hooks(on_delayed=delays.append), QUICK)
        async with doing(relay.run()):
            await until(lambda: len(delays) > 2, timeout_s=10)
            async with running(tmp_path, port) as broker:
                await stands_at(positions, ALL[-1])
                assert await epochs_in(broker.bootstrap, topic) == ALL


async def test_a_broker_that_is_killed_delays_and_loses_nothing(
    database, log, positions, topic, tmp_path, monkeypatch
):
    """Consumers see it through as well: they notice, come back, and go on where they were."""
    monkeypatch.setattr(kafka_consumer, "PROBE_AFTER_S", 0.2)
    monkeypatch.setattr(kafka_consumer, "REQUEST_TIMEOUT_S", 1.0)
    # Several, because what a broker's end leaves of a consumer depends on the moment.
    heard: list[list[Message]] = [[] for _ in range(6)]
    delays: list[list[Delay]] = [[] for _ in heard]
    backs: list[int] = []
    async with running(tmp_path) as broker, publishing(broker.bootstrap, topic=topic) as publisher:
        await publisher.publish(HISTORY[:1])
        relay = Relay(log, publisher, positions, limits=QUICK)
        listening = [
            consume(broker.bootstrap, each.append, topic=topic, hooks=hearing(late, backs))
            for each, late in zip(heard, delays, strict=True)
        ]
        async with doing(relay.run(), listen(database, relay.wake), *listening):
            for each in heard:
                await until_heard(each, lambda: publisher.publish(HISTORY[:1]))
            await append(log, HISTORY[:20])
            await kill(broker, tmp_path)
            await append(log, HISTORY[20:40], after=HISTORY[:20])
            await until(lambda: all(delays), timeout_s=20)
            await start(tmp_path, broker.port)
            await append(log, HISTORY[40:], after=HISTORY[:40])
            await until(lambda: all(ALL[-1] in epochs_of(each) for each in heard), timeout_s=60)
            await stands_at(positions, ALL[-1])

        assert len(backs) >= len(heard), "each is told that the broker is back"
        for each in heard:
            assert list(dict.fromkeys(epochs_of(each))) == ALL
        assert list(dict.fromkeys(await epochs_in(broker.bootstrap, topic))) == ALL


def hearing(delays, backs):
    return Hearing(on_delayed=delays.append, on_back=lambda: backs.append(len(delays)))


async def until_heard(heard, send):
    """Whether somebody listens yet can only be heard: send until then; how often."""
    known, times = len(heard), 0
    async with asyncio.timeout(20):
        while len(heard) == known:
            await send()
            times += 1
            with contextlib.suppress(TimeoutError):
                await until(lambda: len(heard) > known, timeout_s=0.5)
    return times


async def kill(broker, state_dir):
    os.kill(broker.pid, signal.SIGKILL)
    await until(lambda: find(state_dir) is None, timeout_s=10)


async def test_a_broker_that_hangs_holds_nobody_up(topic, tmp_path):
    """Publishing can be given up at any time, leaves no task behind, and can be tried again."""
    async with running(tmp_path) as broker, publishing(broker.bootstrap, topic=topic) as publisher:
        await publisher.publish(HISTORY[:1])
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            left = await left_by(publisher.publish(HISTORY[1:]), given_up_after_s=0.5)
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        assert not left, left
        await publisher.publish(HISTORY[1:])

        assert set(await epochs_in(broker.bootstrap, topic)) == set(ALL)


async def left_by(work, given_up_after_s):
    """The tasks that somebody leaves behind who is cancelled and has ended soon after."""
    before = asyncio.all_tasks()
    task = asyncio.ensure_future(work)
    await asyncio.wait([task], timeout=given_up_after_s)
    task.cancel()
    await asyncio.wait([task], timeout=10)
    assert task.cancelled()
    return asyncio.all_tasks() - before


async def test_a_stranger_decodes_a_message_with_the_published_schema(log, positions, kafka, topic):
    """By Avro's own rules: two bytes of marker, eight of fingerprint, the body."""
    await append(log, HISTORY)
    await publish_all(log, positions, kafka, topic)
    published = documents()

    for message, sealed in zip(await everything_in(kafka, topic), HISTORY, strict=True):
        headers = dict(message.headers)
        body = BytesIO(message.value)
        assert body.read(2) == b"\xc3\x01"
        assert body.read(8).hex() == headers["fingerprint"].decode()
        entry = fastavro.schemaless_reader(body, published[headers["fingerprint"].decode()], None)
        assert body.read() == b""
        assert isinstance(entry, dict)
        assert entry["epoch"] == sealed.epoch == int(headers["epoch"]) == int(message.key)
        assert entry["entry_id"] == sealed.entry_id.bytes
        assert headers["hash"].decode() == sealed.hash.hex()


async def test_the_topic_forgets_by_time_and_by_size(kafka, topic):
    async with publishing(kafka, topic=topic) as publisher:
        await publisher.publish(HISTORY[:1])

    async with administering(kafka) as admin:
        (found,) = await admin.describe_topics([topic])
        assert len(found["partitions"]) == 1
        settings = await settings_of(admin, topic)
    assert settings["cleanup.policy"] == "delete"
    assert settings["retention.bytes"] == str(RETENTION_BYTES)
    assert settings["retention.ms"] == "604800000"
    assert settings["min.insync.replicas"] == "1"
    assert int(settings["max.message.bytes"]) > 16 * 1024 * 1024


async def settings_of(admin, topic):
    (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    ((_, _, _, _, found),) = answer.resources
    return {name: value for name, value, *_ in found}


def forced(extensions):
    """An entry that holds so many extensions of 60 kB, which no codec makes smaller."""
    scribe, pick = Scribe(history().applied), random.Random(extensions)
    for number in range(extensions):
        scribe.commit(SetExtension(name=f"large{number}", value=pick.randbytes(30_000).hex()))
    before = Applied(scribe.metadata, scribe.hash)
    scribe.commit(ForceSnapshot(image=image_of(scribe.metadata)))
    return before, scribe.entries[-1]


@pytest.mark.parametrize(
    ("extensions", "more_than"), [(1, 0), (9, BATCH_BYTES_MAX), (140, FETCH_BYTES_MAX)]
)
async def test_an_entry_of_any_size_arrives(kafka, topic, extensions, more_than):
    """Also one that is larger than a batch, or than what a consumer fetches at a time."""
    before, sealed = forced(extensions)
    assert len(sealed.payload) > more_than
    heard: list[Message] = []
    delays: list[Delay] = []
    async with doing(
        consume(kafka, heard.append, topic=topic, hooks=Hearing(on_delayed=delays.append))
    ):
        await until(lambda: bool(delays), timeout_s=20)
        async with publishing(kafka, topic=topic) as publisher:
            await publisher.publish([sealed])
            await until(lambda: len(heard) == 1, timeout_s=20)

    assert heard[0].value == sealed.payload
    follower = Follower(before, cluster=before.metadata.cluster.id)
    assert follower.hear(heard[0]) is None
    assert [step.sealed.hash for step in follower.advance()] == [sealed.hash]


async def test_an_entry_that_the_topic_does_not_take_is_left_out(kafka, topic):
    """Somebody made the topic with a limit of their own; followers fetch the entry elsewhere."""
    async with administering(kafka) as admin:
        await admin.create_topics(
            [NewTopic(topic, 1, 1, topic_configs={"max.message.bytes": "1600"})]
        )
    skipped = []

    async with publishing(kafka, topic=topic, on_skipped=lambda *each: skipped.append(each)) as to:
        await to.publish(HISTORY)

    large = [sealed for sealed in HISTORY if len(sealed.payload) > 1600 - 1024]
    assert skipped == [(sealed.epoch, len(sealed.payload)) for sealed in large]
    assert skipped
    left = [epoch for epoch in ALL if epoch not in dict(skipped)]
    assert await epochs_in(kafka, topic) == left


async def test_listening_begins_at_the_end_and_takes_messages_as_they_are(kafka, topic):
    heard: list[Message] = []
    async with publishing(kafka, topic=topic) as publisher, producing(kafka) as stranger:
        await publisher.publish(HISTORY[:3])
        async with doing(consume(kafka, heard.append, topic=topic)):
            empty = (topic, None, b"", 0, None, [("a", b"\xff")])
            await until_heard(heard, lambda: stranger.send_and_wait(*empty))

    assert heard[0] == Message(b"", None, (("a", b"\xff"),))
    assert HISTORY[0].payload not in {message.value for message in heard}


@pytest.mark.parametrize("spoiled", [garbled, snappy, tailed])
async def test_what_cannot_be_read_is_passed_over(kafka, topic, spoiled):
    """Nobody is away, so nobody is waited for; in a topic that somebody else made."""
    heard: list[Message] = []
    delays: list[Delay] = []
    unread: list[Exception] = []
    hooks = Hearing(on_delayed=delays.append, on_unreadable=unread.append)
    async with administering(kafka) as admin:
        await admin.create_topics([NewTopic(topic, 1, 1)])
    async with (
        publishing(kafka, topic=topic) as publisher,
        producing(kafka) as stranger,
        doing(consume(kafka, heard.append, topic=topic, hooks=hooks)),
    ):
        await until_heard(heard, lambda: publisher.publish(HISTORY[:1]))
        batch = spoiled(stranger.create_batch())
        await (await stranger.send_batch(batch, topic, partition=0))
        await until(lambda: bool(unread), timeout_s=20)
        await until_heard(heard, lambda: publisher.publish(HISTORY[3:4]))

    assert heard[-1].value == HISTORY[3].payload
    assert len(unread) == 1
    assert not delays


async def test_in_a_topic_of_ours_no_codec_is_foreign(kafka, topic):
    heard: list[Message] = []
    async with publishing(kafka, topic=topic) as publisher, producing(kafka) as stranger:
        await publisher.publish(HISTORY[:1])
        async with doing(consume(kafka, heard.append, topic=topic)):
            await until_heard(heard, lambda: publisher.publish(HISTORY[:1]))
            batch = snappy(stranger.create_batch())
            await (await stranger.send_batch(batch, topic, partition=0))
            await until(lambda: heard[-1].key == b"k", timeout_s=20)

    assert heard[-1].value == b"v"


async def test_a_position_never_moves_backwards(positions):
    assert await positions.read() == EMPTY
    assert await positions.advance(Epoch(5)) == 5
    assert await positions.advance(Epoch(3)) == 5
    assert await positions.read() == 5


async def test_nobody_there_is_said_at_once():
    with HeldPorts() as ports:
        async with publishing(f"127.0.0.1:{ports.hold()}") as publisher, asyncio.timeout(5):
            with pytest.raises(PublisherAwayError):
                await publisher.publish(HISTORY[:1])
