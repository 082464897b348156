"""What questions about proofs and their answers look like; hashes are hex."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from metadata.epoch import Epoch
from metadata.limits import ID_MAX, Hash

Positive = Annotated[Epoch, Meta(ge=1, le=ID_MAX)]


class Included(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which entry, in the log of which size; the newest by default."""

    epoch: Positive
    size: Positive | None = None


class Extended(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"old": "from"}
):
    """The log of `from` entries, and the later one of `to`; the newest by default."""

    old: Positive
    to: Positive | None = None


class InclusionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """RFC 6962: `leaf`, the entry's hash in the chain, is number `epoch` - 1 under `root`."""

    epoch: Epoch
    size: Epoch
    leaf: Hash
    root: Hash
    proof: list[Hash]


class ConsistencyAnswer(
    msgspec.Struct, frozen=True, kw_only=True, rename={"old": "from", "old_root": "from_root"}
):
    """RFC 6962: the tree under `root` begins with the one under `from_root`."""

    old: Epoch
    to: Epoch
    old_root: Hash
    root: Hash
    proof: list[Hash]


class Tile1(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A path of C2SP tlog-tiles, piece by piece: level, number, and the width of a part."""

    level: str
    a: str


class Tile2(Tile1, frozen=True, kw_only=True, forbid_unknown_fields=True):
    b: str


class Tile3(Tile2, frozen=True, kw_only=True, forbid_unknown_fields=True):
    c: str


class Tile4(Tile3, frozen=True, kw_only=True, forbid_unknown_fields=True):
    d: str
