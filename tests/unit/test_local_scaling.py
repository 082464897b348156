"""The supervisor lets nodes join and leave, one after another, as the log allows."""

import asyncio
from uuid import uuid4

import msgspec
import pytest

from client.answers import Committed, Rejected
from encoding.entries import EntryId
from encoding.views import component_view
from log.backoff import Backoff
from metadata.directory import NodeId, NodeState
from metadata.partitioners import Partitioner
from metadata.schema import Simple
from sequences.steps import due_step
from services.local import scaling as scalings
from services.local.looking import look, tokens_for
from services.local.recipes import Servers
from services.local.scaling import Scaling
from services.local.state import Kept, state_dir
from services.local.waiting import until
from services.local.wishes import Desk, Standing, Wish, make_wish, read_answer
from tests.builders import commit, founded
from transformations.directory import Register
from transformations.ending import CancelSequence
from transformations.join import PrepareJoin
from transformations.kinds import execute
from transformations.outcome import Accepted
from transformations.schema import CreateKeyspace

ROUNDS_MAX = 60
FIRST_PORT = 7501
TIMEOUT_S = 20.0


class Log:
    """What a client shows and commits, without a server."""

    def __init__(self):
        self.metadata = founded()
        self.kinds = []

    async def component(self, name, at=None):
        assert at in (None, self.metadata.epoch)
        return component_view(self.metadata, name)

    async def commit(self, transformation, *, actor, reason="none"):
        assert actor
        assert reason
        outcome = execute(transformation, self.metadata)
        if not isinstance(outcome, Accepted):
            return Rejected(code=outcome.reason.value, detail=outcome.detail)
        self.metadata = outcome.after
        self.kinds.append(type(transformation).__name__)
        epoch = self.metadata.epoch
        return Committed(epoch=epoch, entry_id=EntryId(uuid4()), result=outcome.result, hash=b"")

    async def commit_batch(self, proposals, *, atomic):
        assert atomic
        return [await self.commit(item.transformation, actor=item.actor) for item in proposals]

    def drive(self):
        """One step of each sequence, as a driver takes it."""
        for sequence in self.metadata.sequences.in_progress.values():
            self.metadata = commit(self.metadata, due_step(sequence, None))

    def states(self):
        return {node: item.state.value for node, item in self.metadata.directory.nodes.items()}


class Machine:
    """Nodes that register as soon as they are started, without processes."""

    def __init__(self, log, nodes, *, driver=True):
        self.log = log
        self.started = 0
        self.dismissed = []
        self.kept = Kept(
            port=7400,
            own_ports=(7401,),
            partitioner=Partitioner.XXHASH64,
            founding_entry_id=uuid4(),
            own_postgres=True,
            nodes_wanted=nodes,
            driver=driver,
        )
        for _ in range(nodes):
            self._add()

    def want(self, nodes):
        self.kept = msgspec.structs.replace(self.kept, nodes_wanted=nodes)

    async def take_on(self, _servers):
        self._add()

    def begin_driver(self):
        """There is one, of a kind: the log drives itself."""

    async def dismiss(self, name, label):
        self.dismissed.append((name, label))
        self.kept = self.kept.without_node(name)

    def _add(self):
        port = FIRST_PORT + self.started
        self.started += 1
        self.kept = self.kept.with_node(port)
        register = Register(
            host_id=f"host-{port}",
            addresses={"http": f"127.0.0.1:{port}"},
            datacenter="dc1",
            rack="r1",
            version="1",
        )
        self.log.metadata = commit(self.log.metadata, register)


def advanced(scaling, log):
    return asyncio.run(scaling.advance(log))


def scaling(machine, state):
    return Scaling(machine, Servers(dsn=""), Desk(state))


class World:
    """A cluster of so many nodes, scaled without waiting."""

    def __init__(self, folder, nodes, **machine):
        self.state = state_dir(folder)
        self.log = Log()
        self.machine = Machine(self.log, nodes, **machine)
        self.scaling = scaling(self.machine, self.state)
        if self.machine.kept.driver:
            self.rest()

    def wish(self, nodes):
        make_wish(self.state, Wish(id=uuid4(), nodes=nodes))

    def rest(self, *, meanwhile=lambda: None):
        """Until there is nothing to do; the driver takes its steps in between."""
        for _ in range(ROUNDS_MAX):
            if advanced(self.scaling, self.log):
                return read_answer(self.state)
            meanwhile()
            self.log.drive()
        pytest.fail(f"no rest: {self.log.states()}")


@pytest.fixture
def world(tmp_path):
    def make(nodes, **machine):
        return World(tmp_path, nodes, **machine)

    return make


def test_first_nodes_take_tokens_at_once(world):
    found = world(3)

    assert found.log.kinds == ["UnsafeJoin"] * 3


def test_a_wish_for_more_is_answered_when_all_have_joined(world):
    found = world(2)
    found.wish(4)

    answer = found.rest()

    assert (answer.state, answer.nodes, answer.joined) == (Standing.DONE, 4, ("node-3", "node-4"))
    assert found.log.kinds.count("PrepareJoin") == 2
    assert set(found.log.states().values()) == {"joined"}
    assert {len(tokens) for tokens in found.log.metadata.ring.by_node.values()} == {16}
    assert not found.log.metadata.sequences.in_progress


def test_a_wish_for_fewer_is_answered_when_all_are_gone(world):
    found = world(4)
    found.wish(2)

    answer = found.rest()

    assert (answer.state, answer.left) == (Standing.DONE, ("node-3", "node-4"))
    assert found.machine.dismissed == [("node-4", "left-4"), ("node-3", "left-3")]
    assert (found.machine.kept.size, len(found.machine.kept.node_ports)) == (2, 2)


def test_a_wish_for_fewer_than_replicas_changes_nothing(world):
    found = world(4)
    keyspace = CreateKeyspace(name="shop", replication=Simple(3))
    found.log.metadata = commit(found.log.metadata, keyspace)
    found.wish(2)

    answer = found.rest()

    assert answer.state is Standing.REFUSED
    assert "shop wants 3 replicas and 2 nodes would be left" in answer.detail
    assert (found.machine.kept.size, found.machine.dismissed) == (4, [])
    assert set(found.log.states().values()) == {"joined"}


def test_what_the_log_refuses_is_said_and_not_tried_again(world):
    found = world(4)
    found.wish(2)

    def one_leaves():
        if "shop" not in found.log.metadata.schema.keyspaces and found.machine.dismissed:
            keyspace = CreateKeyspace(name="shop", replication=Simple(3))
            found.log.metadata = commit(found.log.metadata, keyspace)

    answer = found.rest(meanwhile=one_leaves)

    assert answer.state is Standing.REFUSED
    assert answer.detail.startswith("node-3 cannot leave: keyspace shop wants 3 replicas")
    assert (answer.left, found.machine.kept.size) == (("node-4",), 3)


def test_whoever_cancels_is_obeyed(world):
    found = world(2)
    found.wish(3)

    def cancel():
        for item in found.log.metadata.sequences.in_progress.values():
            if not item.cancelled:
                found.log.metadata = commit(found.log.metadata, CancelSequence(sequence=item.id))

    answer = found.rest(meanwhile=cancel)

    assert answer.state is Standing.REFUSED
    assert "cancelled sequence" in answer.detail
    assert found.log.kinds.count("PrepareJoin") == 1
    found.wish(3)
    assert found.rest().state is Standing.DONE


def test_whoever_left_by_another_hand_is_stopped_and_not_replaced(world):
    found = world(3)
    found.log.metadata = found.log.metadata.successor(
        directory=found.log.metadata.directory.with_state(NodeId(2), NodeState.LEFT)
    )

    found.rest()

    assert found.machine.dismissed == [("node-2", "left-2")]
    assert list(found.machine.kept.node_urls) == ["node-1", "node-3"]
    assert found.machine.kept.size == 2


def test_the_newest_wish_counts(world):
    found = world(2)
    found.wish(4)
    advanced(found.scaling, found.log)
    found.wish(2)

    answer = found.rest()

    assert (answer.state, answer.nodes) == (Standing.DONE, 2)
    assert len(found.machine.kept.node_ports) == 2
    assert "PrepareJoin" not in found.log.kinds


def test_without_a_driver_a_wish_is_refused(world):
    found = world(2, driver=False)
    found.wish(3)

    assert found.rest().state is Standing.REFUSED
    assert found.machine.kept.size == 2


def test_a_wish_from_before_is_past(tmp_path):
    state = state_dir(tmp_path)
    make_wish(state, Wish(id=uuid4(), nodes=9))

    desk = Desk(state)

    assert desk.new_wish() is None
    state.wish.write_text("not JSON")
    assert desk.new_wish() is None


def test_tokens_are_clear_of_those_who_join_at_the_same_time(world):
    found = world(2)
    asyncio.run(found.machine.take_on(None))
    asyncio.run(found.machine.take_on(None))
    seen = asyncio.run(look(found.log))
    first, second = list(seen.seats.values())[2:]
    tokens = asyncio.run(tokens_for(found.log, first, seen))
    join = PrepareJoin(node=first.id, tokens=tokens)
    found.log.metadata = commit(found.log.metadata, join)

    others = asyncio.run(tokens_for(found.log, second, asyncio.run(look(found.log))))

    assert len(tokens) == len(others) == 16
    assert not set(tokens) & set(others)


class Offline(Scaling):
    """Asks the log of a test, whatever client it is given."""

    def __init__(self, world):
        super().__init__(world.machine, Servers(dsn=""), Desk(world.state))
        self._log = world.log

    async def advance(self, _client):
        is_resting = await super().advance(self._log)
        self._log.drive()
        return is_resting


@pytest.mark.parametrize("taken", [False, True])
def test_a_wish_that_cannot_be_answered_for_now_is_granted_all_the_same(world, taken, monkeypatch):
    monkeypatch.setattr(scalings, "IDLE_S", 0.02)
    monkeypatch.setattr(scalings, "BUSY_S", 0.02)
    monkeypatch.setattr(scalings, "PAUSES", Backoff(first_s=0.02, last_s=0.1))
    found = world(2)
    offline, wish = Offline(found), Wish(id=uuid4(), nodes=3)
    make_wish(found.state, wish)
    if taken:
        advanced(offline, None)
        found.state.answer.unlink()
    # No file can take the place of a folder, as none can on a full disk.
    found.state.answer.mkdir()

    def is_answered():
        answer = read_answer(found.state)
        return answer is not None and (answer.id, answer.state) == (wish.id, Standing.DONE)

    async def granted():
        async with asyncio.TaskGroup() as group:
            running = group.create_task(offline.run(None))
            with pytest.raises(TimeoutError):
                await until(running.done, timeout_s=0.5)
            found.state.answer.rmdir()
            await until(is_answered, timeout_s=TIMEOUT_S)
            running.cancel()

    asyncio.run(granted())

    assert "PrepareJoin" in found.log.kinds
