"""Replay leads where the log led when it was written, and names the epoch where it does not."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from encoding.entries import encode_entry
from encoding.images import decode_image, encode_image
from log.chain import NO_HASH, link, seal
from log.replay import NOTHING_APPLIED, Applied, ReplayError, apply, replay, replayed
from metadata.cluster import NOTHING_YET
from metadata.directory import NodeId
from metadata.epoch import Epoch
from tests.golden.history import history
from transformations.directory import Unregister
from transformations.extensions import SetExtension
from transformations.outcome import Result

HISTORY = history()
ENTRIES = HISTORY.entries
LENGTH = len(ENTRIES)
STEPS = [NOTHING_APPLIED, *replayed(ENTRIES)]

places = st.integers(0, LENGTH - 1)


def rewritten(place, **changes):
    """History with one entry changed, and every later one chained to it as a forger would."""
    forged = ENTRIES[:place]
    tip = forged[-1].hash if forged else NO_HASH
    for sealed in ENTRIES[place:]:
        entry = sealed.entry
        if sealed is ENTRIES[place]:
            entry = msgspec.structs.replace(entry, **changes)
        forged.append(seal(entry, tip))
        tip = forged[-1].hash
    return forged


def fault_of(entries, onto=NOTHING_APPLIED):
    with pytest.raises(ReplayError) as caught:
        replay(entries, onto)
    return caught.value


def test_replay_equals_live():
    assert replay(ENTRIES) == HISTORY.applied
    assert replay([]) == NOTHING_APPLIED
    assert HISTORY.applied.tip == STEPS[-1].tip


@settings(max_examples=30)
@given(st.sets(places), st.sets(places, max_size=6))
def test_cuts_and_snapshots_change_nothing(cuts, snapshots):
    """Batches of any size; at some of the cuts the metadata goes through an image."""
    applied = NOTHING_APPLIED
    edges = sorted({0, *cuts, *snapshots, LENGTH})
    for left, right in pairwise(edges):
        applied = replay(ENTRIES[left:right], applied)
        if right in snapshots:
            applied = Applied(decode_image(encode_image(applied.metadata)), applied.hash)

    assert applied == HISTORY.applied
    assert applied.metadata.digest == HISTORY.metadata.digest


def test_every_step_of_the_way_is_shown():
    assert [step.metadata.epoch for step in STEPS] == list(range(LENGTH + 1))
    assert [step.metadata.digest for step in STEPS[1:]] == [
        sealed.entry.digest for sealed in ENTRIES
    ]


@given(places, st.data())
def test_a_changed_byte_is_found_where_it_is(place, data):
    sealed = ENTRIES[place]
    payload = bytearray(sealed.payload)
    payload[data.draw(st.integers(0, len(payload) - 1))] ^= data.draw(st.integers(1, 255))
    tampered = msgspec.structs.replace(sealed, payload=bytes(payload))

    found = fault_of([tampered], STEPS[place])

    assert found.epoch == place + 1
    assert "its hash does not fit its payload" in found.fault


@given(places)
def test_a_dropped_entry_is_missed(place):
    rest = ENTRIES[place + 1 :]
    if not rest:
        return  # Of a log that lost its end nobody can tell who does not know its tip.

    found = fault_of(rest, STEPS[place])

    assert found.epoch == place + 1
    assert found.fault == f"the entry of epoch {place + 2} is in its place"


@given(places, places)
def test_swapped_entries_are_found_at_the_first(one, other):
    assume(one != other)
    first = min(one, other)
    tampered = [*ENTRIES]
    tampered[one], tampered[other] = tampered[other], tampered[one]

    assert fault_of(tampered[first:], STEPS[first]).epoch == first + 1


@given(places)
def test_an_entry_given_twice_is_found(place):
    twice = [ENTRIES[place], *ENTRIES[place:]]

    found = fault_of(twice, STEPS[place])

    assert found.epoch == place + 2
    assert found.fault == f"the entry of epoch {place + 1} is in its place"


@pytest.mark.parametrize("column", ["previous_hash", "hash"])
def test_a_changed_hash_is_found(column):
    tampered = [*ENTRIES]
    tampered[7] = msgspec.structs.replace(ENTRIES[7], **{column: bytes(32)})

    assert fault_of(tampered).epoch == 8


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": Epoch(9)},
        {"entry_id": UUID(int=5)},
        {"kind": "Startup"},
    ],
    ids=["epoch", "entry id", "kind"],
)
def test_columns_that_contradict_the_payload_are_found(change):
    tampered = [*ENTRIES]
    tampered[7] = msgspec.structs.replace(ENTRIES[7], **change)

    found = fault_of(tampered)

    assert found.epoch == 8


def test_an_epoch_that_only_the_payload_gets_wrong_is_found():
    sealed = ENTRIES[7]
    payload = encode_entry(msgspec.structs.replace(sealed.entry, epoch=Epoch(9)))
    changed = msgspec.structs.replace(
        sealed, payload=payload, hash=link(sealed.previous_hash, payload)
    )

    found = fault_of([changed], STEPS[7])

    assert found.fault == "its epoch, entry id or kind is not what its payload says"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"digest": bytes(32)}, "another digest"),
        ({"cluster": "00000000-0000-4000-8000-00000000000f"}, "belongs to cluster"),
        ({"result": Result(node=99)}, "its result is"),
        ({"transformation": SetExtension(name="a", value="b")}, "another digest"),
        ({"transformation": Unregister(node=NodeId(99))}, "Unregister is refused: node 99"),
    ],
    ids=["digest", "cluster", "result", "other change", "refused change"],
)
def test_a_forger_who_mends_the_chain_is_found(changes, fault):
    """Hashes are no proof against whoever can compute them; what an entry says is checked too."""
    found = fault_of(rewritten(9, **changes))

    assert found.epoch == 10
    assert fault in found.fault


def test_a_forged_founding_is_found():
    other = "00000000-0000-4000-8000-00000000000f"

    assert fault_of(rewritten(0, cluster=other)).epoch == 1


@given(places)
def test_a_payload_that_is_not_an_entry_is_found(place):
    sealed = ENTRIES[place]
    payload = sealed.payload[:-1]
    broken = msgspec.structs.replace(
        sealed, payload=payload, hash=link(sealed.previous_hash, payload)
    )

    found = fault_of([broken], STEPS[place])

    assert found.epoch == place + 1
    assert "damaged" in found.fault


def test_an_entry_that_cannot_be_executed_is_named():
    """Whatever goes wrong inside, an auditor learns at which epoch."""
    broken = Applied(msgspec.structs.replace(STEPS[9].metadata, directory=None), STEPS[9].hash)

    found = fault_of(ENTRIES[9:], broken)

    assert found.epoch == 10
    assert "cannot be executed: AttributeError" in found.fault
    assert str(found).startswith("epoch 10: ")


def test_history_cannot_begin_in_the_middle():
    assert fault_of(ENTRIES[5:]).epoch == 1
    assert fault_of(ENTRIES[5:], Applied(STEPS[5].metadata, NO_HASH)).epoch == 6
    assert fault_of(ENTRIES, Applied(NOTHING_YET, ENTRIES[0].hash)).epoch == 1


def test_one_entry_at_a_time():
    """What a follower does."""
    assert apply(ENTRIES[3], STEPS[3]) == STEPS[4]
