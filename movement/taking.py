"""Whole files taken as they are and hashed, by tasks: no row of them is parsed."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from uuid import uuid4

from pyspark.sql import SparkSession

from movement.files import located
from movement.jobs import Written

TASKS_MAX = 64
READ_BYTES_MAX = 1024 * 1024


def taken(spark: SparkSession, paths: Sequence[str], folder: str) -> list[str]:
    """Copies of the files in a new folder, in the order of the paths.

    A task gives its file a name of its own and tells it when the file is whole. One that goes on
    although it was given up, or is run twice, touches no file that another has told of.
    """
    filesystem, path = located(folder)
    filesystem.create_dir(path, recursive=True)
    tasks = spark.sparkContext.parallelize(list(paths), min(len(paths), TASKS_MAX))
    return tasks.map(_copier(folder)).collect()


def hashed(spark: SparkSession, paths: Sequence[str]) -> list[Written]:
    """Files of any size as they lie there, in the order of the paths; one must not be missing."""
    tasks = spark.sparkContext.parallelize(list(paths), min(len(paths), TASKS_MAX))
    return [Written(*found) for found in tasks.map(_hasher(READ_BYTES_MAX)).collect()]


def _hasher(read_bytes_max: int) -> Callable[[str], tuple[str, int, str]]:
    """A function that needs nothing of ours where it runs."""

    def hash_of(path: str) -> tuple[str, int, str]:
        found, size_bytes = hashlib.sha256(), 0
        if "://" in path:
            from pyarrow import fs  # noqa: PLC0415 - only where a file is not a local one

            filesystem, plain = fs.FileSystem.from_uri(path)
            source = filesystem.open_input_stream(plain)
        else:
            source = open(path, "rb")  # noqa: SIM115, PTH123 - closed below, whichever it is
        with source:
            while data := source.read(read_bytes_max):
                found.update(data)
                size_bytes += len(data)
        return path, size_bytes, found.hexdigest()

    return hash_of


def _copier(folder: str) -> Callable[[str], str]:
    """A function that needs nothing of ours where it runs."""

    def copied(source: str) -> str:
        target = f"{folder}/{uuid4().hex}.parquet"
        if "://" not in source and "://" not in folder:
            shutil.copyfile(source, target)
            return target
        from pyarrow import fs  # noqa: PLC0415 - only where a file is not a local one

        ours, theirs = (
            fs.FileSystem.from_uri(item) if "://" in item else (fs.LocalFileSystem(), item)
            for item in (source, target)
        )
        fs.copy_files(ours[1], theirs[1], ours[0], theirs[0])
        return target

    return copied
