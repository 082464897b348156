"""What `ringlog doctor` may see of a cluster, made by hand: one that is well, and changes of it."""

import msgspec

from ringlog.commands.naming import roster
from ringlog.doctor.finding import Limits
from ringlog.doctor.judging import diagnosis
from ringlog.doctor.picture import (
    Asked,
    Database,
    Disk,
    Local,
    Picture,
    Secret,
    Snapshot,
    Supervised,
)


def changed(value, **values):
    return msgspec.structs.replace(value, **values)


LIMITS = Limits()
CMS = Asked(
    name="cms-1",
    role="cms",
    url="http://127.0.0.1:1",
    answered=True,
    ready=True,
    cluster="c",
    sequencing=True,
    version="1.0",
    skew_s=0.0,
)
NODE_URL = "http://127.0.0.1:2"
NODE = Asked(name="node-1", role="node", url=NODE_URL, answered=True, ready=True, version="1.0")
DRIVER = changed(NODE, name="driver-1", role="driver", url="http://127.0.0.1:3")
POSTGRES = Database(version="16.9", major=16, skew_s=0.1, tip=50, published={"ringlog.log.v1": 50})
LOCAL = Local(
    state_dir="/s",
    founded=True,
    supervisor=7,
    processes=(
        Supervised(name="cms-1", role="cms", pid=1, alive=True),
        Supervised(name="node-1", role="node", pid=2, alive=True),
    ),
    drives=True,
    disks=(Disk(path="/s", free_bytes=90, total_bytes=100),),
    secrets=(Secret(path="/s/tokens.json", mode=0o600),),
)


def a_node(**values):
    row = {
        "id": 1,
        "host_id": "h",
        "addresses": {"http": "127.0.0.1:2"},
        "datacenter": "dc1",
        "rack": "r1",
        "version": "1.0",
        "state": "joined",
        "liveness": "up",
        "watermark": 50,
        "lag": 0,
        "age_s": 0.4,
    }
    return {**row, **values}


def a_sequence(**values):
    view = {
        "id": 42,
        "kind": "join",
        "node": 1,
        "replaced": None,
        "due": "mid",
        "taken": [{"step": "start", "epoch": 43}],
        "since_s": 300.0,
        "barrier": {"epoch": 43, "passed": False},
        "laggards": [{"node": 1, "liveness": "down", "behind": 3, "blocking": True}],
        "driver": None,
    }
    return {**view, **values}


def driven(doing, **values):
    said = {
        "name": "driver-1",
        "step": "mid",
        "doing": doing,
        "for_s": 9.0,
        "detail": "no source is left",
        "failures": 2,
        "waiting": [],
        "age_s": 0.5,
    }
    return {**said, **values}


def moving(stalled_s):
    rows = {"rows_done": 0, "rows_total": 400, "bytes_done": 0, "bytes_total": 0}
    said = {"phase": "copying", "rows_per_s": 0.0, "eta_s": None}
    return {**rows, **said, "stalled_s": stalled_s}


def healthy(**values):
    nodes = values.pop("nodes", (a_node(),))
    picture = Picture(
        release="1.0",
        urls=(CMS.url,),
        where=" --state-dir /s",
        local=LOCAL,
        database=POSTGRES,
        asked=(CMS, NODE),
        cluster={"epoch": 50, "id": "c"},
        tip=50,
        nodes=nodes,
        roster=roster(nodes, {NODE_URL: "node-1"}),
        sequences=(),
        sessions=(),
        keyspaces=(),
        divergences=(),
        snapshots=(Snapshot(epoch=40, age_s=9.0),),
    )
    return msgspec.structs.replace(picture, **values)


def only(picture, limits=LIMITS):
    (finding,) = diagnosis(picture, limits).findings
    return finding
