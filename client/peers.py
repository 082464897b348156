"""Asking other nodes for entries first, which spares the CMS most of the catching up."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import aiohttp

from client.connection import OK
from client.errors import CorruptEntryError
from client.pages import Page, page_in, page_request
from client.transport import LostError, ask
from log.replay import Applied
from metadata.directory import NodeId

PEER_TIMEOUT_S = 1.0
PEER_ANSWER_BYTES_MAX = 32 * 1024 * 1024
"""A page of true entries is far smaller; what is larger is for the log itself to say."""
PENALTY_S = 10.0
MEANT_FOR = "Ringlog-To"
"""Which node a message is for; any other one refuses it."""


class Peers:
    """Asks one of the other nodes at a time; one that fails is left alone for a while.

    `addresses` are those of the nodes that the metadata at hand names, without this one.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        addresses: Callable[[], Mapping[NodeId, str]],
        clock: Callable[[], float],
    ) -> None:
        self._session = session
        self._addresses = addresses
        self._clock = clock
        self._left_alone_until: dict[NodeId, float] = {}
        self._random = random.Random()  # noqa: S311 spreads load, guards nothing

    async def page(self, applied: Applied) -> Page | None:
        """What one of them has behind `applied`, or None where nobody helps.

        A peer that is not ahead, has trimmed the entries or holds another history is no help:
        what is true is for the log to say. One whose answer cannot be is a `CorruptEntryError`.
        """
        node = self._chosen()
        if node is None:
            return None
        url = self._addresses()[node]
        until_s = self._clock() + PENALTY_S
        request = page_request(applied, headers={MEANT_FOR: str(node)})
        try:
            answer = await ask(
                self._session,
                url,
                request,
                timeout_s=PEER_TIMEOUT_S,
                bytes_max=PEER_ANSWER_BYTES_MAX,
            )
            page = page_in(answer.body, applied) if answer.status == OK else None
        except LostError:
            page = None
        except CorruptEntryError:
            self._left_alone_until[node] = until_s
            raise
        if page is None or not page.entries or page.snapshot is not None:
            self._left_alone_until[node] = until_s
            return None
        return page

    def _chosen(self) -> NodeId | None:
        now = self._clock()
        known = self._addresses()
        self._left_alone_until = {
            node: until
            for node, until in self._left_alone_until.items()
            if until > now and node in known
        }
        free = sorted(known.keys() - self._left_alone_until.keys())
        return self._random.choice(free) if free else None
