"""A broker that wants to know who comes, for publisher, admin and consumer."""

import pytest

from log.backoff import Delay
from log.fanout import PublisherAwayError
from log.kafka import KafkaPublisher
from log.kafka_access import Access, Login, Mechanism, Security
from log.kafka_consumer import Hooks, consume
from log.messages import Message
from services.local.kafka import running
from services.local.kafka_files import ADDRESS, Files
from services.local.ports import HeldPorts
from services.local.waiting import until
from tests.golden.history import history
from tests.integration.test_fanout import doing, until_heard

HISTORY = history().entries
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture
async def guarded(tmp_path, monkeypatch):
    """A broker of our own with a second listener, which lets in one user; where that one is."""
    write = Files.write_settings
    with HeldPorts() as ports:
        own = f"{ADDRESS}:{ports.hold()}"

    def guard(files, *, port, controller_port):
        write(files, port=port, controller_port=controller_port)
        plain, controller = f"{ADDRESS}:{port}", f"{ADDRESS}:{controller_port}"
        more = {
            "listeners": f"PLAINTEXT://{plain},GUARDED://{own},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{plain},GUARDED://{own}",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,GUARDED:SASL_PLAINTEXT"
            ),
            "listener.name.guarded.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.guarded.plain.sasl.jaas.config": (
                f'{MODULE} required user_ringlog="secret";'
            ),
        }
        with files.settings.open("a", encoding="utf-8") as settings:
            settings.writelines(f"{name}={value}\n" for name, value in more.items())

    monkeypatch.setattr(Files, "write_settings", guard)
    async with running(tmp_path):
        yield own


def access(password):
    login = Login(mechanism=Mechanism.PLAIN, user="ringlog", password=password)
    return Access(security=Security.SASL_PLAINTEXT, login=login)


async def test_who_is_known_publishes_and_listens_and_nobody_else(guarded, topic):
    heard: list[Message] = []
    delays: list[Delay] = []
    stranger = KafkaPublisher(guarded, topic=topic, access=access("guessed"))
    with pytest.raises(PublisherAwayError):
        await stranger.publish(HISTORY[:1])
    publisher = KafkaPublisher(guarded, topic=topic, access=access("secret"))
    try:
        await publisher.publish(HISTORY[:1])
        async with doing(
            consume(guarded, heard.append, topic=topic, access=access("secret")),
            consume(guarded, heard.append, topic=topic, hooks=Hooks(on_delayed=delays.append)),
        ):
            await until_heard(heard, lambda: publisher.publish(HISTORY[:1]))
            await until(lambda: bool(delays), timeout_s=20)
    finally:
        await publisher.close()

    assert {message.value for message in heard} == {HISTORY[0].payload}
