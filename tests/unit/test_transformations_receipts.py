"""What proves, at MID, that every gained range was copied whole."""

from __future__ import annotations

import msgspec
import pytest

from metadata.directory import NodeId
from metadata.plans import Handover, RangeChange, Step
from metadata.receipts import Figures, enough_sources, sources_needed, thins_out
from metadata.schema import Network, Simple
from metadata.sequences import SequenceKind
from metadata.tokens import FULL, MINIMUM, Token
from tests.builders import (
    FIGURES,
    accepted,
    advanced_to,
    commit,
    everyone_applied,
    honest_receipts,
    in_step,
    joined_cluster,
    keyspace,
    only_sequence,
    receipt,
    rejected,
    spread,
)
from transformations.join import MidJoin
from transformations.kinds import execute
from transformations.leave import MidLeave, PrepareLeave
from transformations.outcome import RANGES_SHOWN_MAX, Reason
from transformations.replace import MidReplace, PrepareReplace
from transformations.schema import CreateTable, DropTable


def replace(item, **changed):
    return msgspec.structs.replace(item, **changed)


def started(**fields):
    """Node 5 joins at 150 and gains four ranges; (100, 150] it takes from node 4."""
    fields = {"nodes": 4, "spare": 1} | fields
    return in_step(joined_cluster(**fields), SequenceKind.JOIN, Step.START)


def mid(metadata, receipts, kind=MidJoin):
    sequence = only_sequence(metadata)
    barrier = everyone_applied(metadata, sequence)
    return execute(kind(sequence=sequence.id, barrier=barrier, receipts=tuple(receipts)), metadata)


def honest(metadata):
    return list(honest_receipts(metadata, only_sequence(metadata)))


def with_one(metadata, **changed):
    """Honest receipts, but for the one of (100, 150]."""
    return [replace(item, **changed) if item.left == 100 else item for item in honest(metadata)]


def from_sources(metadata, *nodes, epoch=None):
    """The receipt of (100, 150] has these sources, the others are honest."""
    at = only_sequence(metadata).last_epoch if epoch is None else epoch
    return [
        receipt(item.left, item.right, item.target, nodes, at) if item.left == 100 else item
        for item in honest(metadata)
    ]


def test_honest_receipts_are_one_per_gained_range_and_target():
    before = started()

    spans = [(item.left, item.right, item.target) for item in honest(before)]

    assert spans == [
        (MINIMUM, 100, 5),
        (100, 150, 5),
        (300, 400, 5),
        (400, MINIMUM, 5),
    ]
    accepted(mid(before, honest(before)))


def test_refuses_when_receipts_are_missing():
    before = started()

    refused = rejected(mid(before, honest(before)[:1]), Reason.RECEIPTS_MISSING)

    assert refused.detail == ("3 gained ranges have no receipt, the first is (100, 150] on node 5")
    assert [str(span) for span in refused.ranges] == [
        "(100, 150]",
        "(300, 400]",
        f"(400, {MINIMUM}]",
    ]
    assert refused.sequence == only_sequence(before).id
    assert refused.step is Step.MID


def test_shows_only_so_many_missing_ranges():
    tokens = [[100 * index for index in range(1, 50)], [1]]
    before = joined_cluster(nodes=2, replication=Simple(2), tokens=tokens, spare=1)
    started_ = in_step(before, SequenceKind.REPLACE, Step.START)

    refused = rejected(mid(started_, [], MidReplace), Reason.RECEIPTS_MISSING)

    assert "51 gained ranges" in refused.detail
    assert len(refused.ranges) == RANGES_SHOWN_MAX


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"target": NodeId(4)}, "no such range is gained by that node"),
        ({"left": Token(110)}, "no such range is gained by that node"),
        ({"right": Token(200)}, "no such range is gained by that node"),
        (
            {"left": Token(150), "right": Token(200)},
            "no such range is gained by that node",
        ),
        ({"left": Token(MINIMUM), "right": Token(100)}, "there is another receipt for it"),
        ({"source": Figures(rows=8, xor="123", sum="456")}, "source and target differ"),
        ({"source": Figures(rows=7, xor="124", sum="456")}, "source and target differ"),
        ({"target_rows": Figures(rows=7, xor="123", sum="457")}, "source and target differ"),
        ({"sources": ()}, "sources [] may lack acknowledged rows"),
    ],
)
def test_refuses_receipts_that_do_not_fit(changed, fault):
    before = started()

    refused = rejected(mid(before, with_one(before, **changed)), Reason.RECEIPTS_WRONG)

    assert fault in refused.detail
    assert refused.sequence == only_sequence(before).id
    assert refused.step is Step.MID
    assert len(refused.ranges) == 1
    assert refused.remedy == "copy the range again"


def test_a_range_of_which_no_row_was_copied_is_not_an_empty_one():
    before = started()
    nothing = Figures(rows=0, xor="0", sum="0")

    rejected(mid(before, with_one(before, target_rows=nothing)), Reason.RECEIPTS_WRONG)
    accepted(mid(before, with_one(before, source=nothing, target_rows=nothing)))


def test_a_source_is_named_once():
    before = started()
    twice = with_one(before, sources=honest(before)[1].sources[:1] * 2)

    refused = rejected(mid(before, twice), Reason.RECEIPTS_WRONG)

    assert "a source is named twice" in refused.detail


def test_a_source_is_flushed_after_start():
    before = started()
    start = only_sequence(before).last_epoch

    refused = rejected(mid(before, from_sources(before, 4, epoch=start - 1)), Reason.RECEIPTS_WRONG)

    assert f"source 4 was flushed at epoch {start - 1}, before START" in refused.detail
    accepted(mid(before, from_sources(before, 4, epoch=start)))


def test_a_source_is_not_flushed_in_the_future():
    before = started()

    refused = rejected(
        mid(before, from_sources(before, 4, epoch=before.epoch + 1)), Reason.RECEIPTS_WRONG
    )

    assert "yet to come" in refused.detail


def test_one_early_source_spoils_a_receipt_that_others_would_carry():
    before = started()
    early, *others = honest(before)[1].sources

    spoiled = with_one(before, sources=(replace(early, epoch=early.epoch - 1), *others))

    rejected(mid(before, spoiled), Reason.RECEIPTS_WRONG)


@pytest.mark.parametrize(
    ("sources", "enough"),
    [
        ((4,), True),  # The node that gives the range away has all it must give.
        ((2,), False),
        ((3,), False),
        ((2, 3), True),  # Of three, two meet every majority.
        ((1, 2), False),  # Node 1 is no owner of the range.
        ((1, 5), False),
        ((1, 4), True),
        ((2, 3, 4), True),
    ],
)
def test_sources_must_meet_every_write_quorum(sources, enough):
    before = started()

    outcome = mid(before, from_sources(before, *sources))

    accepted(outcome) if enough else rejected(outcome, Reason.RECEIPTS_WRONG)


def test_says_what_sources_it_takes():
    before = started()

    refused = rejected(mid(before, from_sources(before, 2)), Reason.RECEIPTS_WRONG)

    assert "it takes node 4, or 2 of [2, 3, 4]" in refused.detail


def test_where_owners_are_fewer_than_wanted_all_of_them_must_be_read():
    """A third may have left without a successor, and taken along one of two copies of a row."""
    before = in_step(joined_cluster(nodes=2, spare=1), SequenceKind.JOIN, Step.START)
    start = only_sequence(before).last_epoch
    one = [receipt(item.left, item.right, 3, [2], start) for item in honest(before)]
    both = [receipt(item.left, item.right, 3, [1, 2], start) for item in honest(before)]

    refused = rejected(mid(before, one), Reason.RECEIPTS_WRONG)

    assert "it takes 2 of [1, 2]" in refused.detail
    accepted(mid(before, both))


def three_datacenters(**fields):
    """Four nodes in each of three datacenters; node 13 takes the place of node 1, in dc1."""
    before = joined_cluster(
        nodes=12,
        replication=Network({"dc1": 3, "dc2": 3, "dc3": 3}),
        places=[*spread(12, datacenters=3), ("dc1", "r1")],
        spare=1,
    )
    prepared = commit(before, PrepareReplace(node=NodeId(13), replaced=NodeId(1), **fields))
    return advanced_to(prepared, Step.START)


@pytest.mark.parametrize(("count", "enough"), [(4, False), (5, True), (8, True)])
def test_a_dead_replica_is_made_good_from_a_quorum_of_all_datacenters(count, enough):
    """Nine owners, so that a write needs five of them, and five others meet every five.

    Two of the three in one datacenter would meet every local majority, and miss a write that
    five others acknowledged.
    """
    before = three_datacenters(dead=(NodeId(1),))
    owners = [node for node in honest(before)[0].sources if node.node != 1]
    start = only_sequence(before).last_epoch
    receipts = [
        receipt(item.left, item.right, 13, [node.node for node in item.sources][:count], start)
        for item in honest(before)
    ]

    outcome = mid(before, receipts, MidReplace)

    assert len(owners) == 8
    accepted(outcome) if enough else rejected(outcome, Reason.RECEIPTS_WRONG)


def test_a_node_that_lives_is_source_enough_for_its_replacement():
    before = three_datacenters()
    start = only_sequence(before).last_epoch

    receipts = [receipt(item.left, item.right, 13, [1], start) for item in honest(before)]

    accepted(mid(before, receipts, MidReplace))


def test_a_dead_node_is_no_source():
    prepare = PrepareLeave(node=NodeId(2), dead=(NodeId(2),))
    before = advanced_to(commit(joined_cluster(nodes=5), prepare), Step.START)
    start = only_sequence(before).last_epoch
    receipts = [receipt(item.left, item.right, item.target, [2], start) for item in honest(before)]

    refused = rejected(mid(before, receipts, MidLeave), Reason.RECEIPTS_WRONG)

    assert "source 2 is declared dead" in refused.detail
    accepted(mid(before, honest(before), MidLeave))


def test_where_loss_is_accepted_fewer_sources_do():
    prepare = PrepareLeave(node=NodeId(2), dead=(NodeId(2),), accept_loss="its disk burned")
    before = advanced_to(
        commit(joined_cluster(nodes=3, replication=Simple(1)), prepare), Step.START
    )
    start = only_sequence(before).last_epoch

    accepted(mid(before, [receipt(100, 200, 3, [], start)], MidLeave))
    rejected(mid(before, [], MidLeave), Reason.RECEIPTS_MISSING)


def test_without_tables_no_receipts_are_needed():
    before = started(tables=0)

    accepted(mid(before, []))


def test_receipts_that_are_not_needed_must_fit_all_the_same():
    before = started(tables=0)
    start = only_sequence(before).last_epoch
    differing = Figures(rows=1, xor="1", sum="1")

    accepted(mid(before, [receipt(100, 150, 5, [], start)]))
    rejected(
        mid(before, [receipt(100, 150, 5, [], start, source=differing)]), Reason.RECEIPTS_WRONG
    )
    rejected(mid(before, [receipt(1, 2, 5, [], start)]), Reason.RECEIPTS_WRONG)


def test_a_placement_without_tables_does_not_say_whose_rows_to_read():
    """(100, 150] changes in both; in the empty keyspace it is node 2's alone."""
    before = commit(joined_cluster(nodes=4, spare=1), *keyspace(Simple(1), "empty", tables=0))
    moving = in_step(before, SequenceKind.JOIN, Step.START)

    accepted(mid(moving, from_sources(moving, 3, 4)))


def test_one_receipt_serves_all_placements_with_tables():
    """Node 4 gives (100, 150] away in one keyspace, node 2 in the other."""
    before = commit(joined_cluster(nodes=4, spare=1), *keyspace(Simple(1), "one"))
    moving = in_step(before, SequenceKind.JOIN, Step.START)

    refused = rejected(mid(moving, from_sources(moving, 4)), Reason.RECEIPTS_WRONG)

    assert "it takes node 2, or 1 of [2]" in refused.detail
    accepted(mid(moving, from_sources(moving, 2, 4)))


def create_table(name="late"):
    table = keyspace(Simple(3))[1]
    return replace(table, name=name)


def test_tables_that_come_after_start_need_no_receipts():
    """Whoever knows the table knows START, and has written to both."""
    assert isinstance(create_table(), CreateTable)
    before = commit(started(tables=0), create_table())

    accepted(mid(before, []))


def test_tables_that_come_before_start_need_receipts():
    prepared = in_step(joined_cluster(nodes=4, spare=1, tables=0), SequenceKind.JOIN, Step.PREPARE)
    before = advanced_to(commit(prepared, create_table()), Step.START)

    rejected(mid(before, []), Reason.RECEIPTS_MISSING)


def test_tables_that_went_need_no_receipts():
    before = commit(started(), DropTable(keyspace="shop", name="t1"))

    accepted(mid(before, []))


def test_several_targets_have_receipts_of_their_own():
    before = in_step(joined_cluster(nodes=5), SequenceKind.LEAVE, Step.START)
    receipts = honest(before)

    for index in range(len(receipts)):
        others = receipts[:index] + receipts[index + 1 :]
        rejected(mid(before, others, MidLeave), Reason.RECEIPTS_MISSING)

    assert {item.target for item in receipts} == {2, 3, 4}
    accepted(mid(before, receipts, MidLeave))


@pytest.mark.parametrize(
    ("owners", "wanted", "needed"),
    [
        *((0, 0, 0), (1, 1, 1), (2, 2, 1), (3, 3, 2), (4, 4, 2), (5, 5, 3), (9, 9, 5)),
        *((2, 3, 2), (1, 3, 1), (4, 5, 3), (3, 5, 3), (0, 3, 0)),
    ],
)
def test_sources_needed_are_those_that_no_majority_can_avoid(owners, wanted, needed):
    """Also where the majority was one of more owners, and some of it has left."""
    assert sources_needed(tuple(map(NodeId, range(owners))), wanted) == needed


@pytest.mark.parametrize(
    ("before", "after", "wanted", "thin"),
    [
        (3, 3, 3, False),
        (3, 2, 3, False),
        (2, 1, 3, True),
        (1, 0, 1, True),
        (4, 3, 4, False),
        (5, 4, 5, False),
        (4, 3, 5, True),
        (2, 1, 2, False),
        (2, 3, 3, False),
    ],
)
def test_too_few_are_left_where_a_majority_of_them_may_miss_a_row(before, after, wanted, thin):
    nodes = tuple(map(NodeId, range(5)))
    change = RangeChange(range=FULL, before=nodes[:before], after=nodes[:after], wanted=wanted)

    assert thins_out(change) == thin


def test_the_losing_node_is_source_enough_for_its_own_successor_alone():
    one, two, three, four, five = map(NodeId, range(1, 6))
    change = RangeChange(
        range=FULL,
        before=(one, two, three),
        after=(three, four, five),
        handovers=(Handover(four, one), Handover(five, two)),
    )

    assert enough_sources(change, four, (one,))
    assert not enough_sources(change, five, (one,))
    assert enough_sources(change, five, (one, three))
    assert not enough_sources(change, five, (four, three))
    assert (change.gained, change.lost) == ((four, five), (one, two))
    assert change.predecessor_of(three) is None


def test_the_finer_figures_are_optional():
    before = started()
    hashed = with_one(before, details="0" * 64)

    accepted(mid(before, hashed))
    assert FIGURES.rows == 7
