"""What a follower may believe: the rule by which arrivals become metadata, without the waiting."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum

import msgspec

from encoding.entries import peek
from encoding.errors import DecodeError
from log.chain import HASH_BYTES, seal_payload
from log.entry import SealedEntry
from log.messages import Message
from log.reorder import DEFAULT_ROOM, ReorderBuffer, Room
from log.replay import Applied, ReplayError, apply
from metadata.cluster import ClusterId
from metadata.epoch import Epoch, following

DIGITS_MAX = 16

Apply = Callable[[SealedEntry, Applied], Applied]
"""What one entry leads to, or a `ReplayError`; followers in one process may share the work."""

_HASH = re.compile(rb"[0-9a-f]{%d}" % (2 * HASH_BYTES))


class Fault(StrEnum):
    """Why something that arrived was not believed; part of the metrics."""

    UNREADABLE = "unreadable"
    WRONG_CLUSTER = "wrong_cluster"
    WRONG_EPOCH = "wrong_epoch"
    WRONG_HASH = "wrong_hash"
    FROM_THE_FUTURE = "from_the_future"
    NOT_APPLICABLE = "not_applicable"
    LYING_PEER = "lying_peer"


class Source(StrEnum):
    FAN_OUT = "fan_out"
    PEER = "peer"


class Disbelieved(msgspec.Struct, frozen=True):
    """Who brought something that was not true, and for which epoch where it said so."""

    source: Source
    epoch: Epoch | None


class FannedOut(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as fan-out brought it. Nothing of it is known to be true."""

    epoch: Epoch
    payload: bytes
    hash: bytes


def fanned_out(message: Message) -> FannedOut | None:
    """What a message claims to be; None if not even that can be read."""
    headers = dict(message.headers)
    # Whoever wrote it may have given a header no value.
    epoch, entry_hash = headers.get("epoch") or b"", headers.get("hash") or b""
    if message.value is None or not epoch.isdigit() or len(epoch) > DIGITS_MAX:
        return None
    if _HASH.fullmatch(entry_hash) is None:
        return None
    return FannedOut(
        epoch=Epoch(int(epoch)),
        payload=message.value,
        hash=bytes.fromhex(entry_hash.decode("ascii")),
    )


class Step(msgspec.Struct, frozen=True):
    """One entry further: the entry, and what it led to."""

    sealed: SealedEntry
    applied: Applied


class Follower:
    """Goes from version to version, never to a wrong one.

    Only what the log itself answers is believed to be in the log. What fan-out or a peer brings
    is applied if it continues the chain, decides what it says and leads to its digest; anything
    else is counted, dropped, and asked for at the log. An entry of the log that cannot be applied
    is a `ReplayError`: then this process is wrong, or the log is, and going on would hide it.
    """

    def __init__(
        self,
        applied: Applied,
        *,
        cluster: ClusterId,
        room: Room = DEFAULT_ROOM,
        apply: Apply = apply,
    ) -> None:
        self.applied = applied
        self._apply_to = apply
        self.faults: Counter[Fault] = Counter()
        self.disbelieved: dict[Fault, Disbelieved] = {}
        self._cluster = cluster
        self._buffer: ReorderBuffer[FannedOut] = ReorderBuffer(applied.metadata.epoch, room)

    @property
    def missing_from(self) -> Epoch | None:
        return self._buffer.missing_from

    @property
    def heard_of(self) -> Epoch:
        """The newest epoch that anybody spoke of; it may not exist."""
        return self._buffer.newest

    def hear_of(self, tip: Epoch) -> None:
        """There may be entries up to here."""
        self._buffer.hear_of(tip)

    def hear(self, message: Message) -> Fault | None:
        """Keep what fan-out brought until it is next in line; a fault if it never can be."""
        arrival = fanned_out(message)
        if arrival is None:
            return self._count(Fault.UNREADABLE)
        try:
            heading = peek(arrival.payload)
        except DecodeError:
            return self._count(Fault.UNREADABLE, arrival.epoch)
        if heading.cluster != self._cluster:
            return self._count(Fault.WRONG_CLUSTER, arrival.epoch)
        if heading.epoch != arrival.epoch:
            return self._count(Fault.WRONG_EPOCH, arrival.epoch)
        self._buffer.push(arrival)
        return None

    def advance(self) -> list[Step]:
        """Apply what is next in line, for as long as it can be believed."""
        steps: list[Step] = []
        while (arrival := self._buffer.next_in_line) is not None:
            sealed = seal_payload(arrival.payload, self.applied.hash)
            if sealed.hash != arrival.hash:
                self._refuse(Fault.WRONG_HASH)
                continue
            try:
                steps.append(self._apply(sealed))
            except ReplayError:
                self._refuse(Fault.NOT_APPLICABLE)
        return steps

    def take(self, entries: Iterable[SealedEntry]) -> list[Step]:
        """Apply what the log answered; entries that are applied already are passed over.

        Where one cannot be applied those before it come first: it is an error when it is asked
        for again, and nothing that went well is lost with it.
        """
        steps: list[Step] = []
        for sealed in entries:
            if sealed.epoch <= self.applied.metadata.epoch:
                continue
            try:
                steps.append(self._apply(sealed))
            except ReplayError:
                if not steps:
                    raise
                break
        return steps

    def take_from_peer(self, entries: Iterable[SealedEntry]) -> list[Step]:
        """Apply what another node answered, up to where it cannot be believed."""
        steps: list[Step] = []
        for sealed in entries:
            if sealed.epoch <= self.applied.metadata.epoch:
                continue
            try:
                steps.append(self._apply(sealed))
            except ReplayError:
                self._count(Fault.LYING_PEER, sealed.epoch, Source.PEER)
                break
        return steps

    def refuse_peer(self) -> None:
        """What another node answered was not even entries."""
        self._count(Fault.LYING_PEER, source=Source.PEER)

    def refuse_fan_out(self) -> None:
        """What fan-out brought could not even be cut into messages."""
        self._count(Fault.UNREADABLE)

    def jump(self, to: Applied) -> None:
        """Go on from a snapshot of the log; the entries in between are not applied here."""
        assert to.metadata.epoch > self.applied.metadata.epoch
        self.applied = self._own(to)
        self._buffer.advance(to.metadata.epoch)

    def settle(self, tip: Epoch) -> None:
        """The log ends here: whatever claimed to come after it was not true."""
        newest = self.heard_of
        beyond = self._buffer.settle(tip)
        if beyond:
            self._count(Fault.FROM_THE_FUTURE, newest, times=beyond)

    def _apply(self, sealed: SealedEntry) -> Step:
        self.applied = self._own(self._apply_to(sealed, self.applied))
        self._buffer.advance(sealed.epoch)
        return Step(sealed, self.applied)

    def _own(self, applied: Applied) -> Applied:
        """The chain keeps strangers out once there is one; this does it for the first entry."""
        found = applied.metadata.cluster.id
        if found != self._cluster:
            raise ReplayError(
                applied.metadata.epoch, f"it is of cluster {found}, not {self._cluster}"
            )
        return applied

    def _refuse(self, fault: Fault) -> None:
        self._buffer.refuse()
        self._count(fault, following(self.applied.metadata.epoch))

    def _count(
        self,
        fault: Fault,
        epoch: Epoch | None = None,
        source: Source = Source.FAN_OUT,
        times: int = 1,
    ) -> Fault:
        self.faults[fault] += times
        self.disbelieved[fault] = Disbelieved(source, epoch)
        return fault
