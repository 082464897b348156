"""Whole files taken as they are, by tasks: no row of them is parsed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from uuid import uuid4

from pyspark.sql import SparkSession

from movement.files import located

TASKS_MAX = 64


def taken(spark: SparkSession, paths: Sequence[str], folder: str) -> list[str]:
    """Copies of the files in a new folder, in the order of the paths.

    A task gives its file a name of its own and tells it when the file is whole. One that goes on
    although it was given up, or is run twice, touches no file that another has told of.
    """
    filesystem, path = located(folder)
    filesystem.create_dir(path, recursive=True)
    tasks = spark.sparkContext.parallelize(list(paths), min(len(paths), TASKS_MAX))
    return tasks.map(_copier(folder)).collect()


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
