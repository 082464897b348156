"""Work outside the log that an entry allowed."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import NewType

import msgspec

from metadata.digest import digest_of
from metadata.directory import NodeId
from metadata.epoch import EMPTY, Epoch
from metadata.hashed_map import HashedMap
from metadata.locks import SequenceId
from metadata.tokens import Range

SessionId = NewType("SessionId", int)
"""The epoch of the entry that opened the session."""


class Purpose(StrEnum):
    MOVEMENT = "movement"
    CLEANUP = "cleanup"
    REPAIR = "repair"


class Session(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """While it is open, permits under it are good on `nodes`, for `ranges`."""

    id: SessionId
    purpose: Purpose
    nodes: tuple[NodeId, ...]
    ranges: tuple[Range, ...]
    sequence: SequenceId | None = None


class Sessions(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    open: HashedMap[SessionId, Session] = HashedMap()
    epoch: Epoch = EMPTY

    @cached_property
    def digest(self) -> bytes:
        return digest_of(self.open.digest, self.epoch)

    def find(self, session: SessionId) -> Session | None:
        return self.open.get(session)

    def with_session(self, session: Session) -> Sessions:
        return Sessions(open=self.open.with_item(session.id, session), epoch=self.epoch)

    def without(self, session: SessionId) -> Sessions:
        return Sessions(open=self.open.without([session]), epoch=self.epoch)
