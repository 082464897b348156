"""Listeners see every version that is published, in order, and can tell what changed."""

from __future__ import annotations

from log.listeners import Change, Listeners
from metadata.cluster import COMPONENTS, NOTHING_YET
from tests.builders import commit, founded, registration
from transformations.extensions import SetExtension

FOUNDED = founded()
NAMED = commit(FOUNDED, SetExtension(name="motd", value="hello"))
KNOWN = commit(NAMED, registration(1))


def unexpected(listener, error):
    raise error


def test_each_is_told_in_the_order_of_coming():
    told: list[str] = []
    listeners = Listeners(unexpected)
    listeners.add(lambda _: told.append("first"))
    listeners.add(lambda _: told.append("second"))

    listeners.publish(FOUNDED)

    assert told == ["first", "second"]


def test_a_change_names_what_it_changed():
    changes: list[Change] = []
    listeners = Listeners(unexpected)
    listeners.add(changes.append)

    listeners.publish(FOUNDED)
    listeners.publish(NAMED)
    listeners.publish(KNOWN)

    assert [change.components for change in changes[1:]] == [{"extensions"}, {"directory"}]
    assert [(change.previous, change.metadata) for change in changes] == [
        (NOTHING_YET, FOUNDED),
        (FOUNDED, NAMED),
        (NAMED, KNOWN),
    ]


def test_a_skipped_epoch_is_one_change_of_all_that_differs():
    changes: list[Change] = []
    listeners = Listeners(unexpected)
    listeners.publish(FOUNDED)
    listeners.add(changes.append)

    listeners.publish(KNOWN)

    assert changes[-1].is_jump
    assert changes[-1].components == {"extensions", "directory"}


def test_a_late_one_first_gets_the_whole():
    changes: list[Change] = []
    listeners = Listeners(unexpected)
    listeners.publish(KNOWN)

    listeners.add(changes.append)

    assert [(change.previous, change.metadata) for change in changes] == [(NOTHING_YET, KNOWN)]
    assert {"cluster", "directory", "extensions"} <= changes[0].components <= set(COMPONENTS)


def test_one_that_fails_is_reported_and_the_others_are_told():
    told: list[Change] = []
    failed: list[object] = []

    def broken(change):
        raise RuntimeError("no")

    listeners = Listeners(lambda listener, error: failed.append((listener, str(error))))
    listeners.add(broken)
    listeners.add(told.append)

    listeners.publish(FOUNDED)
    listeners.publish(NAMED)

    assert failed == [(broken, "no")] * 2
    assert len(told) == 2


def test_one_that_is_removed_is_told_no_more():
    told: list[Change] = []
    listeners = Listeners(unexpected)
    listeners.add(told.append)
    listeners.publish(FOUNDED)

    listeners.remove(told.append)
    listeners.publish(NAMED)

    assert len(told) == 1
