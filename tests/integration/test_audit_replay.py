"""An audit finds nothing in what the core decided, and whatever somebody did to it."""

from __future__ import annotations

import os

import msgspec
import pytest

from audit.findings import FINDINGS_PER_RULE_MAX, Grade
from audit.history import UnknownEpochError, metadata_at
from audit.people import OTHERS, People
from audit.replay import Progress, audited
from encoding.differences import placement_changes
from encoding.images import encode_image
from log.chain import NO_HASH, seal
from log.replay import Applied, replayed
from metadata.directory import NodeId, NodeState
from metadata.epoch import EMPTY, Epoch
from metadata.locks import AffectedRanges, SequenceId
from metadata.placements import Placements
from metadata.ring import Ring
from metadata.tokens import Token
from tests.golden.history import history as golden
from tests.golden.recordings import VERSIONS, read_log
from tests.golden.scribe import Scribe
from tests.histories import FOUNDING, MemoryHistory, kept, simulated, transitions
from transformations.directory import Unregister
from transformations.extensions import SetExtension

DRAWN = int(os.environ["SIMULATION_SEED"])
ENTRIES = golden().entries
LENGTH = len(ENTRIES)


def errors_in(report):
    return [finding for finding in report.findings if finding.grade is Grade.ERROR]


def rewritten(place, **changes):
    """History with one entry changed, and every later one chained to it as a forger would."""
    forged = list(ENTRIES[:place])
    tip = forged[-1].hash if forged else NO_HASH
    for sealed in ENTRIES[place:]:
        entry = sealed.entry
        if sealed is ENTRIES[place]:
            entry = msgspec.structs.replace(entry, **changes)
        forged.append(seal(entry, tip))
        tip = forged[-1].hash
    return forged


@pytest.mark.parametrize("seed", [3, 7, 301, 317, 401, 881611, DRAWN])
def test_a_simulated_history_breaks_no_rule(seed):
    """Repeat a failure with SIMULATION_SEED=SEED."""
    print(f"seed {seed}")
    scribe = simulated(seed, steps=200)

    report = audited(kept(scribe.entries, every=40))

    assert not errors_in(report), errors_in(report)
    assert report.holds
    assert report.entries == len(scribe.entries)
    assert report.digest == scribe.metadata.digest.hex()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_recorded_history_breaks_no_rule(version):
    report = audited(kept(read_log(version), every=10))

    assert not errors_in(report)
    assert {"forced", "accepted-loss", "unfinished"} <= set(report.counts)


def test_it_is_said_who_did_what_under_which_role():
    deeds = {(item.actor, item.role): item.kinds for item in audited(kept(ENTRIES)).people}

    assert deeds["root", "admin"] == {"ForceSnapshot": 1}
    assert deeds["ada", "operator"] == {"Initialize": 1}
    assert set(deeds["driver", "node"]) >= {"StartJoin", "MidMove", "RetireSequence"}


def test_actors_beyond_the_bound_are_counted_together():
    people = People()
    for number in range(1_200):
        people.saw(f"actor {number}", "SetExtension")

    assert {item.actor: item.kinds for item in people.deeds()}[OTHERS] == {"SetExtension": 200}


def test_a_refused_entry_is_named_and_the_rest_is_checked_from_the_next_snapshot():
    honest = kept(ENTRIES, every=20)
    forged = rewritten(24, transformation=Unregister(node=NodeId(99)))
    images = honest.images

    report = audited(MemoryHistory(forged, images))

    (first,) = errors_in(report)
    assert (first.epoch, first.rule) == (25, "replay")
    assert "node 99 is not registered" in first.explanation
    assert [(part.first, part.last) for part in report.unchecked] == [(25, 40)]
    assert report.entries == 24 + LENGTH - 40


def test_without_a_later_snapshot_the_rest_stays_unchecked():
    forged = rewritten(24, digest=bytes(32))

    report = audited(MemoryHistory(forged))

    assert errors_in(report)[0].epoch == 25
    assert [(part.first, part.last) for part in report.unchecked] == [(25, LENGTH)]
    assert not report.holds


def test_an_entry_id_used_twice_is_found():
    forged = rewritten(30, entry_id=ENTRIES[3].entry_id)

    found = errors_in(audited(MemoryHistory(forged)))

    assert [(item.epoch, item.rule) for item in found] == [(31, "entry-id")]


def test_a_clock_that_went_back_is_a_note():
    forged = rewritten(30, committed_at=1)

    report = audited(MemoryHistory(forged))

    (note,) = [item for item in report.findings if item.rule == "committed-at"]
    assert (note.epoch, note.grade) == (31, Grade.NOTE)
    assert report.holds


@pytest.mark.parametrize(
    "image",
    [b"not an image", encode_image(metadata_at(kept(ENTRIES), Epoch(39)).metadata)],
    ids=["damaged", "of another epoch"],
)
def test_a_snapshot_that_is_not_that_of_its_epoch_is_found(image):
    forged = kept(ENTRIES, every=20)
    forged.images[Epoch(40)] = image

    (found,) = errors_in(audited(forged))

    assert (found.epoch, found.rule) == (40, "snapshot")


def test_what_only_the_whole_metadata_shows_is_traced_to_its_epoch():
    """A release with a fault: from epoch 33 on the ring has lost a node's tokens."""
    versions = {item.metadata.epoch: item for item in replayed(ENTRIES)}

    def crooked(sealed, onto):
        found = versions[sealed.epoch]
        if sealed.epoch < 33:
            return found
        ring = found.metadata.ring
        lost = msgspec.structs.replace(ring.without(NodeId(2)), epoch=ring.epoch)
        return Applied(msgspec.structs.replace(found.metadata, ring=lost), found.hash)

    report = audited(kept(ENTRIES), step=crooked)

    whole = [item for item in errors_in(report) if item.rule.startswith("state-")]
    assert whole
    assert {item.epoch for item in whole if "node 2" in item.explanation} == {33}


def without_tokens(metadata):
    ring = metadata.ring.without(NodeId(2))
    return {"ring": msgspec.structs.replace(ring, epoch=metadata.ring.epoch)}


def gone(metadata):
    left = metadata.directory.with_state(NodeId(2), NodeState.LEFT)
    return {"directory": msgspec.structs.replace(left, epoch=metadata.directory.epoch)}


def with_one_address(metadata):
    nodes = metadata.directory.nodes
    twin = msgspec.structs.replace(nodes[NodeId(2)], addresses=nodes[NodeId(1)].addresses)
    changed = metadata.directory.with_node(twin)
    return {"directory": msgspec.structs.replace(changed, epoch=metadata.directory.epoch)}


def with_other_owners(metadata):
    (key, placement), *_ = metadata.placements.items()
    first, *rest = placement.reads.groups
    other = msgspec.structs.replace(first, owners=(*first.owners[1:], NodeId(6)))
    reads = msgspec.structs.replace(placement.reads, groups=(other, *rest))
    placed = metadata.placements.placed
    changed = {**placed, key: msgspec.structs.replace(placement, reads=reads)}
    return {"placements": msgspec.structs.replace(metadata.placements, placed=changed)}


def without_placements(metadata):
    return {"placements": Placements(epoch=metadata.placements.epoch)}


def locked_by_nobody(metadata):
    ranges = AffectedRanges()
    held = metadata.locks.held.with_item(SequenceId(3), ranges)
    return {"locks": msgspec.structs.replace(metadata.locks, held=held)}


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (without_tokens, "state-directory"),
        (gone, "state-directory"),
        (with_one_address, "state-directory"),
        (with_other_owners, "state-owners"),
        (without_placements, "state-schema"),
        (locked_by_nobody, "state-locks"),
    ],
)
@pytest.mark.parametrize("first", [30, 33, 47])
def test_what_is_broken_for_a_while_is_found_where_it_begins(broken, rule, first):
    """A release with a fault that a later entry heals, long before all is checked again."""
    versions = {item.metadata.epoch: item for item in replayed(ENTRIES)}

    def crooked(sealed, onto):
        found = versions[sealed.epoch]
        if not first <= sealed.epoch < first + 9:
            return found
        changed = msgspec.structs.replace(found.metadata, **broken(found.metadata))
        return Applied(changed, found.hash)

    found = [item for item in errors_in(audited(kept(ENTRIES), step=crooked)) if item.rule == rule]
    thorough = audited(kept(ENTRIES), step=crooked, thorough=True)

    assert found
    assert found[0].epoch == first
    assert {item.rule for item in found} <= {item.rule for item in thorough.findings}


def test_metadata_that_cannot_be_checked_is_a_finding():
    versions = {item.metadata.epoch: item for item in replayed(ENTRIES)}
    gone = Ring(tokens=(Token(1),))

    def crooked(sealed, onto):
        found = versions[sealed.epoch]
        return Applied(msgspec.structs.replace(found.metadata, ring=gone), found.hash)

    assert any(
        item.rule.startswith("state-") for item in errors_in(audited(kept(ENTRIES), step=crooked))
    )


def test_one_rule_does_not_hide_the_others():
    scribe = Scribe()
    scribe.commit(FOUNDING)
    for number in range(150):
        scribe.commit(SetExtension(name="a", value=str(number)))

    report = audited(kept(scribe.entries))

    assert report.counts == {"nameless": 151}
    assert len(report.findings) == FINDINGS_PER_RULE_MAX
    assert report.dropped == 51


def test_a_replay_can_go_on_where_another_stopped():
    history = kept(ENTRIES, every=10)

    first = audited(history, up_to=Epoch(30))
    second = audited(history, after=Epoch(30))

    assert first.entries == 30
    assert second.entries == LENGTH - 30
    assert second.digest == audited(history).digest


def test_progress_ends_at_the_end():
    seen: list[Progress] = []

    audited(kept(ENTRIES), progress=seen.append)

    assert (seen[-1].epoch, seen[-1].up_to) == (LENGTH, LENGTH)


def test_an_epoch_beyond_the_tip_is_refused():
    with pytest.raises(UnknownEpochError, match="ends at 64"):
        audited(kept(ENTRIES), up_to=Epoch(65))


def test_an_empty_history_holds():
    report = audited(MemoryHistory([]))

    assert (report.entries, report.up_to, report.holds) == (0, EMPTY, True)


def test_a_missing_tail_is_found():
    class Short(MemoryHistory):
        def entries(self, after, up_to):
            yield from super().entries(after, min(up_to, 50))

    (found,) = errors_in(audited(Short(ENTRIES)))

    assert (found.epoch, found.rule, found.explanation) == (51, "replay", "it is missing")


@pytest.mark.parametrize("seed", [5, 23, DRAWN])
def test_what_a_step_changed_is_found_without_looking_at_everything(seed):
    """The same ranges and owners as a comparison of the whole placements finds."""
    print(f"seed {seed}")
    for found in transitions(simulated(seed, steps=150).entries):
        quick = [
            (
                change.placement,
                str(change.range.left),
                str(change.range.right),
                (list(change.readers_before), list(change.readers)),
                (list(change.writers_before), list(change.writers)),
            )
            for change in found.changes
        ]
        thorough = [
            (
                item["placement"],
                item["left"],
                item["right"],
                (item["readers"]["before"], item["readers"]["after"]),
                (item["writers"]["before"], item["writers"]["after"]),
            )
            for item in placement_changes(found.before, found.after)
        ]
        assert quick == thorough, found.kind
