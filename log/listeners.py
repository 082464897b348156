"""Telling others in this process what has become of the metadata."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from metadata.cluster import COMPONENTS, NOTHING_YET, ClusterMetadata

LISTENERS_MAX = 256


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """From one version to a later one, perhaps over several epochs at once.

    `components` are those whose content differs. `metadata.epoch` is greater than that of
    `previous`, by more than one after a jump to a snapshot.
    """

    previous: ClusterMetadata
    metadata: ClusterMetadata
    components: frozenset[str]

    @property
    def is_jump(self) -> bool:
        return self.metadata.epoch > self.previous.epoch + 1


Listener = Callable[[Change], None]


class Listeners:
    """Called one after the other in the order in which they came; each sees every version once.

    One that comes late is told everything at once: the change from nothing to the version at
    hand. One that raises is reported and stays; the others are told all the same.
    """

    def __init__(self, report: Callable[[Listener, Exception], None]) -> None:
        self._report = report
        self._metadata = NOTHING_YET
        self._listeners: list[Listener] = []

    def add(self, listener: Listener) -> None:
        assert len(self._listeners) < LISTENERS_MAX
        self._listeners.append(listener)
        if self._metadata.epoch > NOTHING_YET.epoch:
            self._tell(listener, change_between(NOTHING_YET, self._metadata))

    def remove(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    def publish(self, metadata: ClusterMetadata) -> None:
        """Only the follower calls this, with versions in order."""
        assert metadata.epoch > self._metadata.epoch
        change = change_between(self._metadata, metadata)
        self._metadata = metadata
        for listener in tuple(self._listeners):
            self._tell(listener, change)

    def _tell(self, listener: Listener, change: Change) -> None:
        try:
            listener(change)
        except Exception as error:  # noqa: BLE001 - somebody else's code; the follower goes on
            self._report(listener, error)


def change_between(previous: ClusterMetadata, metadata: ClusterMetadata) -> Change:
    # A component that stayed is the same object, which makes the comparison cheap.
    differing = (
        name
        for name in COMPONENTS
        if (after := getattr(metadata, name)) is not (before := getattr(previous, name))
        and after.digest != before.digest
    )
    return Change(previous=previous, metadata=metadata, components=frozenset(differing))
