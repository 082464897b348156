"""What a driver needs of the world around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Listed
from typing import Protocol

import msgspec

from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.receipts import Receipt
from metadata.sequences import Sequence
from metadata.sessions import Session
from transformations.kinds import AnyTransformation


class Refused(msgspec.Struct, frozen=True):
    """The log said no; `detail` says why."""

    code: str
    detail: str


class WorkError(Exception):
    """Something could not be done now. The text is a sentence that names what is missing.

    `nodes` are those that it failed on, where that is known.
    """

    def __init__(self, sentence: str, nodes: Iterable[NodeId] = ()) -> None:
        super().__init__(sentence)
        self.nodes = tuple(nodes)


class Cluster(Protocol):
    """The log, as a follower and as a committer."""

    @property
    def metadata(self) -> ClusterMetadata: ...

    async def beyond(self, epoch: Epoch, timeout_s: float) -> None:
        """Until something newer is applied here, or the time is up."""
        ...

    async def commit(self, transformation: AnyTransformation, reason: str) -> Epoch | Refused:
        """Decide and append; the metadata here is at least as new as the answer.

        An outcome that nobody knows is a `WorkError`: look at the metadata again.
        """
        ...


Observe = Callable[[NodeId, Epoch], bool]
"""Told how far a node is; true once nobody else need be asked."""


class Watermarks(Protocol):
    async def observe(
        self, nodes: Iterable[NodeId], epoch: Epoch, timeout_s: float, told: Observe
    ) -> None:
        """Ask these nodes how far they are, waiting a little for those not at `epoch` yet.

        A node has applied an epoch when nothing that it admitted under an older one still runs.
        Of those who do not answer nothing is told. Ends when all did, or enough.
        """
        ...


class Mover(Protocol):
    """Copies the ranges of a sequence. Safe to repeat, and to cancel at any moment."""

    async def move(self, metadata: ClusterMetadata, sequence: Sequence) -> Listed[Receipt]: ...

    async def sweep(self, sequence: Sequence) -> None:
        """Remove whatever a movement left that will not be needed any more."""
        ...


class Cleaner(Protocol):
    async def clean(self, session: Session, node: NodeId) -> None:
        """Have a node delete what it does not own of the session's ranges."""
        ...


class Repairer(Protocol):
    async def repair(self, metadata: ClusterMetadata, session: Session) -> None:
        """Bring what any owner of the session's ranges has to all of them. Safe to repeat."""
        ...
