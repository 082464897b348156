"""Each rule about metadata finds what breaks it."""

from __future__ import annotations

import msgspec
import pytest

from metadata.cluster import NOTHING_YET, ClusterMetadata
from metadata.directory import NodeId, NodeState
from metadata.epoch import Epoch
from metadata.hashed_map import HashedMap
from metadata.image import image_of, metadata_of
from metadata.invariants import broken_between, violations
from metadata.locks import AffectedRanges, SequenceId
from metadata.placements import Group, Placements, RingPlacement, build
from metadata.plans import Step
from metadata.schema import TableId
from metadata.sequences import SequenceKind, Taken
from metadata.sessions import SessionId
from tests.builders import commit, founded, in_step, joined_cluster, only_sequence, registration
from transformations.initialize import TriggerSnapshot
from transformations.schema import CreateKeyspace

replace = msgspec.structs.replace


def rules(metadata):
    return {violation.rule for violation in violations(metadata)}


def with_part(metadata, name, **changed):
    return replace(metadata, **{name: replace(getattr(metadata, name), **changed)})


def imaged(metadata, **changed):
    """The metadata of its own image, made over."""
    return metadata_of(replace(image_of(metadata), **changed))


def first(items, **changed):
    """The first of these made over."""
    return (replace(items[0], **changed), *items[1:])


def settled():
    return joined_cluster(nodes=4, spare=1)


def moving(kind=SequenceKind.JOIN, step=Step.START):
    return in_step(settled(), kind, step)


def with_placement(metadata, change):
    ((key, placement),) = metadata.placements.items()
    placed = Placements(placed={key: change(placement)}, epoch=metadata.placements.epoch)
    return replace(metadata, placements=placed)


def with_groups(metadata, side, change):
    """One side of the only placement, group by group."""

    def changed(placement):
        groups = getattr(placement, side)
        pairs = zip(groups.places, groups.groups, strict=True)
        made = build((place, change(group)) for place, group in pairs)
        return replace(placement, **{side: made})

    return with_placement(metadata, changed)


def with_sequence(metadata, **changed):
    sequence = replace(only_sequence(metadata), **changed)
    in_progress = HashedMap({sequence.id: sequence})
    return with_part(metadata, "sequences", in_progress=in_progress)


def with_locks(metadata, held):
    return with_part(metadata, "locks", held=HashedMap(held))


@pytest.mark.parametrize("step", [Step.PREPARE, Step.START, Step.MID, Step.FINISH, Step.CANCEL])
@pytest.mark.parametrize("kind", SequenceKind)
def test_nothing_is_wrong_with_what_a_log_leads_to(kind, step):
    before = moving(kind, step)
    after = commit(before, TriggerSnapshot())

    assert not list(violations(before))
    assert not list(broken_between(before, after))
    assert not list(violations(NOTHING_YET))


def broken():
    """What is broken, by the rule that must find it."""
    image = image_of(settled())
    busy = moving()
    sequence = only_sequence(busy)
    other = SequenceId(sequence.id - 1)
    yield "epochs", with_part(settled(), "ring", epoch=999)
    yield "epochs", with_groups(settled(), "reads", lambda group: replace(group, epoch=999))
    yield "ids", imaged(settled(), next_node=NodeId(3))
    yield "ids", imaged(settled(), next_table=TableId(1))
    yield "ids", with_sequence(busy, taken=sequence.taken[1:])
    yield "ids", with_sequence(busy, taken=(Taken(Step.PREPARE, Epoch(other)), *sequence.taken[1:]))
    yield (
        "directory",
        imaged(settled(), nodes=first(image.nodes, addresses=image.nodes[1].addresses)),
    )
    yield "directory", imaged(settled(), nodes=first(image.nodes, state=NodeState.LEFT))
    yield (
        "directory",
        imaged(
            settled(), nodes=(*image.nodes[:4], replace(image.nodes[4], state=NodeState.JOINED))
        ),
    )
    yield "ring", imaged(settled(), ring=first(image.ring, tokens=image.ring[1].tokens))
    yield "schema", with_part(settled(), "schema", keyspaces=HashedMap())
    yield "schema", with_placement_unused(settled())
    yield "schema", replace(settled(), placements=Placements(epoch=settled().placements.epoch))
    yield "boundaries", with_placement(settled(), lambda _: RingPlacement())
    yield "owners", with_groups(settled(), "reads", lambda _: Group((NodeId(1),), Epoch(1)))
    yield "owners", with_groups(settled(), "writes", lambda _: Group((NodeId(1),), Epoch(1)))
    yield "locks", with_locks(busy, {})
    yield "locks", with_locks(settled(), {other: busy.locks.held[sequence.id]})
    yield "locks", with_locks(busy, {sequence.id: AffectedRanges()})
    yield (
        "locks",
        with_locks(busy, dict.fromkeys((sequence.id, other), busy.locks.held[sequence.id])),
    )
    yield "sequences", twice_busy(busy)
    yield "sequences", imaged(busy, nodes=_with_state(busy, 5, NodeState.REGISTERED))
    yield "sequences", with_sequence(busy, plans=(_too_fast(sequence.plans[0]),))
    yield "sessions", with_part(busy, "sessions", open=HashedMap())
    yield "sessions", with_sequence(busy, session=SessionId(3))
    yield "sessions", replace(moving(step=Step.MID), sessions=busy.sessions)
    yield "sessions", replace(settled(), sessions=busy.sessions)


def with_placement_unused(metadata):
    placed = {**metadata.placements.placed, "simple:9": RingPlacement()}
    return with_part(metadata, "placements", placed=placed)


def twice_busy(metadata):
    sequence = only_sequence(metadata)
    again = replace(sequence, id=SequenceId(3), taken=(Taken(Step.PREPARE, Epoch(3)),))
    both = HashedMap({3: again, sequence.id: sequence})
    return with_part(metadata, "sequences", in_progress=both)


def _with_state(metadata, number, state):
    nodes = image_of(metadata).nodes
    return tuple(replace(x, state=state) if x.id == number else x for x in nodes)


def _too_fast(plan):
    change = replace(plan.changes[0], after=(NodeId(1),), before=tuple(map(NodeId, range(1, 6))))
    return replace(plan, changes=(change, *plan.changes[1:]))


@pytest.mark.parametrize("number", range(len(list(broken()))))
def test_finds_what_is_broken(number):
    rule, metadata = list(broken())[number]

    assert rule in rules(metadata)


def test_finds_tokens_of_a_stranger():
    metadata = imaged(joined_cluster(nodes=4, replication=None), nodes=())

    found = [violation.detail for violation in violations(metadata)]

    assert "node 1 has tokens and is not registered" in found


def between(before, after):
    return {violation.rule for violation in broken_between(before, after)}


def test_finds_a_gap_between_two_epochs():
    assert between(founded(), commit(founded(), TriggerSnapshot(), TriggerSnapshot())) == {"dense"}


def test_finds_a_component_that_hides_its_change():
    before = founded()
    after = commit(before, registration(1))
    hidden = with_part(after, "directory", epoch=before.directory.epoch)

    assert between(before, hidden) == {"modified"}


def test_finds_numbers_that_would_be_given_again():
    before = joined_cluster(nodes=2)
    after = commit(before, TriggerSnapshot())

    nodes = with_part(after, "directory", next_node=NodeId(1), epoch=after.epoch)
    tables = with_part(after, "schema", next_table=TableId(1), epoch=after.epoch)

    assert between(before, nodes) == {"ids"}
    assert between(before, tables) == {"ids"}


@pytest.mark.parametrize("side", ["reads", "writes"])
def test_finds_groups_that_are_stamped_without_cause(side):
    before = settled()
    after = commit(before, TriggerSnapshot())

    stamped = with_groups(after, side, lambda group: replace(group, epoch=after.epoch))
    moved = with_groups(after, side, lambda group: replace(group, owners=(NodeId(4),)))

    assert "bumped" in between(before, stamped)
    assert "bumped" in between(before, moved)


def test_a_placement_that_comes_has_no_past():
    before = joined_cluster(nodes=3)
    replication = before.schema.keyspaces["shop"].replication

    after = commit(before, CreateKeyspace(name="more", replication=replace(replication, factor=2)))

    assert isinstance(after, ClusterMetadata)
    assert not between(before, after)
