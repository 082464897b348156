"""The front door: the command, connecting, the Spark data source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # At run time they come with the first call, so that `ringlog --help` stays quick.
    from client.blocking import Connecting


def connect(url: str | Sequence[str], token: str | None = None) -> Connecting:
    """A cluster, by one or several addresses of its CMS processes.

        with ringlog.connect("http://127.0.0.1:7400") as cluster:
            cluster.commit({"kind": "SetExtension", "name": "motd", "value": "hello"})

    In a coroutine write `async with` and `await`; in a notebook, `connect(…).open()`.
    """
    from client.blocking import Connecting
    from client.client import Client

    return Connecting(lambda: Client(url, token))
