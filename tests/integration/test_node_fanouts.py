"""A node that hears of entries by Kafka and by NOTIFY: either one is enough, both are no harm."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest

from client.standing import State
from log.kafka_access import Brokers
from log.postgres_sessions import Sessions
from metadata.epoch import Epoch
from services.cms.relaying import relay_to
from services.local.waiting import until
from tests.integration.nodes import TIMEOUT_S, Told, house, known, node, same

NOBODY = "127.0.0.1:1"
ROADS = {
    "both": {},
    "only Kafka": {"dsn": f"postgresql://nobody@{NOBODY}/none"},
    "only NOTIFY": {"kafka": NOBODY},
}
"""What of its settings leads nowhere."""


@pytest.fixture
async def home(database, tmp_path):
    async with house(database, tmp_path) as made:
        yield made


@asynccontextmanager
async def relaying(home, bootstrap, topic):
    """As the CMS does that sequences."""
    sessions = Sessions(home.dsn)
    async with (
        relay_to(
            Brokers(bootstrap),
            topic,
            sessions,
            recent_after=home.engine.recent_after,
            is_sequencing=lambda: True,
            on_published=lambda _: None,
        ) as relay,
        asyncio.TaskGroup() as group,
    ):
        task = group.create_task(relay.run())
        yield relay
        task.cancel()
    await sessions.close()


async def fanned_out(home, relay, subject):
    """Commit until one of them came without being asked for: listening takes a moment to begin."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            tip = await home.commit_many(3)
            relay.wake(Epoch(tip))
            if await subject.engine.reached(Epoch(tip), 0.5):
                return


@pytest.mark.parametrize("roads", ROADS)
async def test_a_node_with_both_lives_by_either(home, kafka, topic, roads, monkeypatch):
    """The log itself is asked at the start, and then where there is a gap."""
    monkeypatch.setattr("client.asking.CHECK_EVERY_S", 3600.0)
    plain = home.settings("node-1", notify=True, kafka=kafka, topic=topic)
    told = Told()
    async with (
        relaying(home, kafka, topic) as relay,
        node(msgspec.structs.replace(plain, **ROADS[roads])) as subject,
    ):
        subject.listeners.add(told)
        await known(subject)
        await until(subject.engine.following.in_touch.is_set, timeout_s=TIMEOUT_S)
        await same(subject, home.applied)
        for _ in range(3):
            await fanned_out(home, relay, subject)
        await same(subject, home.applied)
        assert subject.engine.following.standing.state is State.FOLLOWING
        assert not subject.engine.following.follower.faults

    epochs = [change.metadata.epoch for change in told.changes]
    assert epochs == sorted(set(epochs))
