"""A fork tells what would happen, and leaves the history as it is."""

from __future__ import annotations

import json
from uuid import UUID

import msgspec
import pytest

from audit.driving import assumed_step
from audit.proposals import ProposalsError, batch_body, read_proposals
from audit.whatif import TableSize, imagined
from encoding.entries import EntryId
from encoding.json import transformation_json
from metadata.plans import Step
from metadata.sequences import SequenceKind
from services.cms.bodies import Batch
from tests.builders import accepted, in_step, joined_cluster, preparation
from transformations.kinds import kind_of

IDS = iter(range(1, 10_000))
LEAVE = {"kind": "PrepareLeave", "node": 1}


def new_id():
    return EntryId(UUID(int=next(IDS)))


def proposals_of(*items):
    return read_proposals(json.dumps(items).encode(), new_id)


def test_a_leave_is_taken_to_its_end():
    base = joined_cluster(4)

    found = imagined(base, proposals_of(LEAVE))

    assert found.accepted
    assert [item.kind for item in found.entries if not item.assumed] == ["PrepareLeave"]
    assert [item.kind for item in found.entries if item.assumed] == [
        "StartLeave",
        "MidLeave",
        "FinishLeave",
        "RetireSequence",
    ]
    assert all(1 not in change["readers"]["after"] for change in found.placement)
    assert {move.target for move in found.moves} <= {2, 3, 4}
    assert found.bytes is None
    assert found.weakest is not None
    assert len(found.weakest.readers) == 3
    assert base.epoch == found.base


def test_every_kind_of_sequence_is_taken_to_its_end():
    base = joined_cluster(4, spare=1)
    for kind in SequenceKind:
        transformation = preparation(base, kind)
        item = {"kind": kind_of(transformation), **msgspec.to_builtins(transformation)}

        found = imagined(base, proposals_of(item))

        assert found.accepted, found.entries
        assert found.entries[-1].kind == "RetireSequence"
        assert found.moves


def test_bytes_are_told_where_sizes_are():
    """Node 1 has a quarter of the ring in three copies; only one copy of each range moves."""
    sizes = {"shop.t1": TableSize(rows=1_000, bytes=1_000_000)}

    found = imagined(joined_cluster(4), proposals_of(LEAVE), sizes)

    assert found.rows == sum(move.rows or 0 for move in found.moves)
    assert found.bytes == sum(move.bytes or 0 for move in found.moves)
    assert found.bytes > 0


def test_bytes_are_unknown_where_one_table_is():
    sizes = {"shop.t1": TableSize(rows=1_000, bytes=10)}

    found = imagined(joined_cluster(4, tables=2), proposals_of(LEAVE), sizes)

    assert (found.rows, found.bytes) == (None, None)


def test_a_refusal_is_told_and_what_comes_after_is_tried():
    item = {"kind": "SetExtension", "name": "a", "value": "b"}

    found = imagined(joined_cluster(3), proposals_of(LEAVE, item))

    assert not found.accepted
    assert found.entries[0].problem is not None
    assert found.entries[0].problem["code"] == "too_few_replicas"
    assert found.entries[1].problem is None


def test_the_weakest_point_counts_only_who_is_alive():
    dead = {**LEAVE, "dead": [1], "accept_loss": "it burned"}

    found = imagined(joined_cluster(4), proposals_of(dead))

    assert found.accepted
    assert found.weakest is not None
    assert len(found.weakest.readers) == 2


def test_what_was_in_progress_before_is_left_to_its_driver():
    busy = in_step(joined_cluster(6), SequenceKind.LEAVE, Step.PREPARE)

    found = imagined(busy, proposals_of({"kind": "SetExtension", "name": "a", "value": "b"}))

    assert [item.kind for item in found.entries] == ["SetExtension"]
    assert found.moves == ()


def driven(base, prepare):
    """A sequence with every step of it, as a file may hold them."""
    outcome = accepted(prepare.execute(base))
    steps = [prepare]
    while outcome.after.sequences.in_progress:
        (sequence,) = outcome.after.sequences.in_progress.values()
        steps.append(assumed_step(outcome.after, sequence))
        outcome = accepted(steps[-1].execute(outcome.after))
    return [transformation_json(item) for item in steps], outcome.after


def test_a_sequence_that_the_file_takes_to_its_end_counts():
    """Whether the file ends it or leaves that to be assumed, as much is copied."""
    base = joined_cluster(4, spare=1)
    sizes = {"shop.t1": TableSize(rows=1_000, bytes=1_000_000)}
    join, joined = driven(base, preparation(base, SequenceKind.JOIN))
    first = imagined(base, proposals_of(join[0]), sizes)
    second = imagined(joined, proposals_of(LEAVE), sizes)
    assert first.bytes
    assert second.bytes

    both = imagined(base, proposals_of(*join, LEAVE), sizes)

    assert both.accepted, both.entries
    assert [move.sequence for move in both.moves] == [
        move.sequence for found in (first, second) for move in found.moves
    ]
    assert both.bytes == first.bytes + second.bytes


def test_a_table_that_start_finds_is_copied():
    base = joined_cluster(4)
    table = {
        "kind": "CreateTable",
        "keyspace": "shop",
        "name": "later",
        "columns": [{"name": "id", "type": "bigint"}],
        "partition_key": ["id"],
    }
    sizes = {"shop.t1": TableSize(rows=0, bytes=0), "shop.later": TableSize(rows=1, bytes=2**40)}

    found = imagined(base, proposals_of(LEAVE, table), sizes)

    assert found.accepted, found.entries
    assert found.bytes


def test_a_sequence_that_never_starts_copies_nothing():
    base = joined_cluster(4)
    cancel = {"kind": "CancelSequence", "sequence": base.epoch + 1}

    found = imagined(base, proposals_of(LEAVE, cancel))

    assert [item.kind for item in found.entries][:2] == ["PrepareLeave", "CancelSequence"]
    assert found.entries[1].problem is None
    assert found.moves == ()


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(LEAVE),
        json.dumps([LEAVE]),
        json.dumps({"transformation": LEAVE, "actor": "ada"}),
        json.dumps({"commits": [{"entry_id": str(UUID(int=7)), "transformation": LEAVE}]}),
        json.dumps(LEAVE) + "\n",
    ],
)
def test_files_come_in_several_forms(content):
    (proposal,) = read_proposals(content.encode(), new_id)

    assert kind_of(proposal.transformation) == "PrepareLeave"


def test_a_line_each():
    lines = b'{"kind": "TriggerSnapshot"}\n\n{"kind": "PrepareLeave", "node": 2}\n'

    assert len(read_proposals(lines, new_id)) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no transformation"),
        (b"[]", "no transformation"),
        (b"{", "Line 1 is not valid JSON"),
        (b'{"kind": "TriggerSnapshot"}\nnonsense', "Line 2 is not valid JSON"),
        (b"[1]", "Transformation 0"),
        (b'[{"kind": "Explode"}]', "Transformation 0"),
        (b'[{"kind": "PrepareLeave", "node": "x"}]', "node: expected"),
        (b'[{"transformation": {"kind": "TriggerSnapshot"}, "epoch": 1}]', "unknown field"),
        (b"[" * 100_000, "not valid JSON"),
        (json.dumps([{"kind": "TriggerSnapshot"}] * 1_001).encode(), "1001 transformations"),
    ],
)
def test_what_is_no_file_of_transformations_is_a_sentence(content, said):
    with pytest.raises(ProposalsError, match=said):
        read_proposals(content, new_id)


def test_a_batch_can_be_handed_on_as_the_api_takes_it():
    proposals = proposals_of(
        LEAVE, {"transformation": {"kind": "TriggerSnapshot"}, "reason": "before"}
    )

    body = msgspec.json.encode(batch_body(proposals))

    batch = msgspec.json.decode(body, type=Batch)
    assert batch.atomic
    assert [item.entry_id for item in batch.commits] == [item.entry_id for item in proposals]
    assert batch.commits[1].reason == "before"
