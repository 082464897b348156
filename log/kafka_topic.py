"""The topic itself, and what its publisher and its consumers have in common."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaConnectionError, KafkaError, TopicAlreadyExistsError, for_code

from log.kafka_access import OPEN, Access
from log.messages import MESSAGE_BYTES_MAX, OVERHEAD_BYTES_MAX

REQUEST_TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 2.0

REPLICAS_MAX = 3
RETENTION_S = 7 * 24 * 3600
RETENTION_BYTES = 1024 * 1024 * 1024
SEGMENT_BYTES = 64 * 1024 * 1024

AWAY = (KafkaError, OSError, TimeoutError)


async def ensured(bootstrap: str, topic: str, access: Access = OPEN) -> int:
    """Make the topic if there is none; the bytes of the largest payload that it takes."""
    admin = AIOKafkaAdminClient(
        bootstrap_servers=bootstrap,
        request_timeout_ms=milliseconds(REQUEST_TIMEOUT_S),
        **access.options(),
    )
    try:
        await admin.start()
        is_new = topic not in await admin.list_topics() and await _created(admin, topic)
        # A new one is not described at once.
        size_bytes = MESSAGE_BYTES_MAX if is_new else await _message_bytes_max(admin, topic)
        return size_bytes - OVERHEAD_BYTES_MAX
    finally:
        await closed(admin.close())


async def _created(admin: AIOKafkaAdminClient, topic: str) -> bool:
    """False where another relay was quicker."""
    cluster = await admin.describe_cluster()
    if not cluster["brokers"] or cluster["controller_id"] < 0:
        raise KafkaConnectionError("the cluster is still coming up")
    replicas = min(len(cluster["brokers"]), REPLICAS_MAX)
    settings = {
        "cleanup.policy": "delete",
        "retention.ms": str(milliseconds(RETENTION_S)),
        "retention.bytes": str(RETENTION_BYTES),
        "segment.bytes": str(SEGMENT_BYTES),
        "max.message.bytes": str(MESSAGE_BYTES_MAX),
        # Consumers need no library for what a stranger compressed: the broker unpacks it.
        "compression.type": "uncompressed",
        # One of three may be away.
        "min.insync.replicas": str(max(1, replicas - 1)),
    }
    wanted = NewTopic(topic, num_partitions=1, replication_factor=replicas, topic_configs=settings)
    answer = await admin.create_topics([wanted])
    ((_, code, *_),) = answer.topic_errors
    if code and for_code(code) is not TopicAlreadyExistsError:
        raise for_code(code)(topic)
    return not code


async def _message_bytes_max(admin: AIOKafkaAdminClient, topic: str) -> int:
    name = "max.message.bytes"
    asked = ConfigResource(ConfigResourceType.TOPIC, topic, configs={name: None})
    (answer,) = await admin.describe_configs([asked])
    for code, _, _, _, found in answer.resources:
        if code:
            raise for_code(code)(topic)
        for setting, value, *_ in found:
            if setting == name:
                return int(value)
    raise KafkaError(f"the broker does not say what {name} of {topic} is")


async def closed(closing: Awaitable[None]) -> None:
    """Let the library close something, for a while, and whatever it then says.

    Where a broker went away in the middle it may even say that it was cancelled, and nobody did.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await asyncio.gather(closing, return_exceptions=True)


def quieten() -> None:
    """The library reports each attempt to reach a broker; we report delays ourselves."""
    logger = logging.getLogger("aiokafka")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
