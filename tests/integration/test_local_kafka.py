"""Apache Kafka from its own jars, in one state directory."""

import asyncio
import os
import shutil
import signal
import socket
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from services.local import kafka, kafka_process
from services.local.failure import LocalServerError
from services.local.kafka import find, running, start, stop
from services.local.kafka_files import files_in
from services.local.kafka_jars import default_cache, jars
from services.local.kafka_process import brokers
from services.local.marked import end_marked, marked
from services.local.waiting import until


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory):
    """One folder for all tests, so that the data is made once."""
    return tmp_path_factory.mktemp("kafka").resolve()


@asynccontextmanager
async def client(made):
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def create(bootstrap, topic):
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
    finally:
        await admin.close()


async def send(bootstrap, topic, value):
    async with client(AIOKafkaProducer(bootstrap_servers=bootstrap)) as producer:
        await producer.send_and_wait(topic, value)


async def first_of(bootstrap, topic, **options):
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", **options
    )
    async with client(consumer), asyncio.timeout(20):
        message = await consumer.getone()
        if options:
            await consumer.commit()
        return message.value


async def test_a_killed_broker_goes_on_with_its_data_at_its_port(state_dir, topic):
    async with running(state_dir) as first:
        await create(first.bootstrap, topic)
        await send(first.bootstrap, topic, b"kept")
        os.kill(first.pid, signal.SIGKILL)
        await until(lambda: find(state_dir) is None, timeout_s=10)

        second = await start(state_dir, first.port)

        assert second.pid != first.pid
        assert second.bootstrap == first.bootstrap
        assert await first_of(second.bootstrap, topic) == b"kept"


async def test_serves_consumer_groups(state_dir, topic):
    """A group remembers where it was, which needs a topic of the broker's own."""
    async with running(state_dir) as server:
        await create(server.bootstrap, topic)
        await send(server.bootstrap, topic, b"one")
        await send(server.bootstrap, topic, b"two")
        group = {"group_id": topic, "enable_auto_commit": False, "max_poll_records": 1}

        assert await first_of(server.bootstrap, topic, **group) == b"one"
        assert await first_of(server.bootstrap, topic, **group) == b"two"


async def test_a_second_start_adopts_the_broker(state_dir):
    async with running(state_dir) as first:
        assert await start(state_dir) == first
        assert await start(state_dir, first.port + 1) == first
        assert find(state_dir) == first
        assert len(brokers(files_in(state_dir).home)) == 1
        assert set(addresses_of(first.pid)) == {"0100007F"}, "the loopback address only"


async def test_stop_leaves_no_process(state_dir):
    server = await start(state_dir)
    assert marked(state_dir) == [server.pid], "whoever cleans up finds it too"

    await stop(state_dir)

    await until(lambda: has_ended(server.pid), timeout_s=5)
    assert find(state_dir) is None
    await stop(state_dir)


async def test_whoever_cleans_up_after_a_dead_supervisor_ends_it(state_dir):
    server = await start(state_dir)

    await end_marked(state_dir)

    await until(lambda: has_ended(server.pid), timeout_s=5)


def has_ended(pid):
    return not Path(f"/proc/{pid}").exists()


def addresses_of(pid):
    """Local addresses, in the kernel's hexadecimal, that the process listens at."""
    links = (link.readlink() for link in Path(f"/proc/{pid}/fd").iterdir())
    inodes = {name[8:-1] for name in map(str, links) if name.startswith("socket:[")}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            row = line.split()
            if row[3] == "0A" and row[9] in inodes:
                yield row[1].partition(":")[0]


async def test_says_that_a_port_is_taken(state_dir, monkeypatch):
    monkeypatch.setattr(kafka, "PORT_TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(LocalServerError, match=f"Port {port} cannot be used"):
            await start(state_dir, port)


async def test_says_why_it_does_not_start(tmp_path):
    """And an unfinished data directory is no obstacle."""
    files = files_in(tmp_path)
    (files.home / "unfinished-1").mkdir(parents=True)
    async with running(tmp_path):
        pass
    (files.data / "meta.properties").unlink()

    with pytest.raises(LocalServerError, match=r"kafka\.log: .*meta\.properties"):
        await start(tmp_path)


async def test_says_that_java_is_missing(state_dir, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")

    with pytest.raises(LocalServerError, match="install Java 17"):
        await start(state_dir)


async def copied(folder):
    """What a registry would answer."""
    for path in (await jars(default_cache())).iterdir():
        shutil.copy(path, folder)


async def test_jars_are_fetched_once(tmp_path):
    fetched = []

    async def retrieve(folder):
        fetched.append(folder)
        await copied(folder)

    found = await asyncio.gather(*(jars(tmp_path, retrieve) for _ in range(4)))

    assert len(fetched) == 1
    assert set(found) == {tmp_path / "kafka-4.1.0"}
    assert [path.name for path in tmp_path.iterdir()] == ["kafka-4.1.0"]


async def test_a_jar_with_another_checksum_is_refused(tmp_path):
    async def retrieve(folder):
        await copied(folder)
        jar = folder / "kafka_2.13-4.1.0.jar"
        damaged = bytearray(jar.read_bytes())
        damaged[1000] ^= 1
        jar.write_bytes(damaged)

    with pytest.raises(LocalServerError, match=r"kafka_2\.13-4\.1\.0\.jar .* checksum"):
        await jars(tmp_path, retrieve)
    assert list(tmp_path.iterdir()) == []


async def test_a_jar_more_or_less_is_refused(tmp_path):
    async def retrieve(folder):
        await copied(folder)
        (folder / "lz4-java-1.8.0.jar").rename(folder / "lz4-java-1.8.1.jar")

    with pytest.raises(LocalServerError, match=r"lz4-java-1\.8\.0\.jar, lz4-java-1\.8\.1\.jar"):
        await jars(tmp_path, retrieve)


async def test_what_an_interrupted_fetch_left_is_fetched_again(tmp_path):
    arrived = asyncio.Event()

    async def interrupted(folder):
        (folder / "half.jar").touch()
        arrived.set()
        await asyncio.Event().wait()

    (tmp_path / "kafka-4.1.0.unfinished-dead").mkdir()
    fetching = asyncio.ensure_future(jars(tmp_path, interrupted))
    await arrived.wait()
    fetching.cancel()
    await asyncio.wait([fetching])

    folder = await jars(tmp_path, copied)
    (folder / "snakeyaml-2.4.jar").unlink()
    assert await jars(tmp_path, copied) == folder

    assert (folder / "snakeyaml-2.4.jar").exists()
    assert list(tmp_path.iterdir()) == [folder]


async def test_find_waits_for_nothing(state_dir):
    """A broker that is still coming up takes no connections."""
    starting = asyncio.ensure_future(start(state_dir))
    try:
        await until(lambda: bool(brokers(files_in(state_dir).home)), timeout_s=20)
        assert find(state_dir) is None
        assert find(state_dir.parent) is None

        assert await starting == find(state_dir)
    finally:
        await stop(state_dir)


async def test_a_broker_that_hangs_is_stopped_too(state_dir, monkeypatch):
    """A stopped process hears nothing; the last signal needs no hearing."""
    (asked, _), forced = kafka_process._ENDINGS
    monkeypatch.setattr(kafka_process, "_ENDINGS", ((asked, 0.5), forced))
    server = await start(state_dir)
    os.kill(server.pid, signal.SIGSTOP)

    async with asyncio.timeout(30):
        await stop(state_dir)

    await until(lambda: has_ended(server.pid), timeout_s=5)
