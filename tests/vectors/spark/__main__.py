"""Record what Spark's xxhash64 answers: `python -m tests.vectors.spark > …/xxhash64.json`."""

from __future__ import annotations

import base64
import json
import os
import random
import sys
from typing import Any

import pyspark
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f

os.environ["PYSPARK_PYTHON"] = sys.executable

SQL_TYPES = {
    "string": "string",
    "bigint": "bigint",
    "int": "int",
    "double": "double",
    "boolean": "boolean",
    "binary": "binary",
    "timestamp": "timestamp",
}


def samples(rng: random.Random) -> list[list[tuple[str, object]]]:
    single: dict[str, list[object]] = {
        "string": ["", "a", "abc", "ä", "日本", "🙂", "x" * 31, "x" * 32, "x" * 33, "y" * 100],
        "bigint": [0, 1, -1, 2**63 - 1, -(2**63), 42],
        "int": [0, 1, -1, 2**31 - 1, -(2**31), 42],
        "double": [0.0, -0.0, 1.5, -1.5, float("nan"), float("inf"), float("-inf"), 1e300],
        "boolean": [True, False],
        "binary": [b"", b"abc", bytes(range(256))],
        "timestamp": [0, 1, -1, 1_700_000_000_123_456],
    }
    for _ in range(25):
        letters = "".join(rng.choices("abcdefghijklmnopqrstuvwxyzäß日", k=rng.randint(1, 60)))
        single["string"].append(letters)
        single["bigint"].append(rng.randint(-(2**63), 2**63 - 1))
        single["int"].append(rng.randint(-(2**31), 2**31 - 1))
        single["double"].append(rng.uniform(-1e9, 1e9))
        single["binary"].append(rng.randbytes(rng.randint(1, 70)))
    keys = [[(kind, value)] for kind, values in single.items() for value in values]
    for _ in range(60):
        kinds = rng.choices(list(single), k=rng.randint(2, 4))
        keys.append([(kind, rng.choice(single[kind])) for kind in kinds])
    return keys


def plain(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return repr(value) if isinstance(value, float) else value


def column(kind: str, value: Any) -> Column:
    if kind == "timestamp":
        return f.timestamp_micros(f.lit(value).cast("bigint"))
    return f.lit(bytearray(value) if kind == "binary" else value).cast(SQL_TYPES[kind])


def main() -> None:
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = spark.getOrCreate()
    keys = samples(random.Random(42))
    one = session.range(1)
    hashes = [f.xxhash64(*(column(kind, value) for kind, value in key)) for key in keys]
    row = [one.select(hash_).collect()[0][0] for hash_ in hashes]
    recorded = [
        {"key": [[kind, plain(value)] for kind, value in key], "token": token}
        for key, token in zip(keys, row, strict=True)
    ]
    session.stop()
    lines = ",\n".join(json.dumps(item, ensure_ascii=False) for item in recorded)
    print(f'{{"spark": "{pyspark.__version__}", "vectors": [\n{lines}\n]}}')


if __name__ == "__main__":
    main()
