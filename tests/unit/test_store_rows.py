"""Rows: typed, with one order, and merged to the same one everywhere."""

from __future__ import annotations

import math
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoding.key_texts import key_token
from metadata.cluster import NOTHING_YET
from metadata.columns import ColumnType
from metadata.epoch import Epoch
from metadata.partitioners import Partitioner, token_of
from metadata.schema import Column, Simple, Table, TableId
from metadata.tokens import FULL, MAXIMUM, MINIMUM, Range, Token
from store.failures import InvalidRowError
from store.keys import KEY_BYTES_MAX, key_of
from store.merging import newest_of, rows_of, schema_of, stored_name, table_of
from store.ranges import spans_of, without
from store.rows import (
    ROW_BYTES_MAX,
    Row,
    check,
    digest_of,
    encoded,
    newest,
    row_of,
    tombstone_of,
)
from tests.builders import CLUSTER, accepted
from tests.store_model import TABLE, row
from transformations.initialize import Initialize
from transformations.schema import CreateKeyspace, CreateTable

XXHASH = Partitioner.XXHASH64
EVERY = tuple(Column(f"c_{kind}", kind) for kind in ColumnType)


def table_with(*columns, key=None):
    return Table(
        id=TableId(1),
        keyspace="k",
        name="t",
        columns=columns,
        partition_key=tuple(key or [columns[0].name]),
        created=Epoch(1),
        epoch=Epoch(1),
    )


WIDE = table_with(Column("id", ColumnType.STRING), *EVERY)
PAIR = table_with(Column("a", ColumnType.STRING), Column("b", ColumnType.INT), key=["a", "b"])
VALID = {
    "c_string": "ünï ☃",
    "c_bigint": -(2**63),
    "c_int": 2**31 - 1,
    "c_double": 1,
    "c_boolean": False,
    "c_binary": "AAH/",
    "c_timestamp": "2026-11-16T05:00:00.000001+00:00",
}

versions = st.builds(
    row,
    st.sampled_from([MINIMUM, Token(0), MAXIMUM]),
    st.sampled_from(["a", "b"]),
    st.integers(0, 2),
    st.sampled_from([None, 1, 2]),
)


def test_values_become_those_of_their_columns():
    made = row_of(WIDE, XXHASH, "x%2Cy", columns=VALID, timestamp=5)

    assert made.columns(WIDE) == {
        "id": "x,y",
        "c_string": "ünï ☃",
        "c_bigint": -(2**63),
        "c_int": 2**31 - 1,
        "c_double": 1.0,
        "c_boolean": False,
        "c_binary": b"\x00\x01\xff",
        "c_timestamp": 1794805200000001,
    }
    assert made.key == "x%2Cy"
    assert made.token == token_of(XXHASH, [(ColumnType.STRING, "x,y")])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("c_string", 1),
        ("c_string", "\ud800"),
        ("c_bigint", 2**63),
        ("c_bigint", True),
        ("c_bigint", "1"),
        ("c_int", 2**31),
        ("c_int", 1.5),
        ("c_double", "1.5"),
        ("c_double", 10**400),
        ("c_boolean", 1),
        ("c_binary", "?"),
        ("c_binary", "ü"),
        ("c_timestamp", "yesterday"),
        ("c_timestamp", 1.5),
        ("c_string", {"a": []}),
    ],
)
def test_a_value_that_does_not_fit_names_its_column(column, value):
    with pytest.raises(InvalidRowError, match=f"Column {column} is not valid") as caught:
        row_of(WIDE, XXHASH, "x", columns={column: value}, timestamp=5)
    assert caught.value.column == column


@pytest.mark.parametrize(
    ("key", "columns", "timestamp", "sentence"),
    [
        ("x", {"other": 1}, 5, "has no column other"),
        ("x", {"id": "y"}, 5, "differs from the key"),
        ("x", {"id": None}, 5, "differs from the key"),
        ("x" * (KEY_BYTES_MAX + 1), {}, 5, "larger than 8192 bytes"),
        ("%41" * (KEY_BYTES_MAX * 2), {}, 5, "larger than 8192 bytes"),
        ("%ff", {}, 5, "not UTF-8"),
        ("x", {"c_string": "y" * ROW_BYTES_MAX}, 5, "row is larger"),
        ("x", {}, -1, "timestamp is not between"),
        ("x", {}, 2**53 + 1, "timestamp is not between"),
    ],
)
def test_a_bad_row_is_refused_in_a_sentence(key, columns, timestamp, sentence):
    with pytest.raises(InvalidRowError, match=sentence):
        row_of(WIDE, XXHASH, key, columns=columns, timestamp=timestamp)


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [("a", "has 2 columns"), ("a,1,2", "has 2 columns"), ("a,x", "Key column b"), ("a,9e9", "b")],
)
def test_a_bad_key_is_refused_in_a_sentence(raw, sentence):
    with pytest.raises(InvalidRowError, match=sentence):
        tombstone_of(PAIR, XXHASH, raw, timestamp=5)


@pytest.mark.parametrize("partitioner", Partitioner)
@pytest.mark.parametrize("kind", ColumnType)
def test_keys_have_the_tokens_that_owners_are_found_by(partitioner, kind):
    """The same texts, read as `/v1/owners` reads them, have the same tokens."""
    texts = {
        ColumnType.STRING: ["", "plain", "a%2Cb", "%C3%BC"],
        ColumnType.BOOLEAN: ["true", "false"],
        ColumnType.BINARY: ["", "AAH%2F"],
        ColumnType.DOUBLE: ["0", "-0.0", "1.5", "1e300"],
        ColumnType.TIMESTAMP: ["0", "-5", "2026-01-01"],
    }.get(kind, ["0", "-1", "2147483647"])
    metadata = NOTHING_YET
    for change in (
        Initialize(cluster=CLUSTER, name="c", partitioner=partitioner),
        CreateKeyspace(name="k", replication=Simple(1)),
        CreateTable(keyspace="k", name="t", columns=(Column("id", kind),), partition_key=("id",)),
    ):
        metadata = accepted(change.execute(metadata)).after
    table = metadata.schema.table("k", "t")
    assert table is not None
    for text in texts:
        key = key_of(table, partitioner, text)

        assert key.token == key_token(metadata, "k", "t", text)
        assert key_of(table, partitioner, key.text) == key


@given(st.text(), st.integers(-(2**31), 2**31 - 1))
def test_the_text_of_a_key_comes_back_as_its_values(text, number):
    quoted = f"{quote(text, safe='')},{number}"

    key = key_of(PAIR, XXHASH, quoted)

    assert key.values == (text, number)
    assert key.text == quoted


def test_equal_rows_have_equal_digests_and_others_do_not():
    made = [
        row_of(WIDE, XXHASH, "x", columns=columns, timestamp=timestamp)
        for columns, timestamp in [
            ({"c_int": 1, "c_string": "a"}, 1),
            ({"c_string": "a", "c_int": 1, "c_bigint": None}, 2),
            ({"c_string": "a", "c_int": 2}, 1),
        ]
    ]
    assert made[0].digest == made[1].digest != made[2].digest
    assert made[0].digest == digest_of(encoded({"id": "x", "c_int": 1, "c_string": "a"}))
    assert digest_of(b"\x81\xa2id\xa1x") == -8443288493482718959
    assert row_of(WIDE, XXHASH, "x", columns={"c_double": math.nan}, timestamp=1).digest == (
        row_of(WIDE, XXHASH, "x", columns={"c_double": -math.nan}, timestamp=1).digest
    )


@settings(max_examples=40)
@given(st.lists(versions, max_size=6), st.lists(versions, max_size=6), st.lists(versions))
def test_merging_is_commutative_associative_and_idempotent(one, two, three):
    def merged(*lists):
        places = {(item.token, item.key) for found in lists for item in found}
        return [
            newest(item for found in lists for item in found if (item.token, item.key) == place)
            for place in sorted(places)
        ]

    every = merged(one, two, three)

    assert merged(three, one, two) == every
    assert merged(merged(one, two), three) == merged(one, merged(two, three)) == every
    assert merged(every, every, one) == every
    in_arrow = newest_of(table_of(TABLE, [*one, *two, *three]))
    assert rows_of(TABLE, in_arrow) == every


def test_of_two_writes_with_one_timestamp_the_delete_wins_then_the_digest():
    one, other = sorted([row(0, "a", 5, 1), row(0, "a", 5, 2)], key=lambda item: item.digest)

    assert newest([other, one]) == newest([one, other]) == other
    assert newest([other, row(0, "a", 5, None), one]) == row(0, "a", 5, None)
    assert newest([row(0, "a", 5, None), row(0, "a", 6, 1)]) == row(0, "a", 6, 1)


def test_rows_go_through_arrow_unchanged():
    made = [
        row_of(WIDE, XXHASH, "x", columns=VALID, timestamp=5),
        row_of(WIDE, XXHASH, "y", columns={"c_timestamp": 2**63 - 1}, timestamp=6),
        row_of(WIDE, XXHASH, "z", columns={"c_binary": b"", "c_string": ""}, timestamp=7),
        tombstone_of(WIDE, XXHASH, "x", timestamp=8),
    ]

    assert rows_of(WIDE, table_of(WIDE, made)) == made


def test_rows_go_over_the_wire_unchanged():
    made = [
        row_of(WIDE, XXHASH, "x", columns=VALID, timestamp=5),
        tombstone_of(WIDE, XXHASH, "x", timestamp=8),
    ]

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=list[Row]) == made
    assert msgspec.json.decode(msgspec.json.encode(made), type=list[Row]) == made


def test_a_column_never_hides_one_of_ours():
    names = ["_token", "__token", "___token", "token", "_key", "_other", "Token"]
    stored = [stored_name(name) for name in names]

    assert stored == ["__token", "___token", "____token", "token", "__key", "_other", "Token"]
    table = table_with(Column("_token", ColumnType.STRING))
    assert schema_of(table).field("__token").type == pa.string()
    made = row_of(table, XXHASH, "x", columns={}, timestamp=1)
    assert rows_of(table, table_of(table, [made])) == [made]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\xc1", "cannot be read"),
        (encoded({"amount": "many"}), "Column amount"),
        (msgspec.msgpack.encode({"amount": 2**63}), "Column amount"),
        (encoded({"at": "2026-01-01"}), "Column at is not stored as a timestamp"),
        (b"\x81\xa1\xff\x01", "cannot be read"),
        (b"\x81\xa1a" + b"\x91" * 100_000, "cannot be read"),
    ],
)
def test_a_row_from_elsewhere_is_checked(content, sentence):
    bad = Row(table=TABLE.id, token=Token(0), key="a", timestamp=1, digest=0, content=content)

    with pytest.raises(InvalidRowError, match=sentence):
        check(TABLE, bad)
    with pytest.raises(InvalidRowError, match="not of orders"):
        check(TABLE, msgspec.structs.replace(bad, table=TableId(99)))
    check(TABLE, row(0, "a", 1))


edges = st.sampled_from([MINIMUM, Token(MINIMUM + 1), Token(-5), Token(0), Token(5), MAXIMUM])
plain_ranges = st.builds(Range, edges, edges).filter(lambda item: item.width > 0)


@given(st.lists(plain_ranges, max_size=4), st.lists(plain_ranges, max_size=4))
def test_spans_and_differences_have_the_tokens_of_their_ranges(ours, theirs):
    tokens = [MINIMUM, MAXIMUM, *(Token(base + near) for base in (-5, 0, 5) for near in (-1, 0, 1))]
    tokens += [Token(MINIMUM + 1), Token(MINIMUM + 2), Token(MAXIMUM - 1)]
    spans, rest = spans_of(ours), without(ours, theirs)

    assert list(spans) == sorted(spans)
    for token in tokens:
        mine = any(token in item for item in ours)
        left = mine and not any(token in item for item in theirs)
        assert any(span.first <= token <= span.last for span in spans) == mine
        assert any(token in item for item in rest) == left


def test_the_full_range_is_every_token():
    assert spans_of([FULL])[0].first == MINIMUM
    assert spans_of([FULL])[0].last == MAXIMUM
