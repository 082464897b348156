"""The form that all transformations share, and the types of fields that name things."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from metadata.directory import KnownNode
from metadata.limits import ID_MAX, NODES_LISTED_MAX, RANGES_LISTED_MAX, TOKENS_PER_NODE_MAX
from metadata.locks import SequenceId
from metadata.receipts import Receipt
from metadata.sessions import SessionId
from metadata.tokens import BoundedToken, Range

SequenceRef = Annotated[SequenceId, Meta(ge=1, le=ID_MAX)]
SessionRef = Annotated[SessionId, Meta(ge=1, le=ID_MAX)]
Tokens = Annotated[tuple[BoundedToken, ...], Meta(min_length=1, max_length=TOKENS_PER_NODE_MAX)]
Nodes = Annotated[tuple[KnownNode, ...], Meta(max_length=NODES_LISTED_MAX)]
Ranges = Annotated[tuple[Range, ...], Meta(max_length=RANGES_LISTED_MAX)]
Receipts = Annotated[tuple[Receipt, ...], Meta(max_length=RANGES_LISTED_MAX)]


class Verb(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="kind",
    tag=True,
):
    """Named fields, nothing else accepted, and the class's name as `kind` on the wire."""
