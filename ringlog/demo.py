"""What ringlog does, shown on a real cluster in a few minutes: it changes, dies and is checked."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from client.errors import ClientError
from ringlog.commands.options import DEFAULT_STATE_DIR
from ringlog.demo_acts import Demo
from ringlog.demo_cluster import running_cluster
from ringlog.demo_show import Show, console
from ringlog.demo_summary import summarise, tabulate
from services.duties import first_of
from services.local.failure import LocalServerError
from services.local.kafka_ivy import java
from services.local.kafka_jars import jars
from services.local.state import Fanout
from store.failures import StoreError

ROWS = 200_000
ROWS_QUICK = 5_000
ROWS_LEAST = 1_000
INTERRUPTED = 130


async def demonstrate(show: Show, parent: Path, rows: int, *, with_kafka: bool) -> bool:
    """Whether everything held."""
    began_s = time.monotonic()
    _check_java()
    fanout = await _fanout(show) if with_kafka else Fanout.NOTIFY
    show.section("A cluster is founded")
    show.say(f"Starting Postgres, two CMS, four nodes and a driver; entries spread by {fanout} …")
    async with running_cluster(parent, fanout) as cluster:
        demo = Demo(show, cluster, rows)
        await demo.play()
        found = await demo.prove()
    tabulate(show, found)
    show.say("Everything is stopped, and its folder is gone.")
    seconds = time.monotonic() - began_s
    summarise(show, found, demo.counts, loaded=rows, seconds=seconds)
    return found.have_held


def _check_java() -> None:
    try:
        java()
    except LocalServerError:
        raise LocalServerError(
            "Spark, which moves the rows, needs a Java runtime: install Java 17 or later (on "
            "Debian and Ubuntu: openjdk-17-jre-headless), or let JAVA_HOME name one."
        ) from None


async def _fanout(show: Show) -> Fanout:
    try:
        await jars()
    except LocalServerError as error:
        show.say(f"Without Kafka: {error} Postgres NOTIFY does it instead.", style="yellow")
        return Fanout.NOTIFY
    return Fanout.KAFKA


async def _until_told(show: Show, parent: Path, rows: int, *, with_kafka: bool) -> int:
    """As `demonstrate`, but Ctrl-C ends it in order, and a second one does not hurry it."""
    work = asyncio.ensure_future(demonstrate(show, parent, rows, with_kafka=with_kafka))
    told: list[int] = []

    def stop(number: int) -> None:
        if not told:
            show.say("\nStopping everything …")
            work.cancel()
        told.append(number)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
    try:
        return 0 if await work else 1
    except asyncio.CancelledError:
        return INTERRUPTED


def main(
    rows: Annotated[int, typer.Option(min=ROWS_LEAST, help="How many to load.")] = ROWS,
    *,
    quick: Annotated[bool, typer.Option("--quick", help=f"Load only {ROWS_QUICK} rows.")] = False,
    no_kafka: Annotated[
        bool, typer.Option("--no-kafka", help="Spread entries by Postgres NOTIFY.")
    ] = False,
    state_dir: Annotated[
        Path, typer.Option(help="Where the demo makes a folder of its own, and removes it.")
    ] = DEFAULT_STATE_DIR,
) -> None:
    """Found a cluster, change it under load, kill parts of it, and check every row at the end."""
    wanted = ROWS_QUICK if quick else rows
    show = Show(console())
    try:
        status = asyncio.run(_until_told(show, state_dir, wanted, with_kafka=not no_kafka))
    except* (LocalServerError, ClientError, StoreError, TimeoutError) as group:
        said = str(first_of(group)) or "Something did not happen in time."
        sys.exit(f"demo: {said}")
    raise typer.Exit(status)


if __name__ == "__main__":
    typer.run(main)
