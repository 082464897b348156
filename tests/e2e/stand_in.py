"""A process that looks like a CMS to a supervisor: it listens, is founded and serves."""

import asyncio
import json
import os
from pathlib import Path

from aiohttp import web

ZERO_HASH = "00" * 32


async def commit(request):
    proposal = await request.json()
    answer = {"epoch": 1, "entry_id": proposal["entry_id"], "result": {}, "hash": ZERO_HASH}
    return web.json_response(answer)


async def cluster(request):
    return web.json_response({"epoch": 1, "id": "c", "name": "n", "partitioner": "xxhash64"})


def who_runs():
    return json.loads(Path(os.environ["RINGLOG_SUPERVISED_IN"], "processes.json").read_text())


async def members(request):
    """The address book of a cluster that needs no change."""
    listed = await asyncio.to_thread(who_runs)
    found = [{"name": item["name"].replace("-", "_"), "url": item["url"]} for item in listed]
    return web.json_response({"epoch": 1, "members": found, "reconfiguration": None})


async def nobody(request):
    return web.json_response({"epoch": 1, "nodes": [], "tokens": []})


async def serve(request):
    return web.json_response({"name": os.environ["RINGLOG_NAME"], "pid": os.getpid()})


async def main():
    app = web.Application()
    app.router.add_get("/healthz", serve)
    app.router.add_get("/readyz", serve)
    app.router.add_get("/v1/metadata/cluster", cluster)
    app.router.add_get("/v1/metadata/cms", members)
    app.router.add_get("/v1/metadata/directory", nobody)
    app.router.add_get("/v1/metadata/ring", nobody)
    app.router.add_post("/v1/commit", commit)
    runner = web.AppRunner(app, handle_signals=True)
    await runner.setup()
    for variable, shared in (("RINGLOG_LISTEN", True), ("RINGLOG_OWN_LISTEN", False)):
        host, _, port = os.environ[variable].rpartition(":")
        await web.TCPSite(runner, host, int(port), reuse_port=shared).start()
    try:
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
