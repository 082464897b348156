"""Each rule of an audit is silent on an honest step and speaks up on a forged one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from audit.rules import RULES, broken
from audit.transition import Transition
from metadata.barriers import Evidence, Level
from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId, NodeState
from metadata.epoch import Epoch
from metadata.extensions import Extension, Extensions
from metadata.hashed_map import HashedMap
from metadata.locks import AffectedRanges, Locks, PlacementRanges, SequenceId
from metadata.placements import Group, RingPlacement, build, settled
from metadata.plans import PlacementPlan, RangeChange, Step
from metadata.receipts import Figures, Source
from metadata.schema import Simple
from metadata.sequences import Sequences, Taken
from metadata.sessions import Purpose, Session, SessionId
from metadata.tokens import FULL, Range, Token
from tests.builders import CLUSTER, keyspace, registration
from tests.golden.scribe import Scribe
from tests.histories import transitions
from transformations.ending import CancelSequence
from transformations.extensions import SetExtension
from transformations.initialize import Initialize
from transformations.join import PrepareJoin, UnsafeJoin
from transformations.outcome import Result

replace = msgspec.structs.replace
KEY = Simple(3).key
ADA: dict[str, Any] = {"actor": "ada", "reason": "we grow"}


def written() -> Scribe:
    """Four nodes hold a table, a fifth joins, a sixth is cancelled half way."""
    scribe = Scribe()
    scribe.commit(Initialize(name="shop", cluster=CLUSTER), **ADA)
    for number in range(1, 7):
        scribe.commit(registration(number), **ADA)
    for number in range(1, 5):
        scribe.commit(UnsafeJoin(node=NodeId(number), tokens=(Token(100 * number),)), **ADA)
    for made in keyspace(Simple(3)):
        scribe.commit(made, **ADA)
    scribe.commit(SetExtension(name="note", value="a"), **ADA)
    joined = scribe.commit(PrepareJoin(node=NodeId(5), tokens=(Token(150),)), **ADA)
    scribe.advance(joined.sequence, to=Step.RETIRE)
    doomed = scribe.commit(PrepareJoin(node=NodeId(6), tokens=(Token(250),)), **ADA)
    scribe.advance(doomed.sequence, to=Step.MID)
    scribe.commit(CancelSequence(sequence=SequenceId(doomed.sequence or 0)), **ADA)
    scribe.advance(doomed.sequence, to=Step.RETIRE)
    accept = "the rows can be made again"
    scribe.commit(UnsafeJoin(node=NodeId(6), tokens=(Token(350),), accept_loss=accept), **ADA)
    return scribe


HONEST = transitions(written().entries)


def step(kind: str, number: int = 0) -> Transition:
    """The first, or a later, entry of a kind."""
    return [found for found in HONEST if found.kind == kind][number]


def forged(found: Transition, **after) -> Transition:
    return Transition(found.before, found.entry, replace(found.after, **after))


def reworded(found: Transition, **fields) -> Transition:
    """The same change under a transformation that says something else."""
    transformation = replace(said(found), **fields)
    return Transition(
        found.before, replace(found.entry, transformation=transformation), found.after
    )


def said(found: Transition) -> Any:
    return found.entry.transformation


def rules_of(found: Transition) -> set[str]:
    return {finding.rule for finding in broken(found)}


def with_sequence(metadata: ClusterMetadata, **changes) -> Sequences:
    (sequence,) = metadata.sequences.in_progress.values()
    changed = metadata.sequences.with_sequence(replace(sequence, **changes))
    return replace(changed, epoch=metadata.sequences.epoch)


def placed(metadata: ClusterMetadata, placement: RingPlacement):
    changed = metadata.placements.with_placements({KEY: placement})
    return replace(changed, epoch=metadata.epoch)


def test_a_rule_that_cannot_be_checked_says_so():
    """Forged metadata may lack what a rule takes for granted."""
    found = step("MidJoin")
    bare = Transition(replace(found.before, locks=Locks()), found.entry, found.after)

    explained = [finding.explanation for finding in broken(bare) if finding.rule == "barrier"]

    assert "contradicts itself" in explained[0]


def test_while_a_range_moves_a_write_needs_both_majorities():
    """Of all five writers any three would do for a write, and {1, 2, 3} misses the read {4, 5}."""
    found = step("MidJoin")
    old, new = tuple(map(NodeId, (1, 2, 3))), tuple(map(NodeId, (3, 4, 5)))
    plan = PlacementPlan(
        placement=KEY, changes=(RangeChange(range=FULL, before=old, after=new, wanted=3),)
    )
    writes = build([(2**63, Group(tuple(map(NodeId, (1, 2, 3, 4, 5))), Epoch(3)))])
    sides = [
        replace(
            metadata,
            placements=placed(metadata, RingPlacement(reads, writes)),
            sequences=with_sequence(metadata, plans=(plan,)),
        )
        for metadata, reads in (
            (found.before, build([(2**63, Group(old, Epoch(3)))])),
            (found.after, build([(2**63, Group(new, found.epoch))])),
        )
    ]

    rules = rules_of(Transition(sides[0], found.entry, sides[1]))

    assert "quorums" not in rules
    assert "planned-owners" not in rules


def test_an_honest_history_breaks_no_rule():
    rules = [rules_of(found) for found in HONEST]

    assert set().union(*rules) == {"accepted-loss"}
    assert rules[-1] == {"accepted-loss"}


def test_every_rule_has_a_code_of_its_own():
    codes = [rule.code for rule in RULES]

    assert len(set(codes)) == len(codes)
    assert {*FORGERIES} == {*codes}


def stale_component():
    found = step("SetExtension")
    return forged(found, extensions=replace(found.after.extensions, epoch=Epoch(3)))


def restamped_group():
    found = step("StartJoin")
    placement = found.after.placements.placed[KEY]
    first = Group(placement.reads.groups[0].owners, found.epoch)
    reads = replace(placement.reads, groups=(first, *placement.reads.groups[1:]))
    return forged(found, placements=placed(found.after, replace(placement, reads=reads)))


def stale_item():
    found = step("SetExtension")
    values = HashedMap({"note": Extension("a", Epoch(2))})
    return forged(found, extensions=Extensions(by_name=values, epoch=found.epoch))


def reused_number():
    found = step("Register", 3)
    entry = replace(found.entry, result=Result(node=2))
    return Transition(found.before, entry, found.after)


def shrunk_numbers():
    found = step("Register", 3)
    directory = replace(found.after.directory, next_node=NodeId(2))
    return forged(found, directory=directory)


def skipped_step():
    found = step("StartJoin")
    taken = (*found.after.sequences.in_progress.values()[0].taken, Taken(Step.MID, found.epoch))
    return forged(found, sequences=with_sequence(found.after, taken=taken))


def early_retirement():
    prepared, retired = step("PrepareJoin"), step("RetireSequence")
    return Transition(prepared.after, retired.entry, retired.after)


def other_plan():
    found = step("StartJoin")
    return forged(found, sequences=with_sequence(found.after, tokens=(Token(1),)))


def no_step():
    found = step("MidJoin")
    return Transition(found.before, found.entry, replace(found.before, epoch=found.epoch))


def step_of_another_kind():
    found = step("StartJoin")
    sequences = {
        side: with_sequence(getattr(found, side), kind="leave") for side in ("before", "after")
    }
    return Transition(
        replace(found.before, sequences=sequences["before"]),
        found.entry,
        replace(found.after, sequences=sequences["after"]),
    )


def lost_lock():
    found = step("StartJoin")
    return forged(found, locks=Locks(epoch=found.epoch))


def wider_lock():
    found = step("StartJoin")
    (item,) = found.after.locks.held
    whole = AffectedRanges((PlacementRanges(KEY, (FULL,)),))
    return forged(found, locks=Locks(held=HashedMap({item: whole}), epoch=found.epoch))


def conflicting_locks():
    found = step("PrepareJoin")
    whole = AffectedRanges((PlacementRanges(KEY, (FULL,)),))
    held = Locks(held=HashedMap({SequenceId(2): whole}))
    after = held.acquire(SequenceId(found.epoch), found.after.locks.held[SequenceId(found.epoch)])
    return Transition(
        replace(found.before, locks=held), found.entry, replace(found.after, locks=after)
    )


def narrow_lock():
    found = step("PrepareJoin")
    little = AffectedRanges((PlacementRanges(KEY, (Range(Token(1), Token(2)),)),))
    locks = Locks(held=HashedMap({SequenceId(found.epoch): little}), epoch=found.epoch)
    return forged(found, locks=locks)


def change_without_lock():
    found = step("MidJoin")
    (item,) = found.before.locks.held
    none = Locks(held=HashedMap({item: AffectedRanges()}))
    return Transition(
        replace(found.before, locks=none), found.entry, replace(found.after, locks=none)
    )


def session_left_open():
    found = step("MidJoin")
    return forged(found, sessions=found.before.sessions)


def session_from_nowhere():
    found = step("SetExtension")
    made = Session(
        id=SessionId(found.epoch), purpose=Purpose.REPAIR, nodes=(NodeId(1),), ranges=(FULL,)
    )
    sessions = replace(found.after.sessions.with_session(made), epoch=found.epoch)
    return forged(found, sessions=sessions)


def session_closed_by_another():
    started, other = step("StartJoin"), step("SetExtension")
    after = replace(started.after, epoch=Epoch(started.epoch + 1))
    sessions = replace(after.sessions.without(SessionId(started.epoch)), epoch=after.epoch)
    return Transition(started.after, other.entry, replace(after, sessions=sessions))


def owner_that_left():
    found = step("StartJoin")
    directory = found.after.directory.with_state(NodeId(1), NodeState.LEFT)
    return forged(found, directory=replace(directory, epoch=found.epoch))


def owner_that_left_by_itself():
    """No range changes owners."""
    found = step("SetExtension")
    directory = found.after.directory.with_state(NodeId(1), NodeState.LEFT)
    return forged(found, directory=replace(directory, epoch=found.epoch))


def range_with_too_few_readers():
    found = step("MidJoin")
    placement = found.after.placements.placed[KEY]
    groups = tuple(replace(group, owners=group.owners[:1]) for group in placement.reads.groups)
    reads = replace(placement.reads, groups=groups)
    return forged(found, placements=placed(found.after, replace(placement, reads=reads)))


def unknown_owner():
    found = step("StartJoin")
    directory = replace(found.after.directory.without(NodeId(1)), epoch=found.epoch)
    return forged(found, directory=directory)


def reader_that_never_wrote():
    prepared, moved = step("PrepareJoin"), step("MidJoin")
    return Transition(prepared.after, moved.entry, moved.after)


def reader_that_does_not_write():
    found = step("MidJoin")
    placement = found.after.placements.placed[KEY]
    writes = found.before.placements.placed[KEY].reads
    return forged(found, placements=placed(found.after, replace(placement, writes=writes)))


def range_without_owner():
    found = step("FinishJoin")
    return forged(found, placements=placed(found.after, settled([(2**63, ())], found.epoch)))


def unplanned_writer():
    found = step("StartJoin")
    placement = found.after.placements.placed[KEY]
    pairs = zip(placement.writes.places, placement.writes.groups, strict=True)
    writes = build(
        (place, Group((*group.owners, NodeId(6)), group.epoch)) for place, group in pairs
    )
    return forged(found, placements=placed(found.after, replace(placement, writes=writes)))


def owners_changed_by_prepare():
    found = step("PrepareJoin")
    others = settled([(2**63, (NodeId(5),))], found.epoch)
    return forged(found, placements=placed(found.after, others))


def disjoint_owners():
    found = step("FinishJoin")
    others = settled([(2**63, (NodeId(5), NodeId(6)))], found.epoch)
    return forged(found, placements=placed(found.after, others))


def jump_without_consent():
    return reworded(step("UnsafeJoin", -1), accept_loss=None)


def no_evidence():
    return reworded(step("MidJoin"), barrier=None)


def thin_evidence():
    return reworded(step("FinishJoin"), barrier=Evidence(Level.EACH_QUORUM, (NodeId(1),)))


def target_not_heard():
    everybody = tuple(map(NodeId, (1, 2, 3, 4, 6)))
    return reworded(step("FinishJoin"), barrier=Evidence(Level.EACH_QUORUM, everybody))


def evidence_of_strangers():
    barrier = said(step("FinishJoin")).barrier
    return reworded(
        step("FinishJoin"), barrier=replace(barrier, applied=(*barrier.applied, NodeId(99)))
    )


def no_receipts():
    return reworded(step("MidJoin"), receipts=())


def changed_receipt(**fields):
    def forge():
        first, *rest = said(step("MidJoin")).receipts
        return reworded(step("MidJoin"), receipts=(replace(first, **fields), *rest))

    return forge


def early_flush():
    first, *rest = said(step("MidJoin")).receipts
    sources = tuple(Source(source.node, Epoch(2)) for source in first.sources)
    return reworded(step("MidJoin"), receipts=(replace(first, sources=sources), *rest))


def forced_metadata():
    found = step("SetExtension")
    entry = replace(found.entry, transformation=Forced())
    return Transition(found.before, entry, found.after)


class Forced(msgspec.Struct, frozen=True):
    """Has the name that counts; its image does not."""


Forced.__name__ = "ForceSnapshot"


def nobody():
    found = step("SetExtension")
    return Transition(found.before, replace(found.entry, actor=None), found.after)


FORGERIES = {
    "component-epochs": [stale_component],
    "group-epochs": [restamped_group],
    "item-epochs": [stale_item],
    "ids": [reused_number, shrunk_numbers],
    "step-order": [skipped_step, early_retirement, other_plan, no_step, step_of_another_kind],
    "locks": [lost_lock, wider_lock, conflicting_locks, narrow_lock],
    "outside-lock": [change_without_lock],
    "sessions": [session_left_open, session_from_nowhere, session_closed_by_another],
    "known-owners": [owner_that_left, unknown_owner, owner_that_left_by_itself],
    "readers-write": [reader_that_never_wrote, reader_that_does_not_write],
    "no-gap": [range_without_owner],
    "planned-owners": [unplanned_writer, owners_changed_by_prepare],
    "copies": [range_with_too_few_readers],
    "quorums": [disjoint_owners],
    "jump": [jump_without_consent],
    "barrier": [no_evidence, thin_evidence, target_not_heard],
    "strange-voters": [evidence_of_strangers],
    "receipts": [
        no_receipts,
        changed_receipt(target_rows=Figures(rows=8, xor="1", sum="2")),
        early_flush,
        changed_receipt(sources=(Source(NodeId(6), Epoch(16)),)),
    ],
    "forced": [forced_metadata],
    "accepted-loss": [lambda: step("UnsafeJoin", -1)],
    "nameless": [nobody],
}


@pytest.mark.parametrize(
    ("rule", "forge"),
    [(rule, forge) for rule, forges in FORGERIES.items() for forge in forges],
)
def test_a_forged_step_breaks_the_rule(rule, forge):
    found = forge()

    findings = [finding for finding in broken(found) if finding.rule == rule]

    assert findings, rules_of(found)
    assert all(finding.epoch == found.epoch for finding in findings)
    assert all(finding.explanation for finding in findings)
