"""Allowing work outside the log, and ending the permission."""

from __future__ import annotations

from enum import StrEnum

from metadata.cluster import ClusterMetadata
from metadata.epoch import following
from metadata.sessions import Purpose, Session, SessionId
from metadata.tokens import coalesce
from transformations.fields import Nodes, Ranges, SessionRef, Verb
from transformations.guards import first_unknown
from transformations.outcome import Accepted, Outcome, Reason, Rejected, Result


class Errand(StrEnum):
    """The purposes that a session may be opened for by itself; movement comes with a sequence."""

    CLEANUP = "cleanup"
    REPAIR = "repair"


class OpenSession(Verb, frozen=True):
    purpose: Errand
    nodes: Nodes
    ranges: Ranges

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        unknown = first_unknown(metadata, self.nodes)
        if unknown is not None:
            return unknown
        if not self.nodes or not self.ranges:
            return Rejected(Reason.NOTHING_TO_DO, "a session needs a node and a range")

        session = Session(
            id=SessionId(following(metadata.epoch)),
            purpose=Purpose(self.purpose),
            nodes=tuple(sorted(set(self.nodes))),
            ranges=coalesce(self.ranges),
        )
        after = metadata.successor(sessions=metadata.sessions.with_session(session))
        return Accepted(after=after, result=Result(session=session.id))


class CloseSession(Verb, frozen=True):
    session: SessionRef

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        session = metadata.sessions.find(self.session)
        if session is None:
            return Rejected(Reason.UNKNOWN_SESSION, f"no session {self.session} is open")
        if session.sequence is not None:
            return Rejected(
                Reason.SESSION_HELD,
                f"session {session.id} belongs to sequence {session.sequence}",
                f"cancel sequence {session.sequence}, or let it go on",
                sequence=session.sequence,
            )

        return Accepted(after=metadata.successor(sessions=metadata.sessions.without(self.session)))
