"""The rules of `ringlog doctor`, over pictures made by hand."""

import pytest

from ringlog.doctor.finding import State
from ringlog.doctor.judging import CHECKS, diagnosis
from ringlog.doctor.picture import (
    Database,
    Disk,
    Local,
    Picture,
    Secret,
    Snapshot,
    Supervised,
    Unanswered,
)
from tests.pictures import (
    CMS,
    DRIVER,
    LIMITS,
    LOCAL,
    NODE,
    POSTGRES,
    a_node,
    a_sequence,
    changed,
    driven,
    healthy,
    moving,
    only,
)


def test_a_healthy_cluster_has_no_finding_and_every_check_is_made():
    found = diagnosis(healthy(), LIMITS)
    assert found.is_healthy
    assert {check.state for check in found.checks} == {State.WELL}
    assert [check.name for check in found.checks] == list(CHECKS)


def test_what_was_not_asked_is_neither_good_nor_bad():
    blank = Picture(release="1.0", urls=("http://x",), asked=(CMS,))
    states = {check.name: check.state for check in diagnosis(blank, LIMITS).checks}
    assert states.pop("connection") is State.WELL
    assert states.pop("clocks") is State.WELL
    assert states.pop("versions") is State.WELL
    assert set(states.values()) == {State.NOT_ASKED}


@pytest.mark.parametrize(
    ("picture", "code", "said", "command"),
    [
        (
            healthy(local=Local(state_dir="/s", founded=False), asked=(), nodes=()),
            "nothing_runs",
            "No process",
            "ringlog up --state-dir /s --detach",
        ),
        (
            healthy(asked=(changed(CMS, answered=False, complaint="takes no connection"), NODE)),
            "cms_down",
            "takes no connection",
            "tail /s/cms-1.log",
        ),
        (
            healthy(asked=(changed(CMS, ready=False, detail="It is stopping."), NODE)),
            "cms_not_ready",
            "It is stopping.",
            "tail /s/cms-1.log",
        ),
        (
            healthy(asked=(CMS, changed(CMS, name="cms-2", cluster="d"), NODE)),
            "two_clusters",
            "2 clusters: c, d",
            "ringlog doctor --url",
        ),
        (healthy(tip=0), "not_founded", "No cluster", "ringlog commit Initialize"),
        (
            healthy(asked=(changed(CMS, sequencing=False), NODE)),
            "nobody_sequences",
            "none of them",
            "tail",
        ),
        (
            healthy(unanswered=(Unanswered("nodes", "unauthorized: Send a token."),)),
            "not_answered",
            "did not say: nodes (unauthorized: Send a token)",
            "--token",
        ),
        (
            healthy(database=Database(complaint="it takes no connection"), local=None),
            "postgres_down",
            "it takes no connection",
            "systemctl",
        ),
        (
            healthy(database=changed(POSTGRES, version="14.2", major=14)),
            "postgres_version",
            "14.2",
            "pg_upgrade",
        ),
        (
            healthy(database=changed(POSTGRES, lax=("fsync",))),
            "postgres_not_durable",
            "fsync off",
            "ALTER SYSTEM SET fsync = on",
        ),
        (
            healthy(database=changed(POSTGRES, missing=("0009_reproduced",))),
            "schema_behind",
            "0009_reproduced",
            "python -m migrations",
        ),
        (
            healthy(database=changed(POSTGRES, unknown=("0099_later",))),
            "schema_ahead",
            "0099_later",
            "upgrade",
        ),
        (
            healthy(local=changed(LOCAL, supervisor=None)),
            "supervisor_missing",
            "has died",
            "ringlog up --state-dir /s --detach",
        ),
        (
            healthy(asked=(CMS, changed(NODE, answered=False, complaint="gave no answer in time"))),
            "process_silent",
            "node-1 runs as process 2",
            "kill -CONT 2",
        ),
        (
            healthy(asked=(CMS, changed(NODE, ready=False, detail="It needs a repair"))),
            "process_not_ready",
            "It needs a repair.",
            "tail /s/node-1.log",
        ),
        (healthy(local=changed(LOCAL, has_java=False)), "no_java", "No Java", "openjdk"),
        (
            healthy(asked=(CMS, changed(NODE, version="0.9"))),
            "other_release",
            "node-1 runs release 0.9",
            "ringlog down --state-dir /s",
        ),
        (
            healthy(nodes=(a_node(version="0.9"),)),
            "other_release",
            "registered with release 0.9",
            "ringlog down",
        ),
        (
            healthy(nodes=(a_node(lag=101),)),
            "node_behind",
            "node-1 is 101 epochs behind",
            "tail /s/node-1.log",
        ),
        (
            healthy(nodes=(a_node(liveness="down", age_s=70.0, lag=3),)),
            "node_down",
            "not reported for 1 min 10 s and is 3 epochs behind",
            "ringlog replace 1 --with NODE --dead 1 --state-dir /s",
        ),
        (
            healthy(nodes=(a_node(liveness="unknown", age_s=None, lag=None),)),
            "node_down",
            "has never reported",
            "ringlog replace 1",
        ),
        (
            healthy(database=changed(POSTGRES, tip=500)),
            "fanout_behind",
            "450 epochs behind",
            "tail /s/kafka.log",
        ),
        (
            healthy(snapshots=(), tip=20_001),
            "snapshot_old",
            "no snapshot of 20,001 epochs",
            "ringlog snapshot take --state-dir /s",
        ),
        (
            healthy(snapshots=(Snapshot(epoch=1, age_s=7200.0),), tip=30_000),
            "snapshot_old",
            "29,999 epochs behind the log and 2 h 0 min old",
            "ringlog snapshot take",
        ),
        (
            healthy(
                divergences=({"node": 1, "epoch": 60, "hash": "ab", "detail": "Node 1 is ahead."},)
            ),
            "diverged",
            "Node 1 is ahead. Nothing is committed",
            '"node": 1, "epoch": 60, "hash": "ab"',
        ),
        (
            healthy(
                divergences=({"node": None, "epoch": 60, "hash": "ab", "detail": "We are ahead."},)
            ),
            "diverged",
            "We are ahead. Nothing",
            "tail /s/cms-1.log",
        ),
        (
            healthy(sequences=(a_sequence(),)),
            "sequence_undriven",
            "the join of node-1: mid waits for node-1 (down, 3 epochs behind) to apply epoch 43",
            "ringlog up --state-dir /s --detach",
        ),
        (
            healthy(sequences=(a_sequence(driver=driven("stuck")),)),
            "sequence_stuck",
            "but stuck: no source is left (2 failures).",
            "ringlog cancel 42 --dead 1 --state-dir /s",
        ),
        (
            healthy(sequences=(a_sequence(driver=driven("waiting")),)),
            "sequence_stuck",
            "waits for 9.0 s for node-1",
            "ringlog cancel 42",
        ),
        (
            healthy(sequences=(a_sequence(driver=driven("moving"), progress=moving(601.0)),)),
            "movement_stalled",
            "copying: 0 of 400 rows, no further for 10 min 1 s. Spark is busy or has no workers",
            "ringlog cancel 42",
        ),
        (
            healthy(sequences=(a_sequence(due="retire", driver=driven("waiting", step="retire")),)),
            "sequence_stuck",
            "waits for 9.0 s for node-1",
            "ringlog resume 42 --dead 1 --state-dir /s",
        ),
        (
            healthy(
                sessions=({"id": 30, "purpose": "cleanup", "nodes": [1], "sequence": None},),
                session_ages_s={30: 3600.0},
            ),
            "session_open",
            "for cleanup on node-1 has been open for 1 h 0 min",
            "ringlog commit CloseSession session:=30",
        ),
        (
            healthy(
                keyspaces=(
                    {"name": "k", "replication": {"strategy": "network", "factors": {"dc2": 1}}},
                )
            ),
            "too_few_nodes",
            "wants 1 replica in dc2, and 0 nodes",
            "--state-dir FOLDER --tokens-file /s/tokens.json, and when it runs: ringlog join NODE",
        ),
        (
            healthy(keyspaces=({"name": "k", "replication": {"strategy": "simple", "factor": 3}},)),
            "too_few_nodes",
            "wants 3 replicas, and 1 node",
            "ringlog scale --nodes 3 --state-dir /s",
        ),
        (
            healthy(
                local=None, asked=(CMS, changed(NODE, disk=Disk(free_bytes=4, total_bytes=100)))
            ),
            "disk_full",
            "The disk of node-1 has 4 B left, 4.0 % of it; look there.",
            "du -xh --max-depth 2 $RINGLOG_STATE_DIR",
        ),
        (
            healthy(local=None, asked=(CMS, changed(DRIVER, answered=False, complaint="is mute"))),
            "driver_down",
            "The driver at http://127.0.0.1:3 does not answer: is mute.",
            "ringlog driver --seeds http://127.0.0.1:1",
        ),
        (
            healthy(local=None, asked=(CMS, changed(DRIVER, ready=False, detail="It is away"))),
            "process_not_ready",
            "It is away.",
            "ringlog status --state-dir /s",
        ),
        (
            healthy(asked=(changed(CMS, skew_s=-61.0), NODE)),
            "clock_skew",
            "The clock of cms-1 is 1 min 1 s behind",
            "timedatectl",
        ),
        (
            healthy(database=changed(POSTGRES, skew_s=6.0)),
            "clock_skew",
            "of postgres is 6.0 s ahead of",
            "timedatectl",
        ),
        (
            healthy(local=changed(LOCAL, disks=(Disk(path="/s", free_bytes=4, total_bytes=100),))),
            "disk_full",
            "4 B left, 4.0 % of it",
            "du ",
        ),
        (
            healthy(local=changed(LOCAL, secrets=(Secret(path="/s/t", mode=0o640),))),
            "secret_readable",
            "(mode 0640)",
            "chmod 600 /s/t",
        ),
    ],
)
def test_each_trouble_has_one_sentence_and_one_command(picture, code, said, command):
    finding = only(picture)
    assert finding.code == code
    assert said in finding.sentence
    assert command in finding.command
    assert finding.sentence.endswith(".")


def test_one_cause_is_said_once():
    """A node that hangs does not report either, and a CMS without Postgres cannot commit."""
    mute = changed(NODE, answered=False, complaint="gave no answer in time")
    hangs = healthy(asked=(CMS, mute), nodes=(a_node(liveness="down", age_s=20.0),))
    assert only(hangs).code == "process_silent"
    unready = changed(CMS, ready=False, code="unavailable", detail="The log is out of reach.")
    lost = healthy(asked=(unready, NODE), database=Database(complaint="its process does not run"))
    assert only(lost).code == "postgres_down"
    stopped = changed(CMS, ready=False, code="diverged_log", detail="Node 1 is ahead.")
    ahead = ({"node": 1, "epoch": 60, "hash": "ab", "detail": "Node 1 is ahead."},)
    assert only(healthy(asked=(stopped, NODE), divergences=ahead)).code == "diverged"


def test_a_node_that_a_sequence_waits_for_is_given_up_by_turning_back():
    away = a_node(state="registered", liveness="down", age_s=20.0)
    finding = only(healthy(nodes=(away,), sequences=(a_sequence(driver=driven("moving")),)))
    assert finding.code == "node_down"
    assert "turn sequence 42 back" in finding.sentence
    assert finding.command == "ringlog cancel 42 --dead 1 --state-dir /s"


def test_what_has_finished_is_ended_without_a_node_that_left_and_died():
    away = a_node(state="left", liveness="down", age_s=20.0)
    ending = a_sequence(due="retire", kind="leave", driver=driven("committing", step="retire"))
    finding = only(healthy(nodes=(away,), sequences=(ending,)))
    assert finding.code == "node_down"
    assert "end sequence 42 without it" in finding.sentence
    assert finding.command == "ringlog resume 42 --dead 1 --state-dir /s"


def test_a_session_that_is_open_says_what_keeps_it_from_its_end():
    opened = ({"id": 30, "purpose": "cleanup", "nodes": [1], "sequence": None},)
    word = {"name": "driver-1", "doing": "stuck", "for_s": 90.0, "failures": 4, "age_s": 0.5}
    served = {30: {"id": 30, "driver": {**word, "detail": "node 1 is away", "nodes": [1]}}}
    away = a_node(state="left", liveness="down", age_s=20.0)

    finding = only(
        healthy(nodes=(away,), sessions=opened, session_ages_s={30: 3600.0}, served=served)
    )

    assert finding.code == "session_open"
    assert "driver-1: stuck on node-1 for" in finding.sentence
    assert "node 1 is away (4 failures)." in finding.sentence
    assert finding.command.startswith("ringlog replace 1 --with NODE --dead 1 --state-dir /s, or")


def test_a_dead_process_comes_back_by_its_supervisor_or_by_up():
    gone = (*LOCAL.processes[:1], Supervised(name="node-1", role="node", pid=2, alive=False))
    mute = changed(NODE, answered=False, complaint="takes no connection")
    kept = healthy(local=changed(LOCAL, processes=gone), asked=(CMS, mute))
    assert only(kept).command == "tail /s/node-1.log"
    alone = healthy(local=changed(LOCAL, processes=gone, supervisor=None), asked=(CMS, mute))
    codes = {item.code: item.command for item in diagnosis(alone, LIMITS).findings}
    assert list(codes) == ["supervisor_missing", "process_missing"]
    assert set(codes.values()) == {"ringlog up --state-dir /s --detach"}


def test_what_takes_its_time_is_no_finding():
    fresh = a_sequence(since_s=1.0)
    rows = a_sequence(driver=driven("moving", for_s=1e6), progress=moving(599.0))
    waiting = a_sequence(driver=driven("waiting"), since_s=10.0)
    assert diagnosis(healthy(sequences=(fresh, rows, waiting)), LIMITS).is_healthy
    registered = a_node(state="registered", liveness="unknown", version="0.1")
    assert diagnosis(healthy(nodes=(registered,)), LIMITS).is_healthy
    opened = ({"id": 30, "purpose": "movement", "nodes": [1], "sequence": 42},)
    assert diagnosis(healthy(sessions=opened, session_ages_s={30: 1e6}), LIMITS).is_healthy
    wide = ({"name": "k", "replication": {"strategy": "simple", "factor": 1}},)
    assert diagnosis(healthy(keyspaces=wide), LIMITS).is_healthy


def test_a_cluster_elsewhere_is_given_commands_that_work_there():
    view = a_sequence()
    away = healthy(local=None, where=" --url http://x", urls=("http://x",), sequences=(view,))
    assert only(away).command == "ringlog driver --seeds http://x"
    few = ({"name": "k", "replication": {"strategy": "simple", "factor": 2}},)
    away = healthy(local=None, where=" --url http://x", keyspaces=few)
    assert only(away).command == "ringlog join NODE --url http://x"
    old = healthy(local=None, asked=(changed(CMS, version="0.9"), NODE))
    assert only(old).command == "pip install --upgrade ringlog"
    nodriver = healthy(local=changed(LOCAL, drives=False), sequences=(view,))
    assert "--driver" in only(nodriver).command


def test_where_no_driver_runs_more_nodes_take_one_first():
    few = ({"name": "k", "replication": {"strategy": "simple", "factor": 2}},)
    scale = "ringlog scale --nodes 2 --state-dir /s"
    up = "ringlog up --state-dir /s --driver --detach"
    quiet = healthy(local=changed(LOCAL, drives=False), keyspaces=few)
    assert only(quiet).command == f"ringlog down --state-dir /s && {up} && {scale}"
    alone = healthy(local=changed(LOCAL, drives=False, supervisor=None), keyspaces=few)
    findings = {item.code: item.command for item in diagnosis(alone, LIMITS).findings}
    assert findings["too_few_nodes"] == f"{up} && {scale}"


def test_who_is_missing_elsewhere_is_started_as_the_cluster_says():
    start = "docker compose up -d --wait"
    mute = {"answered": False, "complaint": "takes no connection"}
    away = a_node(liveness="down", age_s=70.0)
    for picture in (
        healthy(asked=(changed(CMS, **mute), NODE)),
        healthy(asked=(CMS, changed(DRIVER, **mute))),
        healthy(database=Database(complaint="it takes no connection")),
        healthy(sequences=(a_sequence(),)),
        healthy(nodes=(away,)),
    ):
        assert only(changed(picture, local=None, start=start)).command == start
