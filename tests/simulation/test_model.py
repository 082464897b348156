"""The naive model agrees with Cassandra, and its checks can fail."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from tests.simulation import checks
from tests.simulation.model import MINIMUM, Model, Op, Place

VECTORS = Path(__file__).parents[1] / "vectors" / "cassandra" / "histories.jsonl.gz"
HISTORIES = [json.loads(line) for line in gzip.decompress(VECTORS.read_bytes()).splitlines()]
SIMPLE_2 = ("simple", 2)
SEEDS = range(6)
STEPS = 80


class Replay:
    """Commits to the model at the next epoch, and checks everything that must hold after it."""

    def __init__(self):
        self.model = Model()
        self.epoch = 0

    def commit(self, kind, **fields):
        self.take(Op(kind, **fields))
        return self.epoch

    def take(self, op):
        reads, writes = self.model.reads, self.model.writes
        groups = {setting: self.model.quorum_groups(setting) for setting in self.model.settings()}
        self.epoch += 1
        self.model.apply(op, self.epoch)
        for setting in self.model.settings():
            faults = self.faults(setting)
            faults += checks.epoch_faults(
                reads.get(setting, []), self.model.reads[setting], self.epoch
            )
            faults += checks.epoch_faults(
                writes.get(setting, []), self.model.writes[setting], self.epoch
            )
            if op.sequence:
                now = self.model.quorum_groups(setting)
                faults += checks.quorum_faults(groups[setting], now)
            assert not faults, (op, setting)

    def faults(self, setting):
        ring, flying = checks.joined_ring(self.model), checks.flights(self.model)
        reads, writes = self.model.reads[setting], self.model.writes[setting]
        return [
            *checks.cover_faults(reads, self.model.cuts()),
            *checks.cover_faults(writes, self.model.cuts()),
            *checks.read_faults(reads, setting, ring, flying),
            *checks.write_faults(reads, writes, setting, flying),
            *checks.surplus_faults(writes, setting, ring, flying),
        ]

    def join(self, node, *tokens, rack="r1"):
        self.commit("register", node=node, datacenter="dc1", rack=rack)
        self.commit("unsafe_join", node=node, tokens=tokens)

    def owners(self, side, right, setting=SIMPLE_2):
        groups = getattr(self.model, side)[setting]
        return next((set(group[2]), group[3]) for group in groups if group[1] == right)


def ring_of(*tokens, setting=SIMPLE_2):
    """One node per token, numbered from 1."""
    replay = Replay()
    replay.commit("create_keyspace", keyspace="k", replication=setting)
    for node, token in enumerate(tokens, start=1):
        replay.join(node, token)
    return replay


def ops(model, step):
    """A step of a history as operations: RETIRE follows at once upon FINISH and CANCEL."""
    sequence = next((n for n, s in model.sequences.items() if s.node == step.get("node")), 0)
    match step["op"]:
        case "advance":
            kinds = [model.sequences[sequence].next]
        case "step":
            kinds = [step["kind"].partition("_")[0].lower()]
        case "cancel":
            kinds = ["cancel"]
        case _:
            return [translated(step)]
    if kinds[0] in {"finish", "cancel"}:
        kinds.append("retire")
    return [Op(kind, sequence=sequence) for kind in kinds]


def translated(step):
    return Op(
        step["op"],
        node=step.get("replacement", step.get("node", 0)),
        replaced=step.get("replaced"),
        tokens=tuple(step.get("tokens", [])),
        datacenter=step.get("dc", ""),
        rack=step.get("rack", ""),
        keyspace=step.get("name", ""),
        replication=replication(step.get("replication", {"class": ""})),
        force=step.get("force", False),
        locations=tuple((u["node"], u["dc"], u["rack"]) for u in step.get("updates", [])),
    )


def replication(options):
    factors = {name: int(value) for name, value in options.items() if name != "class"}
    if options["class"] == "SimpleStrategy":
        return ("simple", factors["replication_factor"])
    return ("network", tuple(sorted(factors.items())))


def cassandra_name(setting):
    kind, parameter = setting
    if kind == "simple":
        return f"SimpleStrategy{{replication_factor={parameter}}}"
    factors = ",".join(f"{datacenter}={factor}" for datacenter, factor in parameter)
    return f"NetworkTopologyStrategy{{{factors}}}"


def owned(groups):
    return [(left, right, frozenset(owners)) for left, right, owners, *_ in groups if owners]


def covered(spans):
    """Spans joined where they touch, because locks may be cut up differently."""
    joined: list[list[int]] = []
    for left, right in sorted(
        (left, right if right != MINIMUM else checks.END) for left, right in spans
    ):
        if joined and left <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], right)
        else:
            joined.append([left, right])
    return joined


def compare(model, theirs):
    """A replaced node has left here and is gone there."""
    known = {node["id"]: node for node in theirs["nodes"]}
    assert all(node.state == "LEFT" for name, node in model.nodes.items() if name not in known)
    for name, node in known.items():
        ours = model.nodes[name]
        assert ours.state == node["state"]
        assert (ours.datacenter, ours.rack) == (node["dc"], node["rack"])
        assert sorted(ours.tokens) == sorted(node["tokens"])
    for setting in model.settings():
        placement = theirs["placements"][cassandra_name(setting)]
        writes = placement["reads" if placement["writes"] == "=reads" else "writes"]
        assert owned(model.reads[setting]) == owned(placement["reads"])
        assert owned(model.writes[setting]) == owned(writes)
        ours = [sequence.locks[setting] for sequence in model.sequences.values()]
        locks = [lock.get(cassandra_name(setting), []) for lock in theirs["locked"].values()]
        assert sorted(map(covered, ours)) == sorted(map(covered, locks))


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history["id"])
def test_agrees_with_cassandra(history):
    """Same nodes, owners and locks after every step, and what it refuses has an objection."""
    replay = Replay()
    theirs: dict = {"nodes": [], "placements": {}, "locked": {}}
    for number, step in enumerate(history["steps"]):
        outcome = step["out"]["result"]
        if outcome == "exception":
            break
        due = ops(replay.model, step["op"])
        objection = checks.explain(replay.model, due[0])
        assert (objection is None) == (outcome == "ok"), (number, step["op"], objection)
        assert outcome == "rejected" or checks.excuse(replay.model, due[0]) is None
        if outcome == "ok":
            for op in due:
                replay.take(op)
            theirs |= {key: step["out"][key] for key in theirs if key in step["out"]}
            compare(replay.model, theirs)


def test_a_join_passes_through_its_steps():
    """The example of a join at 150: writers first, then readers, then the old writers go."""
    replay = ring_of(100, 200, 300)
    replay.commit("register", node=4, datacenter="dc1", rack="r1")
    before = replay.epoch

    prepared = replay.commit("prepare_join", node=4, tokens=(150,))
    assert replay.owners("reads", 150) == replay.owners("reads", 200) == ({2, 3}, before - 1)
    started = replay.commit("start", sequence=prepared)
    assert replay.owners("reads", 150) == ({2, 3}, before - 1)
    assert replay.owners("writes", 150) == ({2, 3, 4}, started)
    moved = replay.commit("mid", sequence=prepared)
    assert replay.owners("reads", 150) == ({2, 4}, moved)
    assert replay.owners("reads", 200) == ({2, 3}, before - 1)
    finished = replay.commit("finish", sequence=prepared)
    assert replay.owners("reads", 150) == ({2, 4}, moved)
    assert replay.owners("writes", 150) == ({2, 4}, finished)

    assert replay.model.nodes[4].state == "JOINED"
    assert replay.model.sequences[prepared].next == "retire"


def test_a_cancelled_join_gives_back_reads_at_once_and_writes_at_retire():
    replay = ring_of(100, 200, 300)
    replay.commit("register", node=4, datacenter="dc1", rack="r1")
    sequence = replay.commit("prepare_join", node=4, tokens=(150,))
    replay.commit("start", sequence=sequence)
    replay.commit("mid", sequence=sequence)

    cancelled = replay.commit("cancel", sequence=sequence)
    assert replay.owners("reads", 150) == ({2, 3}, cancelled)
    assert replay.owners("writes", 150)[0] == {2, 3, 4}
    assert replay.model.nodes[4].state == "BOOTSTRAPPING"
    retired = replay.commit("retire", sequence=sequence)

    assert replay.owners("writes", 200) == ({2, 3}, retired)
    assert replay.owners("reads", 200) == ({2, 3}, cancelled)
    assert replay.model.nodes[4].state == "REGISTERED"
    assert len(replay.model.reads[SIMPLE_2]) == 4


def test_merging_keeps_the_later_epoch():
    replay = ring_of(100, 200, 300, 400, setting=("simple", 1))
    epochs = {right: epoch for _, right, _, epoch in replay.model.reads["simple", 1]}
    sequence = replay.commit("prepare_leave", node=2)
    replay.commit("start", sequence=sequence)
    moved = replay.commit("mid", sequence=sequence)
    finished = replay.commit("finish", sequence=sequence)

    assert replay.owners("reads", 300, ("simple", 1)) == ({3}, moved)
    assert replay.owners("writes", 300, ("simple", 1)) == ({3}, finished)
    assert replay.owners("reads", 400, ("simple", 1)) == ({4}, epochs[400])


def test_a_first_node_owns_the_ring_from_prepare_until_it_finishes_or_retires():
    replay = Replay()
    replay.commit("create_keyspace", keyspace="k", replication=SIMPLE_2)
    replay.commit("register", node=1, datacenter="dc1", rack="r1")
    prepared = replay.commit("prepare_join", node=1, tokens=(MINIMUM,))
    assert replay.model.reads[SIMPLE_2] == [(MINIMUM, MINIMUM, frozenset({1}), prepared)]

    replay.commit("cancel", sequence=prepared)
    assert replay.model.writes[SIMPLE_2] == [(MINIMUM, MINIMUM, frozenset({1}), prepared)]
    replay.commit("retire", sequence=prepared)

    assert replay.model.reads[SIMPLE_2] == replay.model.writes[SIMPLE_2] == []


def test_a_range_that_nothing_is_placed_on_stays_without_owners():
    replay = ring_of(100, setting=("network", (("elsewhere", 3),)))

    assert [owners for *_, owners, _ in replay.model.reads["network", (("elsewhere", 3),)]] == [
        frozenset(),
        frozenset(),
    ]


def test_a_quorum_write_needs_majorities_before_and_after():
    replay = ring_of(100, 200, 300)
    sequence = replay.commit("prepare_leave", node=2)
    replay.commit("start", sequence=sequence)

    groups = {
        right: (readers, writes)
        for _, right, readers, writes in replay.model.quorum_groups(SIMPLE_2)
    }

    assert groups[200] == ({2, 3}, [{2, 3}, {1, 3}])
    assert groups[300] == ({1, 3}, [{1, 3}])


def test_locks_on_changing_owners_do_not_keep_plans_right():
    """Two moves that change the owners of no common range decide one together.

    Node 3 passes node 4: (5, 20] keeps its owners 2, 3 and 4, found in another order. Node 1 then
    lands on 10, where only two others fit. Each plan alone is right, and their locks are disjoint.
    """
    replay = Replay()
    replay.commit("create_keyspace", keyspace="k", replication=("simple", 3))
    tokens = {1: [100], 2: [20], 3: [30, 70], 4: [5, 40], 5: [80], 6: [85], 7: [90], 8: [110]}
    for node, held in tokens.items():
        replay.join(node, *held)
    replay.commit("prepare_move", node=3, tokens=(50, 70))
    second = Op("prepare_move", node=1, tokens=(10,))
    assert checks.explain(replay.model, second) is None
    assert "locked" in str(checks.excuse(replay.model, second))

    replay.take(second)
    sequence = replay.epoch
    replay.commit("start", sequence=sequence)
    replay.commit("mid", sequence=sequence)
    assert not replay.model.drift()
    replay.model.apply(Op("finish", sequence=sequence), replay.epoch + 1)

    assert len(replay.model.drift()) == 1


def random_op(choose, model, names):
    """An operation that may well be impossible."""
    tokens = tuple(choose.sample(range(-200, 200), choose.randint(1, 2)))
    node, other = choose.choice(names), choose.choice(names)
    sequence = choose.choice([*model.sequences, 0])
    due = model.sequences[sequence].next if sequence in model.sequences else "start"
    return choose.choice(
        [
            Op("prepare_join", node=node, tokens=tokens),
            Op("prepare_move", node=node, tokens=tokens),
            Op("prepare_leave", node=node, force=choose.random() < 0.3),
            Op("prepare_replace", node=node, replaced=other),
            Op("cancel", sequence=sequence),
            *[Op(due, sequence=sequence)] * 5,
        ]
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_wide_locks_keep_plans_right(seed):
    """Whatever runs at once, nothing that must hold breaks, and no plan goes wrong."""
    choose = random.Random(seed)
    replay = Replay()
    replay.commit("create_keyspace", keyspace="a", replication=("simple", choose.randint(1, 3)))
    factors = tuple((name, choose.randint(1, 3)) for name in ("dc1", "dc2"))
    replay.commit("create_keyspace", keyspace="b", replication=("network", factors))
    names = range(1, 15)
    for node in names:
        datacenter, rack = choose.choice(["dc1", "dc2"]), choose.choice(["r1", "r2", "r3"])
        replay.commit("register", node=node, datacenter=datacenter, rack=rack)
        if node <= 9:
            replay.commit("unsafe_join", node=node, tokens=(node * 40 - 200, node * 40 - 199))
    for _ in range(STEPS):
        op = random_op(choose, replay.model, names)
        at_once = op.kind.startswith("prepare_") and checks._locked(replay.model, op, wide=True)
        if checks.explain(replay.model, op) is None and not at_once:
            replay.take(op)
            assert not replay.model.drift()


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (Op("register", node=1), "is registered"),
        (Op("unregister", node=1), "is JOINED"),
        (Op("unregister", node=9), "unknown"),
        (Op("unregister", node=5), "takes part"),
        (Op("create_keyspace", keyspace="k", replication=SIMPLE_2), "there is keyspace"),
        (Op("create_keyspace", keyspace="n", replication=("simple", 1)), "under a sequence"),
        (Op("alter_keyspace", keyspace="k", replication=("simple", 1)), "under a sequence"),
        (Op("drop_keyspace", keyspace="k"), "under a sequence"),
        (Op("drop_keyspace", keyspace="n"), "no keyspace"),
        (Op("alter_topology", locations=((9, "dc1", "r1"),)), "unknown"),
        (Op("alter_topology", locations=((1, "dc1", "r1"),)), "in flight"),
        (Op("prepare_join", node=1, tokens=(7,)), "is JOINED"),
        (Op("prepare_join", node=6, tokens=(100,)), "taken"),
        (Op("prepare_join", node=6, tokens=(150,)), "taken"),
        (Op("prepare_join", node=6, tokens=(7, 7)), "repeated"),
        (Op("prepare_join", node=6), "missing"),
        (Op("prepare_join", node=6, tokens=(140,)), "locked"),
        (Op("unsafe_join", node=6, tokens=(140,)), "locked"),
        (Op("prepare_move", node=6, tokens=(7,)), "is REGISTERED"),
        (Op("prepare_move", node=2, tokens=(100,)), "taken"),
        (Op("prepare_leave", node=2), "locked"),
        (Op("assassinate", node=2), "locked"),
        (Op("prepare_replace", node=6, replaced=5), "is REGISTERED"),
        (Op("prepare_replace", node=1, replaced=2), "is JOINED"),
        (Op("prepare_replace", node=5, replaced=4), "takes part"),
        (Op("start", sequence=99), "no sequence"),
        (Op("retire", sequence=12), "the step due is start"),
    ],
)
def test_objects(op, words):
    """Four nodes, a fifth is joining at 150 since epoch 12, a sixth is registered."""
    replay = ring_of(100, 200, 300, 400)
    replay.commit("register", node=5, datacenter="dc1", rack="r1")
    replay.commit("register", node=6, datacenter="dc1", rack="r1")
    assert replay.commit("prepare_join", node=5, tokens=(150,)) == 12

    assert words in str(checks.explain(replay.model, op))


def test_objects_to_locks_on_both_sides_of_the_minimum():
    """One has locked the first range, the other wants the last; they do not overlap."""
    replay = ring_of(MINIMUM, 100, 200, 300, setting=("simple", 1))
    replay.commit("register", node=5, datacenter="dc1", rack="r1")
    replay.commit("register", node=6, datacenter="dc1", rack="r1")
    sequence = replay.commit("prepare_replace", node=5, replaced=2)
    assert replay.model.sequences[sequence].locks == {("simple", 1): [(MINIMUM, 100)]}

    objection = checks.explain(replay.model, Op("prepare_join", node=6, tokens=(350,)))

    assert "locked" in str(objection)


def test_objects_to_leaves_that_are_too_many_together():
    replay = ring_of(100, 200, 300, 400, setting=("network", (("dc1", 2),)))
    replay.commit("prepare_leave", node=1)
    replay.commit("alter_keyspace", keyspace="k", replication=("network", (("dc1", 3),)))
    leave = Op("prepare_leave", node=3)

    assert "too few" in str(checks.explain(replay.model, leave))
    assert "too few" not in str(checks.explain(replay.model, leave._replace(force=True)))


def test_objects_to_a_location_that_would_move_data():
    replay = Replay()
    replay.commit("create_keyspace", keyspace="k", replication=("network", (("dc1", 2),)))
    for node, rack in enumerate(["r1", "r1", "r2", "r2"], start=1):
        replay.join(node, node * 100, rack=rack)
    swapped = Op("alter_topology", locations=((2, "dc1", "r2"),))
    renamed = Op("alter_topology", locations=((1, "dc1", "q"), (2, "dc1", "q")))

    assert "owners would change" in str(checks.explain(replay.model, swapped))
    assert checks.explain(replay.model, renamed) is None


RING = tuple(Place(token, token // 100, "dc1", "r1") for token in (100, 200, 300, 400))
GOOD = [
    (MINIMUM, 100, frozenset({1, 2}), 1),
    (100, 200, frozenset({2, 3}), 1),
    (200, 300, frozenset({3, 4}), 1),
    (300, 400, frozenset({4, 1}), 1),
    (400, MINIMUM, frozenset({1, 2}), 1),
]
JOINING = checks.Flight(
    gained=(Place(150, 5, "dc1", "r1"),),
    lost=(),
    may_thin=True,
    started=True,
    locks={SIMPLE_2: [(MINIMUM, 100), (100, 150), (150, 200)]},
)


def changed(index, *owners, epoch=1):
    left, right, *_ = GOOD[index]
    return [*GOOD[:index], (left, right, frozenset(owners), epoch), *GOOD[index + 1 :]]


@pytest.mark.parametrize(
    "groups",
    [GOOD[1:], GOOD[:-1], [*GOOD[:2], *GOOD[3:]], [GOOD[0], *GOOD], GOOD[::-1], []],
    ids=["head", "tail", "gap", "overlap", "order", "empty"],
)
def test_sees_ranges_that_do_not_cover_the_ring(groups):
    assert not checks.cover_faults(GOOD, [100, 200, 300, 400])
    assert checks.cover_faults(groups, [100, 200, 300, 400])


@pytest.mark.parametrize("owners", [(2,), (2, 3, 4), (2, 9), ()])
def test_sees_readers_too_few_too_many_and_strange(owners):
    assert not checks.read_faults(GOOD, SIMPLE_2, RING, [])
    assert checks.read_faults(changed(1, *owners), SIMPLE_2, RING, [])


def test_sees_writers_that_no_sequence_adds():
    assert not checks.write_faults(GOOD, changed(0, 1, 2, 5), SIMPLE_2, [JOINING])
    assert not checks.surplus_faults(changed(0, 1, 2, 5), SIMPLE_2, RING, [JOINING])
    waiting = JOINING._replace(started=False)
    for flying, writes in [
        ([], changed(0, 1, 2, 5)),
        ([waiting], changed(0, 1, 2, 5)),
        ([JOINING], changed(2, 3, 4, 5)),
        ([JOINING], changed(0, 1, 2, 3, 5)),
        ([JOINING], changed(0, 1)),
    ]:
        assert checks.write_faults(GOOD, writes, SIMPLE_2, flying)


def test_sees_surplus_out_of_reach():
    """Node 5 at 150 comes second behind node 1 and first behind itself, and nowhere else."""
    writes = [*GOOD[:1], (100, 150, frozenset({2, 3, 5}), 2), (150, 200, frozenset({2, 3}), 1)]
    reached = [*writes, *GOOD[2:]]
    beyond = [*writes, (200, 300, frozenset({3, 4, 5}), 2), *GOOD[3:]]

    assert not checks.surplus_faults(reached, SIMPLE_2, RING, [JOINING])
    assert checks.surplus_faults(beyond, SIMPLE_2, RING, [JOINING])


def test_sees_epochs_that_stand_still_or_run_ahead():
    assert not checks.epoch_faults(GOOD, changed(1, 2, 4, epoch=7), 7)
    assert checks.epoch_faults(GOOD, changed(1, 2, 4), 7)
    assert checks.epoch_faults(GOOD, changed(1, 2, 3, epoch=7), 7)


def test_sees_a_read_that_misses_a_write():
    """Reads that move before the new owner takes writes; writes that ask the readers only."""
    before, after = frozenset({1, 2, 3}), frozenset({2, 3, 4})
    settled = [(MINIMUM, MINIMUM, before, [before])]
    added = [(MINIMUM, MINIMUM, before, [before, after])]
    moved = [(MINIMUM, MINIMUM, after, [before, after])]
    hasty = [(MINIMUM, MINIMUM, after, [before])]

    assert not checks.quorum_faults(settled, added)
    assert not checks.quorum_faults(added, moved)
    assert checks.quorum_faults(settled, hasty)
    everybody = before | {4, 5}
    assert checks.quorum_faults(settled, [(MINIMUM, MINIMUM, before, [everybody])])
