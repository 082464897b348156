"""The rules behind the verbs: names of nodes, tokens, values, and what is said of a sequence."""

from __future__ import annotations

import re
import socket
import threading
from io import StringIO

import pytest
from rich.console import Console

from client.choosing import chosen
from ringlog.commands.bars import Bars
from ringlog.commands.choosing import TokensError, parsed
from ringlog.commands.figures import count, duration, plural, size
from ringlog.commands.naming import Member, NamingError, roster
from ringlog.commands.node_asking import DoubtError, asked
from ringlog.commands.planning import told
from ringlog.commands.repairing import outcome_of, wanted
from ringlog.commands.retiring import refusal, retirement
from ringlog.commands.telling import consequences, gaining, now, title
from ringlog.commands.values import ValuesError, columns_of, key_path, split_name, table_in
from ringlog.commands.watching import Lines, step_of
from tests.command import run

TABLE = {
    "keyspace": "shop",
    "name": "orders",
    "partition_key": ["id"],
    "columns": [
        {"name": "id", "type": "bigint"},
        {"name": "customer", "type": "string"},
        {"name": "total", "type": "double"},
        {"name": "paid", "type": "boolean"},
    ],
}


def node(number, **more):
    plain = {"datacenter": "dc1", "rack": "r1", "state": "joined", "liveness": "up"}
    own = {"id": number, "host_id": f"host-{number}"}
    return {**own, "addresses": {"http": f"10.0.0.{number}:80"}, **plain, **more}


NAMES = roster([node(1), node(2), node(3, liveness="down")], {"http://10.0.0.1:80": "node-1"})


@pytest.mark.parametrize("text", ["1", "node-1", "10.0.0.1:80", "http://10.0.0.1:80", "host-1"])
def test_a_node_has_many_names(text):
    assert NAMES.find(text).id == 1


def test_a_node_that_nobody_knows_is_answered_with_those_that_are():
    with pytest.raises(NamingError, match=r"no node 'nope': there are 1 \(node-1\), 2 \(node 2\)"):
        NAMES.find("nope")


def test_a_name_that_several_have_is_not_guessed():
    twice = roster([node(1), node(2, addresses={"http": "10.0.0.1:80"})], {})
    with pytest.raises(NamingError, match="nodes 1, 2: give the number"):
        twice.find("10.0.0.1:80")


def test_several_nodes_come_with_commas_or_one_by_one():
    assert NAMES.numbers(["3,node-1", "1", ""]) == [1, 3]


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, None), ("4", 4), ("7,", ["7"]), ("-7", ["-7"]), ("1, 2", ["1", "2"])],
)
def test_tokens_are_a_number_or_a_list(text, expected):
    assert parsed(text) == expected


@pytest.mark.parametrize("text", ["", ",", "x", "0", "1025", "1,y", f"{2**63},"])
def test_what_is_neither_is_refused(text):
    with pytest.raises(TokensError):
        parsed(text)


def metadata(**more):
    nodes = [node(1), node(2), node(3, state="registered"), node(4, datacenter="dc2")]
    tokens = [("-100", 1), ("100", 2), ("-50", 1), ("50", 2), ("7", 4)]
    return {
        "directory": {"nodes": nodes},
        "ring": {"tokens": [{"token": token, "node": owner} for token, owner in tokens]},
        "schema": {"keyspaces": [{"replication": {"strategy": "simple", "factor": 2}}]},
        "sequences": {"sequences": []},
        **more,
    }


def test_a_newcomer_gets_as_many_tokens_as_the_others_have():
    found = chosen(metadata(), 3, None)
    assert len(found) == 2
    assert not {"-100", "100", "-50", "50", "7"} & set(found)
    assert len(chosen(metadata(), 3, 5)) == 5


def test_tokens_that_another_sequence_will_bring_are_kept_clear_of():
    first = chosen(metadata(), 3, 2)
    running = {"sequences": [{"kind": "join", "node": 9, "tokens": first}]}
    assert not set(first) & set(chosen(metadata(sequences=running), 3, 2))


def test_where_a_node_stood_does_not_bind_it_when_it_moves():
    others = [item for item in metadata()["ring"]["tokens"] if item["node"] != 1]
    assert chosen(metadata(), 1, 3) == chosen(metadata(ring={"tokens": others}), 1, 3)


def test_values_have_the_type_of_their_column():
    given = ["id=7", "customer=a=b", "total=9.5", "paid=True", "customer:=null"]
    assert columns_of(TABLE, given[:4]) == {"id": 7, "customer": "a=b", "total": 9.5, "paid": True}
    assert columns_of(TABLE, given[4:]) == {"customer": None}


@pytest.mark.parametrize("text", ["x", "=1", "nope=1", "id=x", "paid=maybe", "id:=[", ":=1"])
def test_a_value_that_is_none_is_refused(text):
    with pytest.raises(ValuesError):
        columns_of(TABLE, [text])


@pytest.mark.parametrize("text", ["inf", "-Infinity", "nan", "1e999"])
def test_a_number_that_json_cannot_say_is_refused(text):
    with pytest.raises(ValuesError, match="is not a finite double"):
        columns_of(TABLE, [f"total={text}"])


def test_a_key_goes_into_an_address_as_it_is():
    assert key_path(TABLE, "a/b,c+ü%").endswith("/rows/a%2Fb%2Cc%2B%C3%BC%25")
    two = {**TABLE, "partition_key": ["id", "customer"]}
    assert key_path(two, "1,a%2Cb").endswith("/rows/1,a%2Cb")
    with pytest.raises(ValuesError, match="The key is empty"):
        key_path(TABLE, "")


def test_a_table_is_found_by_its_whole_name():
    schema = {"keyspaces": [{"name": "shop", "tables": [TABLE]}]}
    assert table_in(schema, "shop.orders") is TABLE
    for text in ("orders", "shop.", ".orders", "shop.nope"):
        with pytest.raises(ValuesError):
            table_in(schema, text)
    assert split_name("a.b") == ("a", "b")


def test_figures_as_people_read_them():
    assert [size(item) for item in (None, 5, 2048, 3 * 2**20, 5 * 2**40)] == [
        "–",
        "5 B",
        "2.0 KiB",
        "3.0 MiB",
        "5.0 TiB",
    ]
    assert [duration(item) for item in (None, 1.25, 42.4, 125, 7260)] == [
        "–",
        "1.2 s",
        "42 s",
        "2 min 5 s",
        "2 h 1 min",
    ]
    assert (count(None), count(1234567), plural(1, "row"), plural(2, "row")) == (
        "–",
        "1,234,567",
        "1 row",
        "2 rows",
    )


def laggard(number, **more):
    return {"node": number, "liveness": "up", "behind": 2, "blocking": True, **more}


def driver(**more):
    plain = {"name": "driver-1", "step": "mid", "doing": "waiting", "for_s": 3, "age_s": 0.5}
    return {**plain, "detail": None, "failures": 0, "waiting": [], **more}


def view(**more):
    return {
        "id": 11,
        "kind": "join",
        "node": 3,
        "replaced": None,
        "taken": [{"step": "prepare", "epoch": 11}, {"step": "start", "epoch": 12}],
        "due": "mid",
        "cancelled": False,
        "since_s": 60.0,
        "barrier": {"epoch": 12, "passed": False},
        "laggards": [laggard(3, liveness="down", behind=None), laggard(2)],
        "driver": driver(),
        "progress": None,
        "plans": [{"changes": [{"before": [1, 2], "after": [2, 3]}]}],
        **more,
    }


MOVING = {
    "phase": "copying",
    "rows_done": 50,
    "rows_total": 2000,
    "bytes_done": 10,
    "bytes_total": 4096,
    "rows_per_s": 25.0,
    "eta_s": 78.0,
}


def test_who_is_waited_for_is_said_by_name():
    assert now(view(), NAMES) == (
        "waits for 3.0 s for node 3 (down), node 2 (up, 2 epochs behind) to apply epoch 12"
    )
    stalled = view(driver=driver(doing="moving"), progress={**MOVING, "stalled_s": 61.0})
    assert now(stalled, NAMES).endswith("25 rows/s, no further for 1 min 1 s")
    heard = view(laggards=[], driver=driver(waiting=[1]))
    assert now(heard, NAMES) == "waits for 3.0 s for node-1 to answer driver-1"


def test_a_sequence_that_nobody_drives_says_so():
    assert "no driver reports about it: start one" in now(view(driver=None), NAMES)
    assert "driver-1 has said nothing for 30 s" in now(view(driver=driver(age_s=30)), NAMES)
    begun = now(view(driver=None, since_s=0.5), NAMES)
    assert begun.startswith("mid waits for node 3")
    assert "driver" not in begun


def test_a_sequence_that_is_stuck_says_why_and_since_when():
    stuck = driver(doing="stuck", detail="Spark does not answer", failures=4)
    said = now(view(driver=stuck), NAMES)
    assert said == "mid is due for 1 min 0 s, but stuck: Spark does not answer (4 failures)"


def test_what_a_driver_said_of_another_step_is_not_repeated():
    late = driver(step="start", doing="stuck", detail="old")
    assert "old" not in now(view(driver=late), NAMES)


def test_rows_that_move_are_counted():
    said = now(view(driver=driver(doing="moving"), progress=MOVING), NAMES)
    assert said == ("copying: 50 of 2,000 rows, 10 B of 4.0 KiB, 25 rows/s, 1 min 18 s left")
    waits = view(driver=driver(doing="moving"), progress={**MOVING, "detail": "Nobody works."})
    assert now(waits, NAMES) == f"Nobody works; {said}"


def test_what_a_cancel_means_depends_on_the_step():
    prepared = view(taken=[{"step": "prepare", "epoch": 11}])
    assert consequences(prepared, NAMES).startswith("Nothing has moved yet")
    assert "drops the rows" in consequences(view(), NAMES)
    mid = view(taken=[*view()["taken"], {"step": "mid", "epoch": 13}])
    assert consequences(mid, NAMES).startswith("Reads move back")
    assert gaining(view()) == [3]
    assert title(view(replaced=2), NAMES) == "replace of node 2 by node 3"


def test_without_a_terminal_a_line_is_said_once_until_it_is_another(capsys):
    clock = [0.0]
    lines = Lines(NAMES, lambda: clock[0])
    lines.update([view()])
    lines.update([view(since_s=61.0)])
    assert len(capsys.readouterr().err.splitlines()) == 1
    lines.update([view(driver=driver(doing="moving"))])
    clock[0] = 60.0
    lines.update([view(driver=driver(doing="moving"))])
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_on_a_terminal_a_bar_fits_even_where_there_is_much_to_say():
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=80, height=20)
    with Bars(NAMES, console) as bars:
        bars.update([view(), view(id=12, driver=driver(doing="moving"), progress=MOVING)])
        bars.update([])
    shown = screen.getvalue()
    assert "join of node 3: mid is due" in shown
    assert "━" in shown
    assert "copying: 50 of 2,000 rows" in shown
    assert "No sequence is in progress." in shown
    plain = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in shown.splitlines()]
    assert max(map(len, plain)) <= 80


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("StartJoin", "start"),
        ("MidReplace", "mid"),
        ("FinishLeave", "finish"),
        ("CancelSequence", "cancel"),
        ("RetireSequence", "retire"),
        ("AdvanceCmsReconfiguration", None),
    ],
)
def test_the_log_tells_which_step_an_entry_takes(kind, expected):
    assert step_of({"kind": kind, "sequence": 5}, 5) == expected
    assert step_of({"kind": kind, "sequence": 6}, 5) is None


def plan(**more):
    span = {"left": str(-(2**63)), "right": "0"}
    return {
        "transfers": [{"source": 1, "target": 3, "ranges": 1, "rows": 10, "bytes": 20}],
        "rows": 10,
        "bytes": 20,
        "seconds": None,
        "rows_per_s": None,
        "weakest": 2,
        "locks": [{"placements": [{"ranges": [span]}]}],
        "barrier": {"groups": [{"group": [1, 2], "needed": 2, "missing": []}]},
        "result": {"sequence": 5},
        "sequence": view(dead=[]),
        **more,
    }


def test_a_plan_in_words():
    assert told(plan(), NAMES) == [
        "moves about 10 rows, 20 B; nothing was moved yet that tells how long it takes",
        "locks 1 range, 50.0 % of the ring",
        "weakest moment: 2 replicas of a range",
        "must vote: 2 of node-1, node 2",
        "node 3 is down, and waited for",
    ]
    timed = told(plan(seconds=90, rows_per_s=100), NAMES)
    assert timed[0] == "moves about 10 rows, 20 B: about 1 min 30 s at 100 rows/s"
    assert told(plan(rows=None), NAMES)[0].startswith("moves rows, but no node has reported")
    assert told(plan(transfers=[], locks=[]), NAMES)[:2] == ["moves no rows", "locks nothing"]
    without = told(plan(sequence=view(dead=[2, 3])), NAMES)
    assert without[-1] == "node 2 is up, and would be taken for dead: end its process first"


VERBS = "join leave move replace cancel resume sequences put get delete owners diff schema bench"
IN_GROUPS = [
    "snapshot",
    "plan",
    "plan join",
    "plan leave",
    "plan move",
    "plan replace",
    "snapshot take",
] + [f"schema {verb}-{noun}" for verb in ("create", "drop") for noun in ("keyspace", "table")]


@pytest.mark.parametrize("verb", [*VERBS.split(), *IN_GROUPS])
def test_the_help_of_each_verb_has_an_example(verb):
    result = run(*verb.split(), "--help")
    assert result.exit_code == 0
    assert f"Example: ringlog {verb.split()[0]}" in result.output


def test_an_option_before_a_command_of_a_group_is_not_overlooked():
    words = ["schema", "--url", "http://a:1", "drop-keyspace", "shop"]
    result = run(*words)
    assert result.exit_code == 2
    assert "Options go behind the command" in result.output


def placed(keyspaces, *groups):
    writes = [
        {"left": str(left), "right": str(right), "owners": own} for left, right, own in groups
    ]
    return {"keyspaces": keyspaces, "writes": writes}


PLACEMENTS = [
    placed(["a"], (-(2**63), 0, [1, 2]), (0, 50, [2, 3]), (50, -(2**63), [3, 1])),
    placed(["b"], (-(2**63), 25, [4]), (25, -(2**63), [1])),
]


@pytest.mark.parametrize(
    ("node", "keyspace", "nodes", "ranges"),
    [
        (2, None, (1, 2, 3, 4), [(-(2**63), 50)]),
        (3, "a", (1, 2, 3, 4), [(0, -(2**63))]),
        (4, None, (1, 2, 3, 4), [(-(2**63), 25)]),
        (1, "b", (1, 2, 3), [(25, -(2**63))]),
        (None, None, (1, 2, 3, 4), [(-(2**63), -(2**63))]),
    ],
)
def test_a_repair_names_every_owner_of_the_ranges_that_it_covers(node, keyspace, nodes, ranges):
    found = wanted(PLACEMENTS, node, keyspace)

    assert found is not None
    assert found.nodes == nodes
    assert [(span.left, span.right) for span in found.ranges] == ranges
    assert found.transformation["ranges"][0]["left"] == str(ranges[0][0])


def test_there_is_nothing_to_repair_where_nothing_is_owned():
    assert wanted(PLACEMENTS, 9, None) is None
    assert wanted(PLACEMENTS, 4, "a") is None
    assert wanted([], None, None) is None


@pytest.mark.parametrize(
    ("closing", "reason", "outcome"),
    [
        ({"kind": "CloseSession", "session": 30}, "repair 30", "repaired"),
        ({"kind": "CloseSession", "session": 30}, "too slow", "given up"),
        ({"kind": "CloseSession", "session": 31}, "repair 31", None),
        ({"kind": "ClearExtension", "name": "a"}, None, None),
    ],
)
def test_only_the_driver_closes_a_repair_that_is_done(closing, reason, outcome):
    assert outcome_of(closing, reason, 30) == outcome


def waiting_to_be_retired(**values):
    driver = {"name": "driver-1", "step": "retire", "doing": "waiting", "age_s": 0.5}
    groups = [
        {"group": [1, 2, 3], "needed": 2, "applied": [2, 3]},
        {"group": [3, 4], "needed": 2, "applied": [4]},
    ]
    barrier = {"epoch": 45, "level": "quorum", "groups": groups, "passed": False}
    view = {"id": 42, "due": "retire", "cancelled": False, "driver": driver, "barrier": barrier}
    return {**view, **values}


def test_a_sequence_is_retired_by_the_evidence_of_those_that_live():
    view = waiting_to_be_retired()

    assert refusal(view, NAMES, [3]) is None
    assert retirement(view, [3]) == {
        "kind": "RetireSequence",
        "sequence": 42,
        "dead": [3],
        "barrier": {"level": "quorum", "applied": [2, 4]},
    }


@pytest.mark.parametrize(
    ("values", "dead", "said"),
    [
        ({"due": "finish"}, [3], "`ringlog cancel 42 --dead 3` turns it back"),
        ({}, [1, 3], "node-1 reports to the CMS, and is not dead"),
        ({"driver": None, "since_s": 60.0, "laggards": []}, [3], "start one with `ringlog driver`"),
    ],
)
def test_only_nodes_that_died_are_left_out_and_only_at_the_end(values, dead, said):
    assert said in str(refusal(waiting_to_be_retired(**values), NAMES, dead))


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_write_that_broke_off_is_sent_to_no_other_node(method):
    """The first may have done it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        member = Member(
            id=1, host_id="", addresses={"http": address}, datacenter="", rack="", state="joined"
        )

        def break_off():
            server.accept()[0].close()

        breaking = threading.Thread(target=break_off)
        breaking.start()

        with pytest.raises(DoubtError, match="broke off"):
            asked([member, member], method, "/x", None, token=None)
        breaking.join()
