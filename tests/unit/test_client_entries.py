"""Entries out of an answer are believed only when their hashes fit."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.containers import verified_container
from client.entries import verified
from client.errors import CorruptEntryError
from encoding.json import entry_json
from log.chain import NO_HASH
from log.containers import container
from log.entry import SealedEntry
from metadata.epoch import EMPTY, Epoch
from tests.golden.recordings import VERSIONS, read_log

LOG = read_log(VERSIONS[-1])


def plain(sealed):
    return entry_json(sealed.entry, previous_hash=sealed.previous_hash, entry_hash=sealed.hash)


def raws(plains):
    return [msgspec.Raw(msgspec.json.encode(item)) for item in plains]


def test_a_recorded_log_is_verified_whole():
    found = list(verified(raws(map(plain, LOG)), after=EMPTY, after_hash=NO_HASH))

    assert found == LOG


def test_a_log_may_be_entered_in_the_middle():
    found = list(verified(raws(map(plain, LOG[3:5])), after=Epoch(3), after_hash=None))

    assert found == LOG[3:5]


@pytest.mark.parametrize("entries", [LOG[1:3], [LOG[0], LOG[2]], [LOG[0], LOG[0]]])
def test_a_gap_is_noticed(entries):
    with pytest.raises(CorruptEntryError, match="was due and"):
        list(verified(raws(map(plain, entries)), after=EMPTY, after_hash=NO_HASH))


def test_another_history_is_noticed():
    with pytest.raises(CorruptEntryError, match="does not continue"):
        list(verified(raws([plain(LOG[3])]), after=Epoch(3), after_hash=b"\x01" * 32))


@pytest.mark.parametrize(
    "change",
    [
        {"actor": "mallory"},
        {"committed_at": 1},
        {"kind": "TriggerSnapshot"},
        {"hash": "11" * 32},
        {"digest": "11" * 32},
        {"result": {"node": 77}},
    ],
)
def test_a_changed_entry_is_noticed(change):
    with pytest.raises(CorruptEntryError, match="does not fit"):
        list(verified(raws([{**plain(LOG[0]), **change}]), after=EMPTY, after_hash=NO_HASH))


@pytest.mark.parametrize("change", [{"hash": "x"}, {"epoch": "one"}, {"transformation": {}}])
def test_what_is_no_entry_is_noticed(change):
    with pytest.raises(CorruptEntryError, match="cannot be read"):
        list(verified(raws([{**plain(LOG[0]), **change}]), after=EMPTY, after_hash=NO_HASH))


def test_stored_bytes_are_verified_whole():
    body = container(LOG, {"tip": "1"})

    assert list(verified_container(body, after=EMPTY, after_hash=NO_HASH)) == LOG
    assert list(verified_container(container([], {}), after=EMPTY, after_hash=NO_HASH)) == []


@pytest.mark.parametrize("entries", [LOG[1:3], [LOG[0], LOG[2]], [LOG[0], LOG[0]]])
def test_a_gap_in_stored_bytes_is_noticed(entries):
    with pytest.raises(CorruptEntryError, match="was due and"):
        list(verified_container(container(entries, {}), after=EMPTY, after_hash=NO_HASH))


def test_stored_bytes_of_another_history_are_noticed():
    with pytest.raises(CorruptEntryError, match="does not continue"):
        list(verified_container(container(LOG[3:], {}), after=Epoch(3), after_hash=b"\x01" * 32))


@given(st.data())
def test_no_changed_or_cut_byte_goes_unnoticed(data):
    """Whatever is changed, no entry comes out that is not in the log."""
    body = bytearray(container(LOG[:3], {}))
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(place, len(body)))
    found: list[SealedEntry] = []
    with suppress(CorruptEntryError):
        found.extend(verified_container(bytes(body[:cut]), after=EMPTY, after_hash=NO_HASH))

    assert found == LOG[: len(found)]
