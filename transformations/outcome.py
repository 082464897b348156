"""What becomes of a transformation: accepted, or rejected for a reason."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import msgspec

from metadata.cluster import ClusterMetadata
from metadata.locks import AffectedRanges, SequenceId
from metadata.plans import Step
from metadata.tokens import Range


class Reason(StrEnum):
    """The closed set of grounds for rejection; the values are part of the API."""

    NOT_INITIALIZED = "not_initialized"
    ALREADY_INITIALIZED = "already_initialized"
    WRONG_CLUSTER = "wrong_cluster"
    INVALID_IMAGE = "invalid_image"

    UNKNOWN_NODE = "unknown_node"
    ADDRESS_TAKEN = "address_taken"
    HOST_ID_TAKEN = "host_id_taken"
    WRONG_STATE = "wrong_state"
    PLACEMENT_CHANGES = "placement_changes"

    KEYSPACE_EXISTS = "keyspace_exists"
    UNKNOWN_KEYSPACE = "unknown_keyspace"
    TABLE_EXISTS = "table_exists"
    UNKNOWN_TABLE = "unknown_table"
    COLUMN_EXISTS = "column_exists"
    UNKNOWN_COLUMN = "unknown_column"
    INVALID_KEY = "invalid_key"
    TYPE_CHANGED = "type_changed"
    NEEDS_STEPS = "needs_steps"

    DUPLICATE_TOKEN = "duplicate_token"  # noqa: S105 - not a secret
    TOKEN_TAKEN = "token_taken"  # noqa: S105 - not a secret
    NOTHING_TO_DO = "nothing_to_do"
    TOO_FEW_REPLICAS = "too_few_replicas"
    RANGES_LOCKED = "ranges_locked"
    SEQUENCE_IN_PROGRESS = "sequence_in_progress"
    SOURCES_LOST = "sources_lost"
    CLEANUP_OPEN = "cleanup_open"
    UNSAFE_PLAN = "unsafe_plan"

    UNKNOWN_SEQUENCE = "unknown_sequence"
    WRONG_STEP = "wrong_step"
    BARRIER_MISSING = "barrier_missing"
    BARRIER_NOT_PASSED = "barrier_not_passed"
    RECEIPTS_MISSING = "receipts_missing"
    RECEIPTS_WRONG = "receipts_wrong"

    UNKNOWN_SESSION = "unknown_session"
    SESSION_HELD = "session_held"

    MEMBER_EXISTS = "member_exists"
    UNKNOWN_MEMBER = "unknown_member"
    LAST_MEMBER = "last_member"

    UNKNOWN_EXTENSION = "unknown_extension"

    INTERNAL = "internal"


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an accepted transformation gives back: the ids it made, and warnings."""

    cluster: str | None = None
    node: int | None = None
    table: int | None = None
    sequence: int | None = None
    session: int | None = None
    warnings: tuple[str, ...] = ()


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata at the next epoch, what it affects and what the caller is told."""

    after: ClusterMetadata
    affected: AffectedRanges = AffectedRanges()
    result: Result = Result()


RANGES_SHOWN_MAX = 32


class Rejected(msgspec.Struct, frozen=True):
    """A "no" for a reason, in words, with what is in the way and what would help.

    `remedy` is the smallest thing that would make the same transformation acceptable, where
    there is one.
    """

    reason: Reason
    detail: str
    remedy: str | None = None
    sequence: SequenceId | None = None
    step: Step | None = None
    ranges: tuple[Range, ...] = ()


Outcome = Accepted | Rejected


class Transformation(Protocol):
    """A change by name. `execute` is pure: it decides on the committer and applies on followers."""

    def execute(self, metadata: ClusterMetadata) -> Outcome: ...
