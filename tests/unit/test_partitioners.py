"""Tokens are exactly those of Spark and of Cassandra."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from metadata.columns import ColumnType
from metadata.murmur3 import murmur3_token
from metadata.partitioners import Partitioner, token_of
from metadata.tokens import MINIMUM

VECTORS = Path(__file__).parents[1] / "vectors"
CASSANDRA = [
    json.loads(line) for line in (VECTORS / "cassandra/murmur3.jsonl").read_text().splitlines()
]
SPARK = json.loads((VECTORS / "spark/xxhash64.json").read_text())["vectors"]


def value_of(kind: str, plain: object) -> object:
    if kind == "binary":
        return base64.b64decode(str(plain))
    return float(str(plain)) if kind == "double" else plain


def test_xxhash64_is_spark_s():
    differing = [
        item
        for item in SPARK
        if token_of(
            Partitioner.XXHASH64,
            [(ColumnType(kind), value_of(kind, plain)) for kind, plain in item["key"]],
        )
        != item["token"]
    ]

    assert len(SPARK) > 200
    assert differing == []


def test_murmur3_is_cassandra_s():
    differing = [
        item for item in CASSANDRA if murmur3_token(bytes.fromhex(item["hex"])) != item["token"]
    ]

    assert len(CASSANDRA) == 400
    assert differing == []


def test_text_keys_are_hashed_as_cassandra_stores_them():
    texts = [item for item in CASSANDRA if item["type"] == "text"]

    for item in texts:
        key = [(ColumnType.STRING, item["value"])]
        assert token_of(Partitioner.MURMUR3, key) == item["token"]


def test_the_empty_key_has_cassandra_s_minimum_token():
    assert token_of(Partitioner.MURMUR3, [(ColumnType.STRING, "")]) == MINIMUM


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        (ColumnType.INT, -2, "fffffffe"),
        (ColumnType.BIGINT, 1, "0000000000000001"),
        (ColumnType.BOOLEAN, True, "01"),
        (ColumnType.DOUBLE, 1.0, "3ff0000000000000"),
        (ColumnType.BINARY, b"\x00\xff", "00ff"),
        (ColumnType.TIMESTAMP, 5_999, "0000000000000005"),
    ],
)
def test_murmur3_hashes_the_bytes_that_cassandra_stores(kind, value, stored):
    assert token_of(Partitioner.MURMUR3, [(kind, value)]) == murmur3_token(bytes.fromhex(stored))


def test_several_key_columns_are_joined_as_cassandra_joins_them():
    key = [(ColumnType.STRING, "ab"), (ColumnType.INT, 1)]

    assert token_of(Partitioner.MURMUR3, key) == murmur3_token(
        bytes.fromhex("0002" + "6162" + "00" + "0004" + "00000001" + "00")
    )


@pytest.mark.parametrize("partitioner", Partitioner)
def test_a_value_of_another_type_is_a_bug(partitioner):
    with pytest.raises(TypeError, match="a bigint cannot be 'x'"):
        token_of(partitioner, [(ColumnType.BIGINT, "x")])


def test_typed_keys_are_hashed_as_cassandra_stores_them():
    types = {"text": ColumnType.STRING, "int": ColumnType.INT, "bigint": ColumnType.BIGINT}

    for item in CASSANDRA:
        if item["type"] in types:
            key = [(types[item["type"]], item["value"])]
        elif item["type"] == "composite(text,int)":
            key = list(zip((ColumnType.STRING, ColumnType.INT), item["value"], strict=True))
        else:
            key = [(ColumnType.BINARY, bytes.fromhex(item["hex"]))]
        assert token_of(Partitioner.MURMUR3, key) == item["token"]


def test_spark_knows_one_nan_and_one_zero():
    def token(number):
        return token_of(Partitioner.XXHASH64, [(ColumnType.DOUBLE, number)])

    assert token(float("nan")) == token(-float("nan")) == -3127944061524951246
    assert token(-0.0) == token(0.0) == token(0)


@pytest.mark.parametrize("partitioner", Partitioner)
@pytest.mark.parametrize(
    ("kind", "value"),
    [(ColumnType.INT, 2**31), (ColumnType.BIGINT, -(2**63) - 1), (ColumnType.TIMESTAMP, 2**73)],
)
def test_a_number_beyond_its_type_has_no_token(partitioner, kind, value):
    with pytest.raises(OverflowError):
        token_of(partitioner, [(kind, value)])
