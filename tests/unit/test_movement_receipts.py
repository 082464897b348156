"""Figures add up, differences are located, and a receipt's details have one hash."""

from __future__ import annotations

import hashlib
import json
import random

from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.receipts import Figures, Source
from metadata.schema import TableId
from metadata.tokens import FULL, MAXIMUM, MINIMUM, Range, Token
from movement.receipts import (
    NO_ROWS,
    SLICES_MAX,
    Copied,
    Slice,
    SliceFigures,
    added,
    differences,
    proofs,
    slice_shift,
)
from tests.builders import span

ONE, TWO = TableId(1), TableId(2)
WHOLE = (span(0, 160),)


def figures(rows, xor=0, total=0):
    return Figures(rows=rows, xor=str(xor), sum=str(total))


def counted(table, whole, number, rows=1):
    return SliceFigures(Slice(table, whole, number), figures(rows, rows * 3, rows * 5))


def copied(source, target_rows=None, *, target=5, ranges=WHOLE, sources=((1, 7),)):
    read = tuple(Source(NodeId(node), Epoch(epoch)) for node, epoch in sources)
    return Copied(
        target=NodeId(target),
        ranges=ranges,
        sources=dict.fromkeys(ranges, read),
        source=tuple(source),
        target_rows=tuple(source if target_rows is None else target_rows),
    )


def test_figures_add_up_beyond_64_bits():
    large = 2**62

    found = added([figures(1, large, large * 3), figures(2, -1, -5), figures(3, large, large * 3)])

    assert found == figures(6, -1, large * 6 - 5)
    assert added([]) == NO_ROWS


def test_the_order_does_not_matter():
    rng = random.Random(5)
    parts = [figures(rng.randrange(9), rng.randrange(99), rng.randrange(99)) for _ in range(20)]

    assert added(parts) == added(sorted(parts, key=lambda item: (item.xor, item.rows)))


def test_every_token_of_a_range_lies_in_the_part_it_is_counted_in():
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(500):
        whole = Range(*(Token(rng.randrange(MINIMUM, MAXIMUM)) for _ in range(2)))
        whole = rng.choice([whole, Range(whole.left, MINIMUM), Range(MINIMUM, whole.right), FULL])
        if whole.width <= 0:
            continue
        token = Token(min(MAXIMUM, whole.left + 1 + rng.randrange(whole.width)))
        place = Slice(ONE, whole, token >> slice_shift(whole))
        assert token in place.part, (whole, token)
        assert 0 < place.part.width <= whole.width


def test_a_range_falls_into_a_few_parts():
    for whole in (FULL, span(0, 1), span(0, 17), span(-(2**62), 2**62), Range(Token(5), MINIMUM)):
        first, last = whole.left + 1, whole.left + whole.width
        shift = slice_shift(whole)
        assert (last >> shift) - (first >> shift) <= SLICES_MAX


def test_the_minimum_token_is_a_part_of_its_own():
    """It closes the last range of the ring, and yet sorts before all others."""
    whole = Range(Token(2**62), MINIMUM)

    assert Slice(ONE, whole, MINIMUM >> slice_shift(whole)).part == Range(MAXIMUM, MINIMUM)


def test_equal_sides_do_not_differ():
    source = [counted(ONE, span(0, 160), 1), counted(ONE, span(0, 160), 3)]

    assert differences(source, list(reversed(source))) == []


def test_a_slice_without_rows_may_be_left_out():
    empty = SliceFigures(Slice(ONE, span(0, 160), 2), NO_ROWS)

    assert differences([empty], []) == []


def test_a_difference_names_table_and_part():
    whole = span(0, 160)
    source = [counted(ONE, whole, 1), counted(TWO, whole, 3, rows=4)]
    target = [counted(ONE, whole, 1), counted(TWO, whole, 3, rows=3), counted(ONE, whole, 2)]

    found = differences(source, target)

    assert [str(item) for item in found] == [
        "table 1, (31, 47]: 0 rows were read and 1 found",
        "table 2, (47, 63]: 4 rows were read and 3 found",
    ]


def test_equal_counts_with_other_rows_differ():
    place = Slice(ONE, span(0, 160), 1)
    source, target = figures(1, 5, 9), figures(1, 5, 8)

    (found,) = differences([SliceFigures(place, source)], [SliceFigures(place, target)])

    assert (found.source, found.target) == (source, target)


def test_one_receipt_covers_all_tables_of_a_range():
    whole = span(0, 160)
    (proof,) = proofs(
        [
            copied([counted(ONE, whole, 1)], sources=((1, 9), (3, 8))),
            copied([counted(TWO, whole, 2, rows=2)], sources=((1, 7), (3, 9))),
        ]
    )

    assert proof.receipt.source == proof.receipt.target_rows == figures(3, 3 ^ 6, 15)
    assert proof.receipt.sources == (
        Source(NodeId(1), Epoch(7)),
        Source(NodeId(3), Epoch(8)),
    )
    assert (proof.receipt.left, proof.receipt.right, proof.receipt.target) == (0, 160, 5)


def test_each_target_and_range_has_a_receipt_of_its_own():
    one, other = span(0, 160), span(160, 320)
    found = proofs(
        [
            copied([counted(ONE, one, 1)], ranges=(one, other), target=6),
            copied([counted(ONE, other, 12)], ranges=(other,), target=5),
        ]
    )

    assert [
        (item.receipt.left, item.receipt.target, item.receipt.source.rows) for item in found
    ] == [
        (0, 6, 1),
        (160, 5, 1),
        (160, 6, 0),
    ]


def test_details_are_what_their_hash_says_and_do_not_depend_on_order():
    whole = span(0, 160)
    parts = [counted(ONE, whole, 1), counted(ONE, whole, 2), counted(TWO, whole, 1)]

    (one,) = proofs([copied(parts)])
    (other,) = proofs([copied(parts[::-1])])

    assert one.details == other.details
    assert one.receipt.details == hashlib.sha256(one.details.content).hexdigest()
    document = json.loads(one.details.content)
    assert [line["table"] for line in document["source"]] == [1, 1, 2]
    assert document["source"][0] == {
        "table": 1,
        "left": "15",
        "right": "31",
        "figures": {"rows": 1, "xor": "3", "sum": "5"},
    }
