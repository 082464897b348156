"""The front door: the command, connecting, following, the Spark data source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # At run time they come with the first call, so that `ringlog --help` stays quick.
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from client.blocking import Connecting
    from client.embedded import EmbeddedFollower
    from client.patience import Patience
    from log.shared_replay import SharedReplay
    from ringlog.spark import Session


def connect(url: str | Sequence[str], token: str | None = None) -> Connecting:
    """A cluster, by one or several addresses of its CMS processes.

        with ringlog.connect("http://127.0.0.1:7400") as cluster:
            cluster.commit({"kind": "SetExtension", "name": "motd", "value": "hello"})

    In a coroutine write `async with` and `await`; in a notebook, `connect(…).open()`.
    """
    from client.blocking import Connecting
    from client.client import Client

    return Connecting(lambda: Client(url, token))


def follow(
    url: str | Sequence[str],
    token: str | None = None,
    *,
    directory: Path | None = None,
    patience: Patience | None = None,
    replay: SharedReplay | None = None,
) -> AbstractAsyncContextManager[EmbeddedFollower]:
    """The cluster's metadata, kept current in this process.

        async with ringlog.follow("http://127.0.0.1:7400") as cluster:
            cluster.listen(lambda change: print(change.metadata.epoch, change.components))
            ...
            owners = cluster.metadata.placements

    With a `directory` it keeps its own copy of the log there and can start while no CMS answers.
    `patience` is how long to try before the first contact. A process with many followers gives
    them one `replay`, and each entry is applied once for all.
    """
    from client.patience import ORDINARY
    from ringlog.following import following

    urls = [url] if isinstance(url, str) else url
    return following(urls, token, directory, patience or ORDINARY, replay)


def register_spark_source(spark: Session) -> None:
    """Let Spark read archives and running clusters as tables, and follow them as streams.

        ringlog.register_spark_source(spark)
        spark.read.format("ringlog").option("table", "nodes").load("backup/").show()

    What it can be asked is in docs/guides/spark-source.md.
    """
    from ringlog.spark import register

    register(spark)
