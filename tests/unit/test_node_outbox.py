"""Messages that wait for the same node go together, and everybody gets the own part back."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.schema import TableId
from metadata.tokens import Token
from services.http.data_messages import (
    ROWS_MAX,
    ReadAnswer,
    ReplicaKey,
    ReplicaRead,
    ReplicaWrite,
    WriteAnswer,
)
from services.node.data.messaging import SilentError
from services.node.data.outbox import (
    KEYS_MAX,
    MESSAGE_BYTES_MAX,
    RUNNING_MAX,
    Outbox,
    joined_reads,
    joined_writes,
    split_reads,
    split_writes,
)
from services.node.data.replica import ANSWER_BYTES_MAX, fitting
from store.rows import Row

NODE = NodeId(2)


def row(number, content=b"\x80"):
    return Row(
        table=TableId(1),
        token=Token(number),
        key=str(number),
        timestamp=1,
        digest=1,
        content=content,
    )


def write(*numbers, epoch=1, content=b"\x80"):
    rows = tuple(row(number, content) for number in numbers)
    return ReplicaWrite(epoch=Epoch(epoch), table=TableId(1), rows=rows)


def read(*numbers):
    keys = tuple(ReplicaKey(token=Token(number), key=str(number)) for number in numbers)
    return ReplicaRead(epoch=Epoch(1), table=TableId(1), keys=keys)


class Wire:
    """Answers when it is let: rows with odd tokens are held, those with multiples of 3 refused."""

    def __init__(self):
        self.sent = []
        self.free = asyncio.Event()
        self.error = None

    async def __call__(self, node, message):
        self.sent.append((node, message))
        await self.free.wait()
        if self.error is not None:
            raise self.error
        tokens = [item.token for item in message.rows]
        return WriteAnswer(
            epoch=Epoch(9),
            held={place: token for place, token in enumerate(tokens) if token % 2},
            refused={place: "no" for place, token in enumerate(tokens) if not token % 3},
        )


def outbox(wire):
    return Outbox(wire, joined_writes, split_writes)


async def sent(box, *messages, node=NODE):
    tasks = [asyncio.ensure_future(box.send(node, message)) for message in messages]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_what_waits_while_others_are_under_way_goes_together():
    wire = Wire()
    box = outbox(wire)
    tasks = await sent(box, *(write(number, 100 + number) for number in range(1, 9)))
    assert len(wire.sent) == RUNNING_MAX
    wire.free.set()
    answers = await asyncio.gather(*tasks)
    assert [len(message.rows) for _, message in wire.sent] == [2, 2, 12]
    for number, answer in enumerate(answers, 1):
        tokens = (number, 100 + number)
        assert answer.epoch == 9
        assert answer.held == {place: token for place, token in enumerate(tokens) if token % 2}
        assert answer.refused == {place: "no" for place, t in enumerate(tokens) if not t % 3}
    assert not box._running
    assert not box._waiting


async def test_only_what_has_node_table_and_epoch_in_common_is_one_message():
    wire = Wire()
    box = outbox(wire)
    tasks = await sent(box, *(write(1, epoch=epoch) for epoch in (1, 2, 1, 2, 1)))
    tasks += await sent(box, write(1), node=NodeId(3))
    wire.free.set()
    await asyncio.gather(*tasks)
    lanes = [(node, message.epoch, len(message.rows)) for node, message in wire.sent]
    assert sorted(lanes) == [(2, 1, 1), (2, 1, 1), (2, 1, 1), (2, 2, 1), (2, 2, 1), (3, 1, 1)]


@pytest.mark.parametrize(
    ("messages", "wanted"),
    [
        ([write(*range(600))] * 3, [600, 600]),
        ([write(1, content=bytes(MESSAGE_BYTES_MAX // 2))] * 4, [1, 1, 1]),
        ([write(1)] * (ROWS_MAX + 1), [ROWS_MAX, 1]),
    ],
)
async def test_a_message_is_bounded(messages, wanted):
    wire = Wire()
    box = outbox(wire)
    first = await sent(box, *[write(1)] * RUNNING_MAX)
    tasks = await sent(box, *messages)
    wire.free.set()
    await asyncio.gather(*first, *tasks)
    assert [len(message.rows) for _, message in wire.sent[RUNNING_MAX:]][: len(wanted)] == wanted


async def test_whoever_is_cancelled_leaves_the_others_alone():
    wire = Wire()
    box = outbox(wire)
    under_way, other, waiting, last = await sent(box, *(write(number) for number in (1, 2, 3, 4)))
    under_way.cancel()
    waiting.cancel()
    await asyncio.sleep(0)
    wire.free.set()
    assert [len((await task).held) for task in (other, last)] == [0, 0]
    assert [item.token for _, message in wire.sent for item in message.rows] == [1, 2, 4]
    with suppress(asyncio.CancelledError):
        await waiting


async def test_a_failure_is_told_to_all_who_were_in_the_message():
    wire = Wire()
    wire.error = SilentError("away", may_have_arrived=False)
    box = outbox(wire)
    tasks = await sent(box, *(write(number) for number in range(6)))
    wire.free.set()
    for found in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(found, SilentError)
        assert not found.may_have_arrived
    assert not box._running


@pytest.mark.parametrize(("waiting_s_max", "sent_after"), [(0, 0), (60, 3)])
async def test_nobody_waits_long_behind_messages_that_fail(monkeypatch, waiting_s_max, sent_after):
    """Large rows go one by one: to a stuck node they would take a timeout each."""
    monkeypatch.setattr("services.node.data.outbox.WAITING_S_MAX", waiting_s_max)
    wire = Wire()
    wire.error = SilentError("it gave no answer in time", may_have_arrived=True)
    box = outbox(wire)
    large = bytes(MESSAGE_BYTES_MAX)
    tasks = await sent(box, *(write(number, content=large) for number in range(RUNNING_MAX + 3)))
    wire.free.set()

    found: list[Any] = await asyncio.gather(*tasks, return_exceptions=True)

    assert len(wire.sent) == RUNNING_MAX + sent_after
    may_have_arrived = [error.may_have_arrived for error in found]
    assert may_have_arrived == [True] * len(wire.sent) + [False] * (3 - sent_after)
    assert not box._running
    assert not box._waiting


async def test_what_is_broken_off_may_have_arrived():
    wire = Wire()
    box = outbox(wire)
    (task, *_) = await sent(box, write(1))
    await box.close()
    with pytest.raises(SilentError) as raised:
        await task
    assert raised.value.may_have_arrived


@given(st.lists(st.lists(st.integers(0, 99), max_size=4), min_size=1, max_size=5))
def test_reads_are_split_as_they_were_joined(groups):
    messages = [read(*numbers) for numbers in groups]
    joined = joined_reads(messages)
    flat = [key.token for key in joined.keys]
    answer = ReadAnswer(
        epoch=Epoch(3),
        rows=tuple(row(token) if token % 2 else None for token in flat),
        refused={place: "no" for place, token in enumerate(flat) if not token % 3},
    )
    for numbers, part in zip(groups, split_reads(answer, messages), strict=True):
        assert part is not None
        assert [found and found.token for found in part.rows] == [
            n if n % 2 else None for n in numbers
        ]
        assert part.refused == {place: "no" for place, n in enumerate(numbers) if not n % 3}


def test_an_answer_with_too_few_rows_makes_no_sense():
    with pytest.raises(SilentError):
        split_reads(ReadAnswer(epoch=Epoch(3), rows=()), [read(1)])


def test_an_answer_without_anything_makes_no_sense():
    with pytest.raises(SilentError):
        split_reads(ReadAnswer(epoch=Epoch(3), rows=(None,), refused={0: "too_large"}), [read(1)])


class Narrow:
    """A replica whose answers have room for a few rows, as `room` says from message to message."""

    def __init__(self, *room):
        self.room = list(room)
        self.asked = []

    async def __call__(self, _node, message):
        self.asked.append([key.token for key in message.keys])
        await asyncio.sleep(0)
        count = self.room.pop(0) if self.room else len(message.keys)
        left_out = range(count, len(message.keys))
        return ReadAnswer(
            epoch=Epoch(9),
            rows=tuple(row(key.token) for key in message.keys[:count]) + (None,) * len(left_out),
            refused=dict.fromkeys(left_out, "too_large"),
        )


async def test_what_does_not_fit_into_an_answer_is_asked_for_again():
    wire = Narrow(1, 1, 5)
    box = Outbox(wire, joined_reads, split_reads, KEYS_MAX)

    tasks = await sent(box, *(read(number) for number in range(200)))
    answers = await asyncio.gather(*tasks)

    assert [answer.rows[0].token for answer in answers] == list(range(200))
    assert all(answer.refused == {} for answer in answers)
    sizes = [len(tokens) for tokens in wire.asked]
    assert sizes[:2] == [1, 1]
    assert max(sizes) == KEYS_MAX, "nobody asks for more"
    assert wire.asked[2] == list(range(2, 2 + KEYS_MAX))
    again = next(tokens for tokens in wire.asked[3:] if 7 in tokens)
    assert again == [7, 8, 9, 10, 11], "before all others, and only as many as there was room for"
    assert not box._running
    assert not box._waiting
    assert not box._fitting


async def test_a_replica_that_answers_nothing_is_not_asked_for_ever():
    wire = Narrow(1, 1, 0, 0)
    box = Outbox(wire, joined_reads, split_reads, KEYS_MAX)

    tasks = await sent(box, *(read(number) for number in range(4)))
    found = await asyncio.gather(*tasks, return_exceptions=True)

    assert [isinstance(answer, SilentError) for answer in found] == [False, False, True, True]


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        ([], 0),
        ([0], 1),
        ([ANSWER_BYTES_MAX + 1], 1),
        ([ANSWER_BYTES_MAX + 1, None], 1),
        ([1, None, 2], 3),
        ([ANSWER_BYTES_MAX // 2 - 9, ANSWER_BYTES_MAX // 2 - 9, 0, 100], 3),
    ],
)
def test_an_answer_has_as_many_rows_as_arrive_in_time(sizes, wanted):
    rows = [None if size is None else row(1, bytes(size)) for size in sizes]

    assert fitting(rows) == wanted
