"""What a job reads: only files that overlap, and of those only what counts."""

from __future__ import annotations

import msgspec
import pytest

from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.plans import Step
from metadata.receipts import Source
from metadata.sequences import SequenceKind
from metadata.tokens import FULL, MAXIMUM, MINIMUM, Range, Token
from movement import batches as module
from movement import manifests
from movement.batches import (
    Batch,
    Piece,
    Reading,
    batches,
    copies_of,
    divided,
    expected,
    parted,
    read_from,
    sources_of,
)
from movement.manifests import Manifest, ManifestError, Read, suits
from movement.transfers import chosen, gained_by
from store.ranges import Span
from store.segments import Group
from tests.builders import in_step, joined_cluster, only_sequence, span


def piece(first, last, *, node=1, rows=100, ranges=(FULL,), name="a"):
    return Piece(
        node=NodeId(node),
        path=name,
        rows=rows,
        size_bytes=rows * 10,
        first=first,
        last=last,
        ranges=ranges,
    )


def joining(tables=1):
    metadata = in_step(joined_cluster(5, spare=1, tables=tables), SequenceKind.JOIN, Step.START)
    return metadata, only_sequence(metadata)


def test_one_batch_per_table_and_target():
    metadata, sequence = joining(tables=2)

    found = batches(gained_by(metadata, sequence))

    assert [(batch.table.name, batch.target) for batch in found] == [("t1", 6), ("t2", 6)]
    assert found[0].ranges == tuple(sorted(found[0].ranges))


def test_many_ranges_are_several_batches(monkeypatch):
    monkeypatch.setattr(module, "RANGES_MAX", 2)
    metadata, sequence = joining()
    gained = gained_by(metadata, sequence)

    found = batches(gained)

    assert all(len(batch.ranges) <= 2 for batch in found)
    assert sorted(span for batch in found for span in batch.ranges) == sorted(
        item.change.range for item in gained
    )
    assert len({batch.name_in(sequence.id, "mid") for batch in found}) == len(found)


def test_a_name_is_the_same_in_every_attempt_and_no_prefix_of_another():
    metadata, sequence = joining(tables=12)
    names = [item.name_in(sequence.id, "mid") for item in batches(gained_by(metadata, sequence))]

    assert names == [
        item.name_in(sequence.id, "mid") for item in batches(gained_by(metadata, sequence))
    ]
    assert not any(one != other and other.startswith(one) for one in names for other in names)


def test_a_batch_tells_what_it_is():
    metadata, sequence = joining()
    (batch,) = batches(gained_by(metadata, sequence))

    assert str(batch) == f"table shop.t1, {batch.ranges[0]} and 3 more ranges for node 6"
    single = Batch(batch.table, batch.target, batch.ranges[:1])
    assert str(single) == f"table shop.t1, {batch.ranges[0]} for node 6"


def test_sources_are_those_of_the_batch_alone():
    metadata, sequence = joining(tables=2)
    gained = gained_by(metadata, sequence)
    transfers = chosen(gained, sequence, set(metadata.directory.nodes))
    assert isinstance(transfers, list)
    batch = batches(gained)[0]

    found = sources_of(batch, transfers)

    assert tuple(sorted(found)) == batch.ranges


def test_files_elsewhere_are_not_read():
    wanted = {span(100, 200): (NodeId(1),), span(500, 600): (NodeId(2),)}
    near, far = piece(150, 400), piece(201, 400, name="b")
    other = piece(150, 400, node=2, name="c")

    (found,) = read_from(wanted, [near, far, other])

    assert found == Reading((Span(Token(101), Token(200)),), (near,))


def test_files_of_one_source_are_read_together():
    wanted = {span(100, 200): (NodeId(1), NodeId(2)), span(300, 400): (NodeId(1),)}
    pieces = [piece(0, 900), piece(0, 900, name="b"), piece(0, 900, node=2, name="c")]

    found = read_from(wanted, pieces)

    assert [(len(item.spans), len(item.pieces)) for item in found] == [(1, 1), (2, 2)]


def test_what_was_cleaned_away_is_not_read():
    wanted = {span(100, 200): (NodeId(1),)}

    (found,) = read_from(wanted, [piece(0, 900, ranges=(span(0, 150),))])

    assert found.spans == (Span(Token(101), Token(150)),)


def test_the_minimum_token_is_read_with_the_last_range():
    wanted = {Range(Token(10), MINIMUM): (NodeId(1),)}
    first, last = piece(MINIMUM, 5), piece(20, MAXIMUM, name="b")

    (found,) = read_from(wanted, [first, last])

    assert found.pieces == (first, last)
    assert found.spans == (Span(MINIMUM, MINIMUM), Span(Token(11), MAXIMUM))


def names(readings):
    return [piece.path for reading in readings for piece in reading.pieces]


@pytest.mark.parametrize(
    ("pieces", "merged"),
    [
        ([piece(0, 99), piece(100, 200, name="b")], []),
        ([piece(0, 100), piece(100, 200, name="b")], ["a", "b"]),
        ([piece(0, 500), piece(10, 20, name="b"), piece(600, 700, name="c")], ["a", "b"]),
        ([piece(0, 500), piece(10, 20, name="b"), piece(400, 700, name="c")], ["a", "b", "c"]),
        ([piece(0, 500)], []),
        ([], []),
    ],
)
def test_versions_are_merged_only_where_files_overlap(pieces, merged):
    readings = read_from({span(-1, 900): (NodeId(1),)}, pieces)

    alone, tangled = parted(readings)

    assert sorted(names(tangled)) == merged
    assert sorted(names(alone) + merged) == sorted(item.path for item in pieces)


def test_files_that_overlap_elsewhere_need_no_merge():
    wanted = {span(0, 50): (NodeId(1),), span(900, 950): (NodeId(1),)}

    assert not parted(read_from(wanted, [piece(0, 500), piece(400, 950, name="b")]))[1]


def whole(first, last, **given):
    return msgspec.structs.replace(piece(first, last, **given), sha256="ab", is_bare=True)


def test_a_file_is_taken_as_it_is_where_all_of_it_is_wanted():
    inside, edge = whole(101, 200, name="in"), whole(190, 260, name="out")
    apart = msgspec.structs.replace(whole(110, 120, name="old"), is_bare=False)
    wanted = {span(100, 200): (NodeId(1),)}

    assert divided(read_from(wanted, [inside])) == ([inside], [])
    assert divided(read_from(wanted, [edge]))[0] == []
    assert divided(read_from(wanted, [apart]))[0] == []
    unknown = msgspec.structs.replace(inside, sha256="")
    assert divided(read_from(wanted, [unknown]))[0] == []


def test_files_that_overlap_are_not_taken_as_they_are():
    wanted = {span(0, 900): (NodeId(1), NodeId(2))}
    one, other = whole(100, 200, name="a"), whole(150, 160, node=2, name="b")
    third = whole(300, 400, name="c")

    taken, rest = divided(read_from(wanted, [one, other, third]))

    assert taken == [third]
    assert sorted(names(rest)) == ["a", "b"]


def test_a_file_of_which_a_part_was_cleaned_away_is_not_taken_as_it_is():
    """Or rows would come back that its node has not any more."""
    wanted = {span(0, 900): (NodeId(1),)}
    cleaned = whole(100, 200, ranges=(span(0, 150),))

    taken, rest = divided(read_from(wanted, [cleaned]))

    assert taken == []
    assert names(rest) == ["a"]


def test_a_file_with_rows_that_another_node_is_asked_for_is_not_taken_as_it_is():
    wanted = {span(0, 150): (NodeId(1),), span(150, 300): (NodeId(2),)}

    assert divided(read_from(wanted, [whole(100, 200)]))[0] == []


def test_what_will_be_read_is_estimated_by_width():
    (reading,) = read_from({span(0, 50): (NodeId(1),)}, [piece(1, 100)])

    assert expected([reading]) == (50, 500)
    assert expected([]) == (0, 0)


def test_what_will_be_read_is_estimated_by_row_groups_where_they_are_known():
    """A node has nothing of the ranges between its own."""
    groups = (
        Group(0, 60, 600, Span(Token(1), Token(10))),
        Group(1, 40, 400, Span(Token(901), Token(1000))),
    )
    known = msgspec.structs.replace(piece(1, 1000), groups=groups)
    spans = (span(0, 10), span(950, 990), span(995, 1000))
    wanted = dict.fromkeys(spans, (NodeId(1),))

    assert expected(read_from(wanted, [known])) == (60 + 16 + 2, 780)


def test_rows_that_several_owners_have_are_moved_once():
    one, other, third = NodeId(1), NodeId(2), NodeId(3)

    assert copies_of({span(0, 50): (one,)}) == 1.0
    assert copies_of({span(0, 50): (one, other), span(50, 100): (other, third)}) == 2.0
    assert copies_of({span(0, 75): (one, other), span(75, 100): (one,)}) == 1.75
    assert copies_of({}) == 1.0


def manifest_of(batch, sources=(1,), epoch=9):
    read = tuple(Source(NodeId(node), Epoch(epoch)) for node in sources)
    return Manifest(
        name="12-mid-1-6-abc",
        table=batch.table.id,
        target=batch.target,
        columns=batch.table.columns,
        reads=tuple(Read(item, read) for item in batch.ranges),
        files=(),
        figures=(),
    )


def test_the_first_manifest_stays(tmp_path):
    metadata, sequence = joining()
    (batch,) = batches(gained_by(metadata, sequence))
    mine, yours = manifest_of(batch), manifest_of(batch, sources=(2,))
    folder = str(tmp_path)

    assert manifests.find(folder, mine.name) is None
    assert manifests.publish(folder, mine, "a") == mine
    assert manifests.publish(folder, yours, "b") == mine
    assert manifests.find(folder, mine.name) == mine
    assert [path.name for path in (tmp_path / "manifests").iterdir()] == [f"{mine.name}.json"]

    manifests.withdraw(folder, mine)
    assert manifests.publish(folder, yours, "c") == yours
    manifests.withdraw(folder, mine)
    assert manifests.find(folder, mine.name) == yours


def test_a_manifest_that_is_swept_at_once_is_told(tmp_path, monkeypatch):
    """The node has seen the session end while the manifest was published."""
    metadata, sequence = joining()
    (batch,) = batches(gained_by(metadata, sequence))
    monkeypatch.setattr(manifests, "find", lambda _folder, _name: None)

    with pytest.raises(ManifestError, match="was removed at once"):
        manifests.publish(str(tmp_path), manifest_of(batch), "a")


def test_a_manifest_may_lie_anywhere(tmp_path):
    metadata, sequence = joining()
    (batch,) = batches(gained_by(metadata, sequence))
    mine, yours = manifest_of(batch), manifest_of(batch, sources=(2,))
    folder = f"file://{tmp_path}"

    assert manifests.publish(folder, mine, "a") == mine
    assert manifests.publish(folder, yours, "b") == mine


def test_a_manifest_that_makes_no_sense_is_named(tmp_path):
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "x.json").write_text("{")

    with pytest.raises(ManifestError, match=r"Manifest x in .* cannot be read"):
        manifests.find(str(tmp_path), "x")


def test_what_is_discarded_may_be_gone(tmp_path):
    (tmp_path / "attempt").mkdir()
    (tmp_path / "attempt" / "part").write_text("")

    manifests.discard(str(tmp_path / "attempt"))
    manifests.discard(str(tmp_path / "attempt"))

    assert list(tmp_path.iterdir()) == []


def test_a_manifest_suits_only_with_enough_sources():
    metadata, sequence = joining()
    gained = gained_by(metadata, sequence)
    changes = {item.change.range: item.change for item in gained}
    (batch,) = batches(gained)
    everybody = tuple(range(1, 6))

    assert suits(manifest_of(batch, sources=everybody), changes, sequence)
    assert not suits(manifest_of(batch, sources=()), changes, sequence)
    dead = msgspec.structs.replace(sequence, dead=(NodeId(2),))
    assert not suits(manifest_of(batch, sources=everybody), changes, dead)
    lossy = msgspec.structs.replace(sequence, accept_loss="a disk is gone")
    assert suits(manifest_of(batch, sources=(1,)), changes, lossy)
    fewer = dict(list(changes.items())[1:])
    assert not suits(manifest_of(batch, sources=everybody), fewer, sequence)
