"""Fills a store until the disk takes no more, then goes on when it does again."""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path

from metadata.tokens import FULL
from store.failures import StoreError
from store.rows import Row
from tests.store_model import TABLE, row, scanned, store_in

LIMIT_BYTES = 512 * 1024
WRITES_MAX = 2000


def limit(size_bytes):
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))


def files(folder):
    return list(folder.rglob("*.parquet"))


async def fill(store):
    written: list[Row] = []
    for number in range(WRITES_MAX):
        item = row(number, f"key{number}" + "x" * 500, 1)
        try:
            await store.put(TABLE, [item])
        except StoreError as error:
            print(f"put: {type(error).__name__}")
            return written
        written.append(item)
    raise AssertionError("the limit was never reached")


async def main():
    folder = Path(sys.argv[1])
    async with store_in(folder) as store:
        limit(LIMIT_BYTES)
        written = await fill(store)
        assert await scanned(store) == written
        limit(100)
        try:
            await store.flush(TABLE, [FULL])
        except StoreError as error:
            print(f"flush: {type(error).__name__}")
        assert await scanned(store) == written
        assert await asyncio.to_thread(files, folder) == []
        limit(resource.RLIM_INFINITY)
        await store.flush(TABLE, [FULL])
        await store.put(TABLE, [row(10**6, "last", 1)])
        assert await scanned(store) == [*written, row(10**6, "last", 1)]
    async with store_in(folder) as store:
        assert await scanned(store) == [*written, row(10**6, "last", 1)]
    print("kept all")


if __name__ == "__main__":
    asyncio.run(main())
