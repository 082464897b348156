"""What a driver tells is never more than a CMS takes, however large the cluster is."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest

from client.connection import Connection
from metadata.barriers import Level
from metadata.directory import NodeId
from metadata.locks import SequenceId
from metadata.plans import Step
from metadata.sessions import Purpose, SessionId
from sequences.barrier import Waiting
from sequences.status import Board, Doing, ReconfigurationStatus, SessionStatus, Status
from services.driver.telling import Telling, in_parts
from services.http.progress import PROGRESS_BYTES_MAX, SEQUENCES_MAX, Progress

NODES = 1_500
CLOSING = Waiting(tuple(map(NodeId, range(1, NODES))), NODES - 1, (NodeId(77),), all_of=True)


def taken(message: Progress) -> Progress:
    """As a CMS takes it."""
    body = msgspec.json.encode(message)
    assert len(body) <= PROGRESS_BYTES_MAX
    return msgspec.json.decode(body, type=Progress)


def groups(many: int) -> list[Waiting]:
    """Of a ring with many tokens for each node: every group is another one."""
    nodes = [tuple(NodeId(1 + (index * step) % 99) for step in (1, 7, 31)) for index in range(many)]
    return [Waiting(group, 2, group) for group in nodes]


def telling(board: Board) -> Telling:
    nobody = cast("Connection", None)
    return Telling("driver-1", Level.EACH_QUORUM, board, nobody, lambda _: None)


def waiting_for(number: int, waiting: list[Waiting], detail: str = "") -> Status:
    return Status(
        sequence=SequenceId(number),
        step=Step.MID,
        doing=Doing.WAITING,
        since_s=0.0,
        detail=detail,
        waiting=tuple(waiting),
    )


@pytest.mark.parametrize("many", [1, 99, 1_700, 30_000])
def test_everybody_who_is_waited_for_is_named_whatever_the_number_of_groups(many):
    board = Board()
    board.put(waiting_for(7, [*groups(many), CLOSING]))

    (found,) = taken(telling(board).progress(1.0)).sequences

    wanted = {node for item in groups(many) for node in item.missing} | {77}
    assert {node for item in found.waiting for node in item.missing} == wanted
    assert [item.missing for item in found.waiting if item.all_of] == [(77,)]


def test_few_groups_are_told_as_they_are():
    board = Board()
    same = groups(5) * 2
    board.put(waiting_for(7, same))

    (found,) = taken(telling(board).progress(1.0)).sequences

    assert [item.group for item in found.waiting] == [item.group for item in same]


def test_all_that_is_stuck_is_told_in_as_many_messages_as_a_cms_takes():
    board = Board()
    board.put_reconfiguration(
        ReconfigurationStatus(sequence=SequenceId(1), doing=Doing.STUCK, since_s=0.0)
    )
    for number in range(2, SEQUENCES_MAX + 2):
        board.put(waiting_for(number, groups(50), detail="\x1b" * 2_000))
        status = SessionStatus(
            session=SessionId(10_000 + number),
            purpose=Purpose.CLEANUP,
            doing=Doing.STUCK,
            since_s=0.0,
            detail="x" * 2_000,
            nodes=tuple(map(NodeId, range(1, NODES))),
        )
        board.put_session(status)
    whole = telling(board).progress(1.0)

    parts = [taken(part) for part in in_parts(whole)]

    assert len(parts) > 1
    assert [item for part in parts for item in part.sequences] == list(whole.sequences)
    assert [item for part in parts for item in part.sessions] == list(whole.sessions)
    assert [part.reconfiguration is not None for part in parts].count(True) == 1
    assert {part.driver for part in parts} == {"driver-1"}


def test_what_is_small_is_one_message_also_when_there_is_nothing():
    board = Board()
    nothing = telling(board).progress(1.0)
    assert list(in_parts(nothing)) == [nothing]

    board.put(waiting_for(7, groups(3)))
    found = telling(board).progress(1.0)
    assert list(in_parts(found)) == [found]
