"""Hypothetical transformations out of a file, and the body that would commit them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import UUID

import msgspec

from encoding.entries import Actor, EntryId, Why
from encoding.errors import DecodeError
from encoding.json import decode_transformation, transformation_json
from log.batch import Proposal

PROPOSALS_MAX = 1_000
"""As many as one batch may hold."""

FILE_BYTES_MAX = 32 * 1024 * 1024


class ProposalsError(ValueError):
    """The file does not hold transformations. The message is one sentence for people."""


class _Commit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a body of /v1/commit may say."""

    transformation: msgspec.Raw
    entry_id: UUID | None = None
    actor: Actor | None = None
    reason: Why | None = None
    last_known: int | None = None


class _Batch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    commits: tuple[msgspec.Raw, ...]
    atomic: bool = True


def read_proposals(content: bytes, new_id: Callable[[], EntryId]) -> list[Proposal]:
    """From JSON, a line or a list of it: transformations, commits, or the body of a batch."""
    if len(content) > FILE_BYTES_MAX:
        raise ProposalsError(f"The file has more than {FILE_BYTES_MAX} bytes.")
    items = list(_items(content))
    if not items:
        raise ProposalsError("The file holds no transformation.")
    if len(items) > PROPOSALS_MAX:
        raise ProposalsError(f"The file holds {len(items)} transformations, not {PROPOSALS_MAX}.")
    return [_proposal(raw, index, new_id) for index, raw in enumerate(items)]


def batch_body(proposals: Sequence[Proposal]) -> dict[str, Any]:
    """What to send to /v1/commit/batch, so that all of them are committed or none."""
    commits = [
        {
            "entry_id": str(item.entry_id),
            "transformation": transformation_json(item.transformation),
            "actor": item.actor,
            "reason": item.reason,
        }
        for item in proposals
    ]
    plain = [{name: item[name] for name in item if item[name] is not None} for item in commits]
    return {"commits": plain, "atomic": True}


def _items(content: bytes) -> Iterator[msgspec.Raw]:
    try:
        yield from _documents(msgspec.json.decode(content, type=msgspec.Raw))
    except (msgspec.DecodeError, RecursionError):
        lines = [line for line in content.splitlines() if line.strip()]
        for number, line in enumerate(lines, start=1):
            try:
                yield msgspec.json.decode(line, type=msgspec.Raw)
            except (msgspec.DecodeError, RecursionError) as error:
                raise ProposalsError(f"Line {number} is not valid JSON: {error}.") from error


def _documents(raw: msgspec.Raw) -> Iterator[msgspec.Raw]:
    if bytes(raw).lstrip()[:1] == b"[":
        yield from msgspec.json.decode(raw, type=tuple[msgspec.Raw, ...])
        return
    try:
        yield from msgspec.json.decode(raw, type=_Batch).commits
    except msgspec.ValidationError:
        yield raw


def _proposal(raw: msgspec.Raw, index: int, new_id: Callable[[], EntryId]) -> Proposal:
    try:
        commit = _commit(raw)
        transformation = decode_transformation(commit.transformation)
    except (DecodeError, msgspec.ValidationError) as error:
        complaint = str(error).rstrip(".")
        raise ProposalsError(f"Transformation {index}: {complaint}.") from error
    return Proposal(
        entry_id=new_id() if commit.entry_id is None else EntryId(commit.entry_id),
        transformation=transformation,
        actor=commit.actor,
        reason=commit.reason,
    )


def _commit(raw: msgspec.Raw) -> _Commit:
    fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    if "transformation" in fields:
        return msgspec.json.decode(raw, type=_Commit)
    return _Commit(transformation=raw)
