"""What whoever watches the log may rely on: the nine guarantees of an etcd watch, for our log.

| etcd | log stream (SSE), of a CMS or a node | long poll | `client.follow` |
|---|---|---|---|
| filter | entries behind `after` alone, of the cluster that is named | the same | the same |
| ordered | epochs ascend over all connections | the same | the same |
| unique | no entry comes twice, cuts or not | the same | the same |
| atomic | an epoch is one entry and comes whole; an atomic batch is neighbours | same | same |
| reliable | no epoch is left out between the first and the last | the same | the same |
| resumable | `Last-Event-ID` goes on behind it | `after` and `hash` do | `after`, `after_hash` do |
| bookmarkable | a `bookmark` at E: all up to E has come | an empty page at `tip` | none is shown |
| previous value | `previous_hash` is the hash of the entry before | the same | the same |
| is-create | replayed, what is new in an entry was not there before it | the same | the same |

Four watchers, one for each road, follow a real CMS, and the stream of a real node, over proxies
that cut their connections in the middle of answers, while several writers commit. The seed is
printed; WATCH_SEED repeats it.
"""

from __future__ import annotations

import asyncio
import os
import random
from itertools import pairwise
from uuid import uuid4

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from client.client import Client
from client.entries import verified
from client.errors import DivergedError
from client.patience import Patience
from client.proposals import Proposal, new_entry_id
from log.listeners import Listeners
from log.replay import replayed
from metadata.epoch import Epoch
from tests.fixtures.postgres import _address, _made_database
from tests.integration.cutting import cutting
from tests.integration.nodes import house, known, node, same
from transformations.extensions import ClearExtension, SetExtension

pytestmark = pytest.mark.asyncio(loop_scope="module")

START = 10
WRITERS = 3
BATCHES = 25
NAMES = 9
TIMEOUT_S = 60.0
PATIENT = Patience(deadline_s=60.0, pause_first_s=0.01, pause_max_s=0.05)
ROADS = ("stream", "poll", "follow", "node")
STREAMS = ("stream", "node")
AWAY = (aiohttp.ClientError, TimeoutError, ConnectionError)


class Seen(msgspec.Struct, frozen=True):
    """One thing that a watcher got; `sealed` is None for a bookmark."""

    epoch: int
    connection: int
    sealed: object = None


class Recording:
    """What one watcher got, in order."""

    def __init__(self):
        self.seen = []
        self.connections = 0

    @property
    def entries(self):
        return [each.sealed for each in self.seen if each.sealed is not None]

    @property
    def epochs(self):
        return [sealed.epoch for sealed in self.entries]

    @property
    def last(self):
        return self.seen[-1].epoch if self.seen else START

    def add(self, epoch, sealed=None):
        self.seen.append(Seen(epoch, self.connections, sealed))


async def watch_stream(session, url, recording, is_done):
    """As a browser does: again and again, with the id of the last event."""
    while not is_done(recording):
        recording.connections += 1
        headers = {"Last-Event-ID": str(recording.last)} if recording.seen else {}
        try:
            query = f"{url}/v1/log/stream?after={START}"
            async with session.get(query, headers=headers) as response:
                assert response.status == 200, await response.text()
                await _read_events(response, recording, is_done)
        except AWAY:
            await asyncio.sleep(0.01)


async def _read_events(response, recording, is_done):
    while not is_done(recording):
        block = (await response.content.readuntil(b"\n\n")).decode()
        if not block.endswith("\n\n"):
            raise ConnectionResetError
        fields = dict(line.split(": ", 1) for line in block.strip().splitlines())
        if fields["event"] == "entry":
            (sealed,) = _believed([msgspec.Raw(fields["data"].encode())], int(fields["id"]) - 1)
            recording.add(int(fields["id"]), sealed)
        else:
            recording.add(int(fields["id"]))


def _believed(raw, after):
    return list(verified(raw, after=Epoch(after), after_hash=None))


class _Page(msgspec.Struct):
    tip: int
    entries: list[msgspec.Raw]


async def watch_poll(session, url, recording, is_done):
    known = ""
    while not is_done(recording):
        recording.connections += 1
        after = recording.last
        query = f"{url}/v1/log?after={after}&wait=1&limit=7{known}"
        try:
            async with session.get(query) as response:
                assert response.status == 200, await response.text()
                page = msgspec.json.decode(await response.read(), type=_Page)
        except AWAY:
            continue
        for sealed in _believed(page.entries, after):
            recording.add(sealed.epoch, sealed)
            known = f"&hash={sealed.hash.hex()}"
        if not page.entries:
            assert page.tip == after
            recording.add(after)


async def watch_follow(_session, url, recording, is_done):
    recording.connections = 1
    async with Client(url, patience=PATIENT) as client:
        following = client.follow(START)
        async for sealed in following:
            recording.add(sealed.epoch, sealed)
            if is_done(recording):
                break
        await following.aclose()


async def write(url, random_):
    """Batches, every other one all or nothing; gives the ids of those."""
    whole = []
    async with Client(url) as client:
        for number in range(BATCHES):
            batch = [_proposal(random_) for _ in range(random_.randrange(1, 8))]
            is_whole = number % 2 == 0
            if is_whole:
                await client.commit_batch(batch, atomic=True)
                whole.append([proposal.entry_id for proposal in batch])
            else:
                await client.commit_batch(batch)
    return whole


def _proposal(random_):
    name = f"e{random_.randrange(NAMES)}"
    setting = SetExtension(name=name, value=uuid4().hex * random_.randrange(1, 30))
    wanted = ClearExtension(name=name) if random_.random() < 0.2 else setting
    return Proposal(transformation=wanted, entry_id=new_entry_id())


class Watched:
    """The log as the database has it, what was to come whole, and the recordings by road."""

    def __init__(self, home, node_url):
        self.home = home
        self.urls = dict.fromkeys(ROADS, home.url) | {"node": node_url}
        self.recordings = {road: Recording() for road in ROADS}
        self.log = []
        self.whole = []
        self.tip = None
        self.cuts = {}

    def is_done(self, recording):
        """At the tip, and for those who get them with a bookmark there."""
        if self.tip is None or recording.last < self.tip:
            return False
        is_follow = recording is self.recordings["follow"]
        return is_follow or recording.seen[-1].sealed is None


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def watched(postgres, migrated_template, tmp_path_factory):
    seed = int(os.environ.get("WATCH_SEED") or random.SystemRandom().randrange(2**32))
    print(f"WATCH_SEED={seed}")
    folder = tmp_path_factory.mktemp("watched")
    async with (
        _made_database(postgres, template=migrated_template) as name,
        house(_address(postgres, name), folder) as home,
        node(home.settings("node-1")) as follower,
        cutting(home.url, random.Random(seed)) as at_cms,
        cutting(follower.url, random.Random(seed + 2)) as at_node,
    ):
        await known(follower)
        await home.commit_many(START + 5)
        await same(follower, home.applied)
        found = Watched(home, follower.url)
        proxies = dict.fromkeys(ROADS, at_cms) | {"node": at_node}
        await _record(found, proxies, random.Random(seed + 1))
        found.cuts = {road: proxy.cuts for road, (proxy, _) in proxies.items()}
        yield found


async def _record(found, proxies, random_):
    watches = {
        "stream": watch_stream,
        "poll": watch_poll,
        "follow": watch_follow,
        "node": watch_stream,
    }
    async with (
        asyncio.timeout(TIMEOUT_S),
        aiohttp.ClientSession() as session,
        asyncio.TaskGroup() as group,
    ):
        for road, watch in watches.items():
            recording, (_, url) = found.recordings[road], proxies[road]
            group.create_task(watch(session, url, recording, found.is_done))
        wrote = [write(found.home.url, random.Random(random_.random())) for _ in range(WRITERS)]
        found.whole = [batch for whole in await asyncio.gather(*wrote) for batch in whole]
        # Known before it is committed: who is at the end so far must wait for it as well.
        found.tip = Epoch(found.home.applied.metadata.epoch + 1)
        found.log = list(
            await found.home.engine.entries_after(Epoch(0), entries_max=10_000, bytes_max=1 << 26)
        )
        for proxy, _ in proxies.values():
            proxy.is_cutting = False
        # Somebody may wait at a tip that it has; the last commit wakes it.
        await found.home.commit(SetExtension(name="last", value="1"))
        found.log += await found.home.engine.entries_after(
            found.log[-1].epoch, entries_max=10, bytes_max=1 << 20
        )


@pytest.fixture(params=ROADS)
def road(request):
    return request.param


@pytest.fixture
def recording(watched, road):
    found = watched.recordings[road]
    print(
        f"{road}: {len(found.entries)} entries, {len(found.seen) - len(found.entries)} bookmarks, "
        f"{found.connections} connections, {watched.cuts[road]} cuts, tip {watched.tip}"
    )
    return found


async def test_connections_were_cut(watched):
    assert watched.cuts["stream"] > 5
    for road in STREAMS:
        assert watched.recordings[road].connections > 1


async def test_filter_nothing_comes_that_was_not_asked_for(watched, recording):
    assert min(recording.epochs) == START + 1
    clusters = {sealed.entry.cluster for sealed in recording.entries}
    assert clusters == {watched.home.applied.metadata.cluster.id}


async def test_filter_another_clusters_watcher_is_refused(watched, road):
    path = "/v1/log/stream?after=0" if road in STREAMS else "/v1/log?after=0&wait=5"
    if road == "follow":
        async with Client(watched.urls[road], cluster=str(uuid4())) as client:
            with pytest.raises(DivergedError):
                await anext(client.follow(0))
        return
    async with (
        aiohttp.ClientSession(headers={"Ringlog-Cluster": str(uuid4())}) as session,
        session.get(f"{watched.urls[road]}{path}") as response,
    ):
        assert response.status == 409


async def test_ordered(recording):
    assert recording.epochs == sorted(recording.epochs)


async def test_unique(recording):
    assert len(recording.epochs) == len(set(recording.epochs))


async def test_atomic_each_entry_is_whole(watched, recording):
    by_epoch = {sealed.epoch: sealed for sealed in watched.log}
    for sealed in recording.entries:
        assert sealed.payload == by_epoch[sealed.epoch].payload


async def test_atomic_a_batch_comes_as_neighbours(watched, recording):
    places = {sealed.entry_id: index for index, sealed in enumerate(recording.entries)}
    found = [batch for batch in watched.whole if batch[0] in places]
    assert found
    for batch in found:
        first = places[batch[0]]
        assert [places[entry_id] for entry_id in batch] == list(range(first, first + len(batch)))


async def test_reliable(watched, recording):
    assert recording.epochs == list(range(START + 1, watched.tip + 1))


async def test_resumable_behind_every_cut(recording):
    for before, after in pairwise(recording.seen):
        assert after.epoch == before.epoch + (after.sealed is not None), (before, after)


async def test_resumable_from_any_epoch(watched, road):
    """Whatever was seen last, what comes next is the entry behind it."""
    for after in (0, 1, START, watched.tip // 2, watched.tip - 1):
        sealed = await _first(watched, road, after)
        assert sealed.hash == watched.log[after].hash


async def test_resumable_never_into_another_history(watched, road):
    after = watched.tip // 2
    if road == "follow":
        async with Client(watched.urls[road]) as client:
            with pytest.raises(DivergedError):
                await anext(client.follow(after, after_hash=bytes(32)))
        return
    path = "/v1/log/stream" if road in STREAMS else "/v1/log"
    url = f"{watched.urls[road]}{path}?after={after}&hash={'0' * 64}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        assert (response.status, (await response.json())["code"]) == (409, "diverged")


async def _first(watched, road, after):
    if road == "follow":
        async with Client(watched.urls[road]) as client:
            known = watched.log[after - 1].hash if after else None
            following = client.follow(after, after_hash=known)
            found = await anext(following)
            await following.aclose()
            return found
    recording = Recording()
    recording.seen.append(Seen(after, 0))
    watch = watch_stream if road in STREAMS else watch_poll
    async with aiohttp.ClientSession() as session, asyncio.timeout(TIMEOUT_S):
        await watch(session, watched.urls[road], recording, lambda found: bool(found.entries))
    return recording.entries[0]


@pytest.mark.parametrize("road", [each for each in ROADS if each != "follow"], indirect=True)
async def test_bookmarkable(watched, recording, road):
    """A bookmark comes behind everything up to its epoch, and going on from it misses nothing.

    `follow` shows none: it asks by itself again.
    """
    bookmarks = [each for each in recording.seen if each.sealed is None]
    assert bookmarks
    for index, each in enumerate(recording.seen):
        if each.sealed is None:
            came = [one.epoch for one in recording.seen[:index] if one.sealed is not None]
            assert each.epoch == (came[-1] if came else START)
    bookmark = next((each for each in bookmarks if START < each.epoch < watched.tip), None)
    if bookmark is not None:
        sealed = await _first(watched, road, bookmark.epoch)
        assert sealed.hash == watched.log[bookmark.epoch].hash


async def test_correct_previous_value(watched, recording):
    hashes = {sealed.epoch: sealed.hash for sealed in watched.log}
    for sealed in recording.entries:
        assert sealed.previous_hash == hashes[sealed.epoch - 1]


async def test_correct_previous_version_for_listeners(watched, recording):
    changes = _changes(watched, recording)
    for before, after in pairwise(changes):
        assert after.previous is before.metadata


async def test_correct_is_create(watched, recording):
    """An extension is new exactly where the entry before left none of that name."""
    present: set[str] = set()
    created = {}
    for sealed in watched.log:
        wanted = sealed.entry.transformation
        if isinstance(wanted, SetExtension):
            created[sealed.epoch] = wanted.name not in present
            present.add(wanted.name)
        elif isinstance(wanted, ClearExtension):
            present.discard(wanted.name)
    checked = 0
    for change in _changes(watched, recording):
        wanted = watched.log[change.metadata.epoch - 1].entry.transformation
        if isinstance(wanted, SetExtension):
            is_new = wanted.name not in change.previous.extensions.by_name
            assert is_new == created[change.metadata.epoch]
            checked += is_new
    assert checked


def _changes(watched, recording):
    """What listeners are told of when a follower at START applies what this watcher got."""
    versions = list(replayed([*watched.log[:START], *recording.entries]))
    changes: list = []
    listeners = Listeners(_raise)
    listeners.publish(versions[START - 1].metadata)
    listeners.add(changes.append)
    for version in versions[START:]:
        listeners.publish(version.metadata)
    return changes[1:]


def _raise(_listener, error):
    raise error
