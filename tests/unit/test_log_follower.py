"""A follower may be late; it is never wrong."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoding.entries import encode_entry
from log.chain import NO_HASH, link, seal
from log.follower import Disbelieved, Fault, Follower, Source
from log.messages import Message, message_of
from log.reorder import Room
from log.replay import NOTHING_APPLIED, ReplayError, replayed
from log.shared_replay import SharedReplay
from metadata.cluster import ClusterId
from metadata.epoch import Epoch
from tests.golden.history import history

HISTORY = history()
ENTRIES = HISTORY.entries
CLUSTER = HISTORY.applied.metadata.cluster.id
VERSIONS = list(replayed(ENTRIES))


def fanned_out(sealed, *, epoch=None, payload=None, hash=None):  # noqa: A002 as the header
    headers = (
        ("epoch", str(epoch or sealed.epoch).encode()),
        ("hash", (hash or sealed.hash).hex().encode()),
    )
    return Message(b"", sealed.payload if payload is None else payload, headers)


def follower_at(epoch=0, **options):
    applied = VERSIONS[epoch - 1] if epoch else NOTHING_APPLIED
    return Follower(applied, cluster=CLUSTER, **options)


def heard(follower, *arrivals):
    faults = [follower.hear(arrival) for arrival in arrivals]
    follower.advance()
    return faults


places = st.integers(0, len(ENTRIES) - 1)
arrivals = st.one_of(
    places.map(lambda place: fanned_out(ENTRIES[place])),
    st.tuples(places, places).map(
        lambda pair: fanned_out(ENTRIES[pair[0]], payload=ENTRIES[pair[1]].payload)
    ),
    places.map(lambda place: fanned_out(ENTRIES[place], hash=NO_HASH)),
    st.tuples(places, st.binary(max_size=40)).map(
        lambda pair: fanned_out(ENTRIES[pair[0]], payload=pair[1])
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(arrivals, max_size=80), st.integers(0, 20), st.randoms(use_true_random=False))
def test_whatever_fan_out_brings_leads_along_the_log(messages, pending_max, chance):
    """Loss, repetition, disorder and forgery: each version is one that the log led to."""
    follower = follower_at(room=Room(entries_max=pending_max))
    for message in messages:
        follower.hear(message)
        if chance.random() < 0.3:
            follower.advance()
        epoch = follower.applied.metadata.epoch
        assert follower.applied == (VERSIONS[epoch - 1] if epoch else NOTHING_APPLIED)

    follower.take(ENTRIES)
    follower.advance()

    assert follower.applied == HISTORY.applied
    assert follower.missing_from is None


def test_steps_are_dense_and_in_order():
    follower = follower_at()
    for sealed in reversed(ENTRIES):
        follower.hear(fanned_out(sealed))

    steps = follower.advance()

    assert [step.sealed for step in steps] == ENTRIES
    assert [step.applied for step in steps] == VERSIONS


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"payload": b"not Avro at all"}, Fault.UNREADABLE),
        ({"payload": b"\xc3\x01" + bytes(8) + b"of a schema nobody knows"}, Fault.UNREADABLE),
        ({"epoch": Epoch(7)}, Fault.WRONG_EPOCH),
        ({"hash": NO_HASH}, Fault.WRONG_HASH),
    ],
)
def test_a_bad_message_is_counted_and_never_applied(changes, fault):
    follower = follower_at(2)

    heard(follower, fanned_out(ENTRIES[2], **changes))

    assert follower.applied == VERSIONS[1]
    assert follower.faults == {fault: 1}
    heard(follower, fanned_out(ENTRIES[2]))
    assert follower.applied == VERSIONS[2]


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("epoch", b"3"),),
        (("epoch", b"three"), ("hash", b"0" * 64)),
        (("epoch", b"9" * 5000), ("hash", b"0" * 64)),
        (("epoch", b"3"), ("hash", b"zz" * 32)),
        (("epoch", b"3"), ("hash", "٣".encode())),
        (("epoch", None), ("hash", None)),
    ],
)
def test_a_message_without_proper_headers_is_counted(headers):
    follower = follower_at(2)

    assert heard(follower, Message(None, ENTRIES[2].payload, headers)) == [Fault.UNREADABLE]
    assert heard(follower, Message(None, None, message_of(ENTRIES[2]).headers)) == [
        Fault.UNREADABLE
    ]
    assert follower.applied == VERSIONS[1]


def test_another_clusters_message_is_no_hint_either():
    """Somebody else's topic must not make every node ask the log."""
    follower = Follower(NOTHING_APPLIED, cluster=ClusterId("another"))

    assert heard(follower, fanned_out(ENTRIES[0])) == [Fault.WRONG_CLUSTER]
    assert follower.missing_from is None


def test_a_chained_entry_with_a_false_digest_is_not_applied():
    """Forged well enough to hash, not well enough to replay."""
    forged = seal(msgspec.structs.replace(ENTRIES[2].entry, digest=bytes(32)), ENTRIES[1].hash)
    follower = follower_at(2)

    heard(follower, fanned_out(forged))

    assert follower.faults == {Fault.NOT_APPLICABLE: 1}
    assert follower.missing_from == 3


def test_an_entry_from_the_future_is_forgotten_when_the_log_ends_before_it():
    future = msgspec.structs.replace(ENTRIES[2].entry, epoch=Epoch(10**6))
    payload = encode_entry(future)
    follower = follower_at(3)
    arrival = fanned_out(ENTRIES[2], epoch=10**6, payload=payload, hash=link(NO_HASH, payload))
    assert heard(follower, arrival) == [None]
    assert follower.missing_from == 4

    follower.settle(Epoch(3))

    assert follower.missing_from is None
    assert follower.faults == {Fault.FROM_THE_FUTURE: 1}


def test_a_lying_peer_is_counted_and_what_was_true_is_kept():
    forged = seal(msgspec.structs.replace(ENTRIES[3].entry, digest=bytes(32)), ENTRIES[2].hash)
    follower = follower_at(2)

    steps = follower.take_from_peer([ENTRIES[1], ENTRIES[2], forged])

    assert [step.sealed for step in steps] == [ENTRIES[2]]
    assert follower.faults == {Fault.LYING_PEER: 1}


def test_an_entry_of_the_log_that_does_not_apply_stops_the_follower():
    """And only when it is asked for again, so that what came before it is not lost."""
    forged = seal(msgspec.structs.replace(ENTRIES[3].entry, digest=bytes(32)), ENTRIES[2].hash)
    follower = follower_at(2)

    assert len(follower.take([ENTRIES[2], forged])) == 1
    with pytest.raises(ReplayError, match="epoch 4") as caught:
        follower.take([forged])

    assert caught.value.epoch == 4
    assert follower.applied == VERSIONS[2]


def test_after_a_jump_it_goes_on_from_there():
    follower = follower_at(1)
    for place in (2, 5, 6):
        follower.hear(fanned_out(ENTRIES[place]))

    follower.jump(VERSIONS[4])
    steps = follower.advance()

    assert [step.sealed.epoch for step in steps] == [6, 7]


def test_followers_that_share_the_replay_believe_no_more_than_others():
    shared = SharedReplay()
    first, second = (follower_at(2, apply=shared.apply) for _ in range(2))
    forged = seal(msgspec.structs.replace(ENTRIES[3].entry, digest=bytes(32)), ENTRIES[2].hash)
    disguised = msgspec.structs.replace(forged, hash=ENTRIES[3].hash)

    first.take(ENTRIES[2:])
    second.take_from_peer([ENTRIES[2], disguised])

    assert second.faults == {Fault.LYING_PEER: 1}
    assert second.applied == VERSIONS[2]
    second.take(ENTRIES[3:])
    assert first.applied == second.applied == HISTORY.applied


def test_what_was_not_believed_is_named_where_it_said_so():
    follower = follower_at(2)
    stranger = msgspec.structs.replace(ENTRIES[4].entry, cluster=ClusterId("another"))
    heard(
        follower,
        Message(None, None, ()),
        fanned_out(ENTRIES[2], hash=NO_HASH),
        fanned_out(ENTRIES[4], payload=encode_entry(stranger)),
    )
    follower.hear_of(Epoch(9))
    follower.settle(Epoch(2))
    follower.take_from_peer([ENTRIES[5]])

    assert follower.disbelieved == {
        Fault.UNREADABLE: Disbelieved(Source.FAN_OUT, None),
        Fault.WRONG_HASH: Disbelieved(Source.FAN_OUT, Epoch(3)),
        Fault.WRONG_CLUSTER: Disbelieved(Source.FAN_OUT, Epoch(5)),
        Fault.FROM_THE_FUTURE: Disbelieved(Source.FAN_OUT, Epoch(9)),
        Fault.LYING_PEER: Disbelieved(Source.PEER, Epoch(6)),
    }
