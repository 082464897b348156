"""The roads by which entries reach a node, and who its neighbours are."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any

import structlog

from client.following import Following
from client.standing import Standing
from log.backoff import Delay
from log.follower import Fault, Follower
from log.kafka_consumer import Hooks, consume
from log.listeners import Change, Listener
from log.messages import TOPIC
from log.notify import bring
from log.sequencer import BEYOND_ALL
from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId, NodeState
from metadata.epoch import Epoch
from services.node.metrics import NodeMetrics
from services.notices import notify_turned
from services.settings import NodeSettings

logger = structlog.get_logger()

ADDRESS_NAME = "http"
"""Under which name the directory keeps where a node's HTTP is."""


def fan_out(settings: NodeSettings, following: Following) -> Iterator[Coroutine[Any, Any, None]]:
    """What has to run so that entries come without asking."""
    if settings.kafka is not None:
        topic = settings.topic or TOPIC
        hooks = Hooks(
            on_delayed=_kafka_away,
            on_back=_kafka_back,
            on_unreadable=lambda error: _kafka_unreadable(following, error),
        )
        yield consume(
            settings.kafka,
            following.hear,
            topic=topic,
            hooks=hooks,
            access=settings.kafka_access,
        )
    if settings.dsn is not None:
        yield bring(
            settings.dsn,
            lambda: following.follower.applied.metadata.epoch,
            following.hear,
            lambda tip: _heard_of(following, tip),
            on_turn=notify_turned,
        )


def neighbours(metadata: ClusterMetadata, own: NodeId | None) -> dict[NodeId, str]:
    """The other nodes, and where they answer."""
    return {
        node.id: f"http://{node.addresses[ADDRESS_NAME]}"
        for node in metadata.directory.nodes.values()
        if node.id != own and node.state is not NodeState.LEFT and ADDRESS_NAME in node.addresses
    }


def cms_urls(metadata: ClusterMetadata) -> list[str]:
    """Where the address book in the metadata says that CMS processes answer."""
    return [member.url for _, member in sorted(metadata.cms.members.items())]


class NodeNotices:
    """One line in the log for each turn that the following takes."""

    def __init__(self, metrics: NodeMetrics, follower: Follower) -> None:
        self._metrics = metrics
        self._follower = follower

    def stands(self, standing: Standing) -> None:
        level = logger.info if standing.is_trusted else logger.error
        level("standing", state=standing.state.value, detail=standing.detail)

    def jumped(self, before: Epoch, to: Epoch) -> None:
        self._metrics.jumps += 1
        logger.info("jumped", epoch=to, before=before)

    def disbelieved(self, fault: Fault) -> None:
        last = self._follower.disbelieved[fault]
        known = {} if last.epoch is None else {"epoch": last.epoch}
        logger.warning("disbelieved", fault=fault.value, source=last.source.value, **known)

    def listener_failed(self, listener: Listener, error: Exception) -> None:
        self._metrics.listener_failures += 1
        logger.error("listener_failed", listener=repr(listener), error=repr(error))


def log_change(change: Change) -> None:
    found = change.metadata
    logger.info(
        "applied",
        epoch=found.epoch,
        digest=found.digest.hex(),
        changed=sorted(change.components),
        jump=change.is_jump,
    )


def report_damage(epoch: Epoch, fault: str) -> None:
    """Something of the node's own copy cannot be used; the log has it."""
    logger.error("copy_damaged", epoch=epoch, fault=fault)


def _heard_of(following: Following, tip: Epoch) -> None:
    # Now and then `bring` only says that it is there; the follower looks by itself.
    if tip != BEYOND_ALL:
        following.hear_of(tip)


def _kafka_away(delay: Delay) -> None:
    if delay.failures == 1:
        logger.warning("kafka_away", error=repr(delay.error))


def _kafka_back() -> None:
    logger.info("kafka_back")


def _kafka_unreadable(following: Following, error: Exception) -> None:
    # Counted every time, told the first time, as faults are.
    if not following.follower.faults[Fault.UNREADABLE]:
        logger.warning("kafka_unreadable", error=repr(error))
    following.follower.refuse_fan_out()
