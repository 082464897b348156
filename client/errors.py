"""What stops a client: everything that is no answer.

ClientError
├── UnreachableError            no CMS answered in time; nothing was committed
│   └── OutcomeUnknownError     the same, but a commit may have been made: ask by its entry id
├── RequestError                a CMS will not have the request as it is, however often it comes
│   ├── DivergedError           the log there is not the log that was read here
│   └── TrimmedError            the entries asked for are no longer kept
├── AnswerError                 an answer that makes no sense
├── CorruptEntryError           entries that are not what their hashes vouch for
└── NotFollowingError           a follower did not come to follow the log

A refusal of a transformation is none of these: it is a value.
"""

from __future__ import annotations

from client.answers import Problem
from encoding.entries import EntryId


class ClientError(Exception):
    """The text is a sentence for whoever runs the program."""

    retriable = False


class UnreachableError(ClientError):
    retriable = True


class OutcomeUnknownError(UnreachableError):
    """Send the same proposal with the same entry id again to learn what became of it.

    `complaint` is why nobody knows, where one address said it.
    """

    def __init__(self, message: str, entry_ids: tuple[EntryId, ...], complaint: str = "") -> None:
        super().__init__(message)
        self.entry_ids = entry_ids
        self.complaint = complaint


class RequestError(ClientError):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.sentence)
        self.problem = problem


class DivergedError(RequestError):
    """Postgres lost its tail, or this is another cluster. Going on would follow another history."""


class TrimmedError(RequestError):
    """`problem.detail` says where the entries are kept instead."""


class AnswerError(ClientError):
    pass


class CorruptEntryError(ClientError):
    pass


class NotFollowingError(ClientError):
    pass
