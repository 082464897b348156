"""The state digest covers everything, and does not depend on the way that led there."""

from __future__ import annotations

import os
import subprocess
import sys
from enum import Enum
from functools import lru_cache
from pathlib import Path

import msgspec
import pytest

from metadata.cluster import COMPONENTS, NOTHING_YET
from metadata.columns import ColumnType
from metadata.digest import canonical
from metadata.directory import Location, NodeId
from metadata.image import Image, image_of, metadata_of
from metadata.plans import Step
from metadata.schema import Column, Network, Simple
from metadata.tokens import Range, Token
from tests.builders import (
    CLUSTER,
    accepted,
    due_step,
    keyspace,
    registration,
)
from transformations.cms import (
    AdvanceCmsReconfiguration,
    CancelCmsReconfiguration,
    NewMember,
    PrepareCmsReconfiguration,
)
from transformations.directory import AlterTopology, Startup, Unregister
from transformations.ending import CancelSequence
from transformations.extensions import ClearExtension, SetExtension
from transformations.initialize import ForceSnapshot, Initialize, TriggerSnapshot
from transformations.join import PrepareJoin, UnsafeJoin
from transformations.kinds import KINDS, execute, kind_of
from transformations.leave import Assassinate, PrepareLeave
from transformations.move import PrepareMove
from transformations.replace import PrepareReplace
from transformations.schema import (
    AlterKeyspace,
    AlterTable,
    CreateKeyspace,
    DropKeyspace,
    DropTable,
)
from transformations.sessions import CloseSession, Errand, OpenSession

ROOT = Path(__file__).parents[2]
COLUMN = Column("more", ColumnType.DOUBLE)


class History:
    """A log of every kind of entry, with the metadata after each."""

    def __init__(self, name="test", cluster=CLUSTER):
        self.entries = []
        self.versions = [NOTHING_YET]
        self.commit(Initialize(name=name, cluster=cluster))

    @property
    def tip(self):
        return self.versions[-1]

    def commit(self, *transformations):
        for transformation in transformations:
            self.entries.append(transformation)
            self.versions.append(accepted(execute(transformation, self.tip)).after)

    def advance(self, sequence, *, until=None):
        """Take the steps of a sequence, up to the one given or to its end."""
        while (found := self.tip.sequences.find(sequence)) and found.last is not until:
            self.commit(due_step(self.tip, found))

    def prepare(self, transformation, *, until=None):
        self.commit(transformation)
        sequence = self.tip.epoch
        self.advance(sequence, until=until)
        return sequence


def long_history(name="test", cluster=CLUSTER):
    """Two datacenters of four nodes, three replication settings, and all kinds of entries."""
    history = History(name, cluster)
    members = (NewMember("m1", "http://m1:1"), NewMember("m2", "http://m2:1"))
    history.commit(PrepareCmsReconfiguration(add=members))
    started = history.tip.epoch
    history.commit(*[AdvanceCmsReconfiguration(sequence=started)] * 4)
    places = [(f"dc{n % 2 + 1}", f"r{n // 2 % 2 + 1}") for n in range(12)]
    history.commit(*(registration(n, place) for n, place in enumerate(places, 1)))
    history.commit(
        *keyspace(Simple(2), "shop", 2), *keyspace(Network({"dc1": 2, "dc2": 1}), "a", 0)
    )
    history.commit(CreateKeyspace(name="shopx", replication=Simple(1)))
    history.prepare(PrepareJoin(node=NodeId(1), tokens=(Token(0), Token(5000))))
    for node in range(2, 9):
        tokens = (Token(100 * node), Token(-100 * node))
        history.commit(UnsafeJoin(node=NodeId(node), tokens=tokens, accept_loss="no rows yet"))
    history.commit(
        AlterTable(keyspace="shop", name="t1", add=(COLUMN,), drop=("text",)),
        DropTable(keyspace="shop", name="t2"),
        AlterKeyspace(name="shopx", replication=Simple(3)),
        *keyspace(Simple(1), "gone"),
        DropKeyspace(name="gone"),
        Startup(node=NodeId(3), addresses={"native": "10.1.0.3:1"}, version="2"),
        AlterTopology(locations={NodeId(12): Location("dc3", "r1")}),
        Unregister(node=NodeId(12)),
        SetExtension(name="flag", value="on"),
        SetExtension(name="other", value="on"),
        ClearExtension(name="other"),
        TriggerSnapshot(),
        OpenSession(purpose=Errand.REPAIR, nodes=(NodeId(1),), ranges=(Range(Token(1), Token(2)),)),
    )
    history.commit(CloseSession(session=history.tip.epoch))
    history.prepare(PrepareJoin(node=NodeId(9), tokens=(Token(250), Token(-450))))
    history.prepare(PrepareMove(node=NodeId(2), tokens=(Token(950),)))
    history.prepare(PrepareReplace(node=NodeId(10), replaced=NodeId(4), dead=(NodeId(4),)))
    history.prepare(PrepareLeave(node=NodeId(5)))
    history.commit(Assassinate(node=NodeId(6), accept_loss="it burned"))
    turned = history.prepare(PrepareMove(node=NodeId(7), tokens=(Token(33),)), until=Step.MID)
    history.commit(CancelSequence(sequence=turned))
    history.advance(turned)
    history.commit(
        PrepareCmsReconfiguration(add=(NewMember("m3", "http://m3:1"),), remove=("m1",)),
    )
    history.commit(CancelCmsReconfiguration(sequence=history.tip.epoch))
    history.commit(ForceSnapshot(image=image_of(history.versions[-3])))
    return history


@lru_cache
def rich_metadata(*, moving=False):
    """Something of everything at once, also of what comes and goes."""
    history = long_history()
    history.commit(PrepareCmsReconfiguration(add=(NewMember("m4", "http://m4:1"),), remove=("m1",)))
    history.commit(AdvanceCmsReconfiguration(sequence=history.tip.epoch))
    span = (Range(Token(1), Token(2)),)
    history.commit(OpenSession(purpose=Errand.REPAIR, nodes=(NodeId(1),), ranges=span))
    dead, never_mind = (NodeId(8),), "never mind"
    move = PrepareMove(node=NodeId(7), tokens=(Token(33),), dead=dead, accept_loss=never_mind)
    replace = PrepareReplace(node=NodeId(11), replaced=NodeId(7), dead=dead, accept_loss=never_mind)
    history.prepare(move if moving else replace, until=Step.START)
    return history.tip


def test_the_history_has_every_kind_of_entry():
    kinds = {kind_of(entry) for entry in long_history().entries}

    assert kinds == set(KINDS)


def test_kept_incrementally_it_is_the_digest_from_scratch():
    for version in long_history().versions:
        again = metadata_of(image_of(version))

        assert again.digest == version.digest
        assert again == version
        assert hash(again) == hash(version)


def test_an_image_carries_everything():
    """Indexes too, though they are derived: they come out the same."""
    metadata = rich_metadata()

    again = metadata_of(image_of(metadata))

    for name in COMPONENTS:
        assert getattr(again, name) == getattr(metadata, name), name
    assert image_of(again) == image_of(metadata)


def test_every_entry_makes_another_digest():
    digests = [version.digest for version in long_history().versions]

    assert len(set(digests)) == len(digests)


def changed(value):
    """Values that differ from this one in one place, each with the fields that lead there.

    Of several alike, the first and the last are changed, and the last is left out.
    """
    match value:
        case msgspec.Struct():
            for field in value.__struct_fields__:
                for fields, other in changed(getattr(value, field)):
                    way = {(type(value).__name__, field), *fields}
                    yield way, msgspec.structs.replace(value, **{field: other})
        case tuple() if value:
            yield set(), value[:-1]
            for index in {0, len(value) - 1}:
                for fields, other in changed(value[index]):
                    yield fields, (*value[:index], other, *value[index + 1 :])
        case dict() if value:
            yield set(), {f"{key}x": item for key, item in value.items()}
            for fields, other in changed(tuple(value.values())):
                yield fields, dict(zip(value, other, strict=False))
        case Enum():
            yield set(), next(other for other in type(value) if other is not value)
        case bool() | int():
            yield set(), type(value)(value ^ 1)
        case str():
            yield set(), value + "x"


def all_fields(kind, seen):
    """Every field of every struct that a type mentions."""
    match kind:
        case msgspec.inspect.StructType(cls=cls, fields=fields):
            if cls.__name__ not in {name for name, _ in seen}:
                seen |= {(cls.__name__, field.name) for field in fields}
                for field in fields:
                    all_fields(field.type, seen)
        case msgspec.inspect.VarTupleType(item_type=item):
            all_fields(item, seen)
        case msgspec.inspect.DictType(value_type=item):
            all_fields(item, seen)
        case msgspec.inspect.UnionType(types=types):
            for item in types:
                all_fields(item, seen)
    return seen


def test_any_field_that_changes_changes_the_digest():
    """No two images have the same digest, and every field of every struct was among the changes."""
    visited, digests, images = set(), set(), set()

    for image in (image_of(rich_metadata()), image_of(rich_metadata(moving=True))):
        for fields, other in [(set(), image), *changed(image)]:
            visited |= fields
            images.add(canonical(other))
            digests.add(metadata_of(other).digest)

    assert visited == all_fields(msgspec.inspect.type_info(Image), set())
    assert len(digests) == len(images) > 300


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_component_counts(component):
    metadata = rich_metadata()
    part = getattr(metadata, component)

    other = msgspec.structs.replace(
        metadata, **{component: msgspec.structs.replace(part, epoch=part.epoch + 1)}
    )

    assert other.digest != metadata.digest
    assert other != metadata


def test_two_clusters_in_one_process_do_not_mix():
    ours, theirs = long_history(), long_history("other", "1" * 8 + CLUSTER[8:])
    mixed, apart = NOTHING_YET, NOTHING_YET

    for left, right in zip(ours.entries[:-1], theirs.entries[:-1], strict=True):
        mixed = accepted(execute(left, mixed)).after
        apart = accepted(execute(right, apart)).after

    assert mixed == ours.versions[-2]
    assert apart == theirs.versions[-2]
    assert mixed != apart
    assert mixed.placements.digest == apart.placements.digest


@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_digest_is_the_same_in_every_process(seed):
    """Sets and maps iterate in another order under each seed; no decision may show it."""
    code = "from tests.unit.test_metadata_digest import *; print(rich_metadata().digest.hex())"

    told = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": seed},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert told.stdout.strip() == rich_metadata().digest.hex()


def test_an_image_with_one_thing_wrong_is_refused_or_sound():
    """Whatever it says: the answer is a value, and what is accepted can be imaged again."""
    metadata = rich_metadata()

    for _, other in changed(image_of(metadata)):
        outcome = execute(ForceSnapshot(image=other), metadata)

        if not hasattr(outcome, "reason"):
            assert metadata_of(image_of(outcome.after)) == outcome.after
