"""Named values that users of the log keep in the metadata."""

from __future__ import annotations

from functools import cached_property

import msgspec

from metadata.digest import digest_of
from metadata.epoch import EMPTY, Epoch
from metadata.hashed_map import HashedMap


class Extension(msgspec.Struct, frozen=True, gc=False):
    value: str
    epoch: Epoch


class Extensions(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    by_name: HashedMap[str, Extension] = HashedMap()
    epoch: Epoch = EMPTY

    @cached_property
    def digest(self) -> bytes:
        return digest_of(self.by_name.digest, self.epoch)

    def with_value(self, name: str, value: str, epoch: Epoch) -> Extensions:
        changed = self.by_name.with_item(name, Extension(value, epoch))
        return Extensions(by_name=changed, epoch=self.epoch)

    def without(self, name: str) -> Extensions:
        return Extensions(by_name=self.by_name.without([name]), epoch=self.epoch)
