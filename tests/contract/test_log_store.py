"""What every log store promises, whatever keeps the entries.

An adapter joins by one line in `STORES`: a context manager that makes empty stores. Each call of
what it yields opens another store on the *same* log, as another process would.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from uuid import UUID

import msgspec
import pytest

from encoding.entries import EntryId, proposal_digest
from log.chain import NO_ENTRIES, Tip, seal, tip_of
from log.memory import MemoryLog
from log.postgres import PostgresLog
from log.postgres_sessions import Sessions
from log.store import AlreadyDecided, Appended, Refusal, TipMoved, committed
from metadata.epoch import EMPTY, Epoch
from metadata.locks import SequenceId
from metadata.plans import Step
from metadata.tokens import MINIMUM, Range
from tests.golden.history import history
from transformations.outcome import Reason, Rejected

HISTORY = history().entries
TIPS = [NO_ENTRIES, *map(tip_of, HISTORY)]
EVERYTHING = {"entries_max": 10_000, "bytes_max": 1_000_000_000}


@asynccontextmanager
async def memory(_place):
    log = MemoryLog()
    yield lambda: log


@asynccontextmanager
async def postgres_log(place):
    opened = []

    def opening():
        opened.append(Sessions(place))
        return PostgresLog(opened[-1])

    yield opening
    for sessions in opened:
        await sessions.close()


STORES = {"memory": memory, "postgres": postgres_log}


@pytest.fixture(params=STORES)
def kept(request):
    """An adapter and where it keeps its log; only Postgres needs a database."""
    place = request.getfixturevalue("database") if request.param == "postgres" else None
    return STORES[request.param](place)


@pytest.fixture
async def open_store(kept):
    async with kept as opening:
        yield opening


@pytest.fixture
def store(open_store):
    return open_store()


def refusal(number, **changes):
    rejected = Rejected(
        Reason.RANGES_LOCKED,
        "sequence 7 holds ranges – all of them",
        "wait until it is retired",
        sequence=SequenceId(7),
        step=Step.MID,
        ranges=(Range(MINIMUM, MINIMUM),),
    )
    made = Refusal(
        entry_id=EntryId(UUID(int=number)),
        epoch=Epoch(3),
        proposal=bytes(range(32)),
        rejected=rejected,
    )
    return msgspec.structs.replace(made, **changes)


def resealed(sealed, onto, **changes):
    """The entry with something changed, behind another tip."""
    entry = msgspec.structs.replace(sealed.entry, epoch=Epoch(onto.epoch + 1), **changes)
    return seal(entry, onto.hash)


def chained(entries, onto):
    """The same entries, as if they came behind `onto`."""
    made = []
    for sealed in entries:
        made.append(resealed(sealed, onto))
        onto = tip_of(made[-1])
    return made


async def read_all(store):
    return list(await store.read_after(EMPTY, **EVERYTHING))


async def test_an_empty_log_has_nothing(store):
    assert await store.tip() == NO_ENTRIES
    assert await read_all(store) == []
    assert await store.decisions([HISTORY[0].entry_id]) == {}
    assert await store.decisions([]) == {}


async def test_what_was_appended_is_read_back_byte_for_byte(store):
    assert await store.append(HISTORY[:1], onto=NO_ENTRIES) == Appended(TIPS[1])
    assert await store.append(HISTORY[1:], onto=TIPS[1]) == Appended(TIPS[-1])

    assert await store.tip() == TIPS[-1]
    assert await read_all(store) == HISTORY


async def test_another_process_sees_it(open_store):
    first, second = open_store(), open_store()

    await first.append(HISTORY[:3], onto=NO_ENTRIES)

    assert await second.tip() == TIPS[3]
    assert await read_all(second) == HISTORY[:3]


@pytest.mark.parametrize(
    "onto",
    [
        NO_ENTRIES,
        TIPS[1],
        TIPS[3],
        Tip(Epoch(2), bytes(32)),
        Tip(Epoch(2), TIPS[1].hash),
        Tip(Epoch(3), TIPS[2].hash),
    ],
    ids=["empty", "behind", "ahead", "other hash", "older hash", "other epoch"],
)
async def test_nothing_is_appended_onto_another_tip(store, onto):
    """Epoch and hash must both be right: the hash vouches for the history before it."""
    await store.append(HISTORY[:2], onto=NO_ENTRIES)
    entries = chained(HISTORY[5:8], onto)

    assert await store.append(entries, onto=onto) == TipMoved(TIPS[2])
    assert await read_all(store) == HISTORY[:2]
    assert await store.decisions([entry.entry_id for entry in entries]) == {}


async def test_a_batch_with_a_known_id_is_refused_whole(store):
    """Skipping one entry of a batch would fork the chain."""
    await store.append(HISTORY[:2], onto=NO_ENTRIES)
    again = resealed(HISTORY[3], TIPS[3], entry_id=HISTORY[0].entry_id)

    result = await store.append([HISTORY[2], again], onto=TIPS[2])

    assert result == AlreadyDecided({HISTORY[0].entry_id: committed(HISTORY[0])})
    assert await read_all(store) == HISTORY[:2]
    assert await store.decisions([HISTORY[2].entry_id]) == {}


async def test_a_retry_learns_what_became_of_the_first_try(store):
    """Even though the tip has moved on since."""
    await store.append(HISTORY[:5], onto=NO_ENTRIES)

    result = await store.append(HISTORY[1:2], onto=TIPS[1])

    assert result == AlreadyDecided({HISTORY[1].entry_id: committed(HISTORY[1])})


async def test_a_decision_tells_all_that_the_proposer_was_told(store):
    await store.append(HISTORY, onto=NO_ENTRIES)

    found = await store.decisions([sealed.entry_id for sealed in HISTORY])

    for sealed in HISTORY:
        told = found[sealed.entry_id]
        assert (told.epoch, told.hash) == (sealed.epoch, sealed.hash)
        assert told.result == sealed.entry.result
        assert told.proposal == proposal_digest(sealed.entry.transformation, sealed.entry_id)


async def test_an_append_may_be_sent_twice(store):
    first = await store.append(HISTORY[:2], onto=NO_ENTRIES)
    second = await store.append(HISTORY[:2], onto=NO_ENTRIES)

    assert first == Appended(TIPS[2])
    assert second == AlreadyDecided({entry.entry_id: committed(entry) for entry in HISTORY[:2]})
    assert await read_all(store) == HISTORY[:2]


async def test_refusals_are_recorded_with_the_entries_of_their_batch(store):
    refused = [refusal(1), refusal(2, rejected=Rejected(Reason.UNKNOWN_NODE, "no node 9"))]

    assert await store.append(HISTORY[:2], onto=NO_ENTRIES, refusals=refused) == Appended(TIPS[2])

    ids = [HISTORY[1].entry_id, refused[0].entry_id, refused[1].entry_id, EntryId(UUID(int=9))]
    assert await store.decisions(ids) == {
        HISTORY[1].entry_id: committed(HISTORY[1]),
        refused[0].entry_id: refused[0],
        refused[1].entry_id: refused[1],
    }


async def test_refusals_may_come_alone(store):
    await store.append(HISTORY[:2], onto=NO_ENTRIES)

    assert await store.append([], onto=TIPS[2], refusals=[refusal(1)]) == Appended(TIPS[2])
    assert await store.decisions([refusal(1).entry_id]) == {refusal(1).entry_id: refusal(1)}


async def test_a_refusal_holds_only_at_the_newest_epoch(store):
    """What was judged against an older version is judged again."""
    await store.append(HISTORY[:2], onto=NO_ENTRIES)

    assert await store.append([], onto=TIPS[1], refusals=[refusal(1)]) == TipMoved(TIPS[2])
    assert await store.decisions([refusal(1).entry_id]) == {}


async def test_what_was_refused_is_never_appended(store):
    """A first try that hangs in a broken connection may not commit after its retry was refused."""
    await store.append(HISTORY[:2], onto=NO_ENTRIES)
    late = HISTORY[2]
    refused = refusal(0, entry_id=late.entry_id)
    await store.append([], onto=TIPS[2], refusals=[refused])

    assert await store.append([late], onto=TIPS[2]) == AlreadyDecided({late.entry_id: refused})
    assert await read_all(store) == HISTORY[:2]


async def test_what_was_appended_is_never_refused(store):
    await store.append(HISTORY[:2], onto=NO_ENTRIES)
    refused = refusal(0, entry_id=HISTORY[0].entry_id)

    result = await store.append([], onto=TIPS[2], refusals=[refused])

    assert result == AlreadyDecided({HISTORY[0].entry_id: committed(HISTORY[0])})


async def test_the_first_refusal_stays(store):
    await store.append([], onto=NO_ENTRIES, refusals=[refusal(1)])
    other = refusal(1, rejected=Rejected(Reason.UNKNOWN_NODE, "no node 9"))

    result = await store.append(HISTORY[:1], onto=NO_ENTRIES, refusals=[other])

    assert result == AlreadyDecided({refusal(1).entry_id: refusal(1)})
    assert await store.tip() == NO_ENTRIES


@pytest.mark.parametrize("after", [0, 1, 30, 63, 64, 65, 10_000])
@pytest.mark.parametrize("entries_max", [1, 7, 10_000])
async def test_reads_are_dense_and_limited_in_entries(store, after, entries_max):
    await store.append(HISTORY, onto=NO_ENTRIES)

    found = await store.read_after(Epoch(after), entries_max=entries_max, bytes_max=10**9)

    assert list(found) == HISTORY[after : after + entries_max]


async def test_reads_are_limited_in_bytes(store):
    await store.append(HISTORY, onto=NO_ENTRIES)
    sizes = [len(entry.payload) for entry in HISTORY]

    exactly = await store.read_after(Epoch(5), entries_max=100, bytes_max=sum(sizes[5:8]))
    less = await store.read_after(Epoch(5), entries_max=100, bytes_max=sum(sizes[5:8]) - 1)

    assert list(exactly) == HISTORY[5:8]
    assert list(less) == HISTORY[5:7]


async def test_a_large_entry_does_not_stop_a_reader(store):
    await store.append(HISTORY, onto=NO_ENTRIES)

    found = await store.read_after(Epoch(0), entries_max=100, bytes_max=1)

    assert list(found) == HISTORY[:1]


async def test_of_many_that_race_for_one_epoch_one_wins(open_store):
    """Eight committers, one epoch: one entry, and seven who know where the log ends now."""
    await open_store().append(HISTORY[:4], onto=NO_ENTRIES)
    rivals = [
        resealed(
            HISTORY[4], TIPS[4], entry_id=EntryId(UUID(int=number)), committed_by=f"cms{number}"
        )
        for number in range(8)
    ]

    results = await asyncio.gather(
        *(open_store().append([entry], onto=TIPS[4]) for entry in rivals)
    )

    winners = [
        entry
        for entry, result in zip(rivals, results, strict=True)
        if result == Appended(tip_of(entry))
    ]
    assert len(winners) == 1
    assert results.count(TipMoved(tip_of(winners[0]))) == 7
    assert await read_all(open_store()) == [*HISTORY[:4], *winners]


async def test_an_append_and_a_refusal_that_race_give_one_answer(open_store):
    """Whoever comes second is told what the first one did."""
    await open_store().append(HISTORY[:4], onto=NO_ENTRIES)
    late, refused = HISTORY[4], refusal(0, entry_id=HISTORY[4].entry_id)

    results = await asyncio.gather(
        open_store().append([late], onto=TIPS[4]),
        open_store().append([], onto=TIPS[4], refusals=[refused]),
        open_store().append([late], onto=TIPS[4]),
    )

    (decision,) = (await open_store().decisions([late.entry_id])).values()
    assert [type(result) for result in results].count(Appended) == 1
    assert results.count(AlreadyDecided({late.entry_id: decision})) == 2
    assert len(await read_all(open_store())) == (5 if decision == committed(late) else 4)
