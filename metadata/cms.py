"""The address book of the metadata service itself."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property

import msgspec

from metadata.digest import digest_of
from metadata.epoch import EMPTY, Epoch
from metadata.hashed_map import HashedMap
from metadata.limits import Name, Url
from metadata.locks import SequenceId


class MemberState(StrEnum):
    JOINING = "joining"
    ACTIVE = "active"


class Member(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: Name
    url: Url
    state: MemberState = MemberState.ACTIVE


class Reconfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """Members still to be added, then names still to be removed; `index` counts steps taken."""

    id: SequenceId
    add: tuple[Member, ...]
    remove: tuple[str, ...]
    index: int
    epoch: Epoch


class Cms(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    members: HashedMap[str, Member] = HashedMap()
    reconfiguration: Reconfiguration | None = None
    epoch: Epoch = EMPTY

    @cached_property
    def digest(self) -> bytes:
        return digest_of(self.members.digest, self.reconfiguration, self.epoch)
