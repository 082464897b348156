"""The acts of the demo, one after another, while programs go on reading and writing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from uuid import uuid4

from metadata.directory import NodeId
from metadata.schema import Simple
from ringlog.commands.figures import count, duration
from ringlog.demo_cluster import DemoCluster, View
from ringlog.demo_proof import Findings, findings_of
from ringlog.demo_rows import COLUMNS, KEYSPACE, TABLE, Rows
from ringlog.demo_show import Show
from ringlog.demo_traffic import Traffic, complete, load
from services.local.failure import LocalServerError
from services.local.looking import look, tokens_for
from services.local.recipes import DRIVER_NAME
from services.local.state import Listed
from services.local.waiting import until
from services.local.wishes import Answer, Standing, Wish, make_wish, read_answer
from transformations.join import PrepareJoin
from transformations.replace import PrepareReplace
from transformations.schema import CreateKeyspace, CreateTable

COPIES = 3
LIVE_ROWS = 600
FIFTH, SIXTH = "node-5", "node-6"
LEAVING = "node-4"
NODES_AFTER = 3
"""Of those with a supervisor."""
WISH_TIMEOUT_S = 120.0


class Demo:
    """Says what it does, does it, and keeps what the summary tells."""

    def __init__(self, show: Show, cluster: DemoCluster, rows: int) -> None:
        self._show = show
        self._cluster = cluster
        self._serving = list(cluster.nodes)
        self._rows = Rows(cluster.ask, self._urls)
        self._loaded = [f"order-{number}" for number in range(rows)]
        # Half of them are updates of what was loaded, half are new.
        new = [f"order-{rows + number}" for number in range(LIVE_ROWS // 2)]
        self._live = [*self._loaded[: LIVE_ROWS // 2], *new]
        self._traffic = Traffic(self._rows, self._live, self._loaded[LIVE_ROWS // 2 :])

    def _urls(self) -> list[str]:
        """Of nodes that are in and not known to be gone; a killed one is back before long."""
        nodes = self._cluster.nodes
        return [nodes[name].url for name in self._serving if name in nodes]

    @property
    def counts(self) -> Mapping[str, int]:
        return self._rows.counts

    async def play(self) -> None:
        self._show.table(
            ("process", "role", "pid", "address"),
            [(item.name, item.role, str(item.pid), item.url) for item in self._cluster.processes],
        )
        await self._load()
        self._show.section("Programs begin to read and write at quorum, and do not stop")
        async with self._traffic.flowing():
            five = await self._join()
            self._show.say(self._traffic.told())
            await self._replace(five)
            self._show.say(self._traffic.told())
            await self._leave()
        self._show.say(self._traffic.told())

    async def _load(self) -> None:
        self._show.section(f"{count(len(self._loaded))} rows are loaded, {COPIES} copies of each")
        await self._cluster.commit(CreateKeyspace(name=KEYSPACE, replication=Simple(COPIES)))
        await self._cluster.commit(
            CreateTable(keyspace=KEYSPACE, name=TABLE, columns=COLUMNS, partition_key=("id",))
        )
        began_s = time.monotonic()
        with self._show.counting("rows", len(self._loaded)) as tell:
            await load(self._rows, self._loaded, tell)
        took_s = time.monotonic() - began_s
        # From here on only what happens while the cluster changes is counted.
        self._rows.counts.clear()
        rate = count(len(self._loaded) / took_s)
        self._show.say(f"Done in {duration(took_s)}: {rate} rows a second, on disk at all owners.")

    async def _join(self) -> NodeId:
        self._show.section("A fifth node joins; in the middle a node and the driver are killed")
        began_s = time.monotonic()
        seat = await self._cluster.start_node(FIFTH)
        client = self._cluster.client
        tokens = await tokens_for(client, seat, await look(client))
        join = PrepareJoin(node=seat.id, tokens=tokens)
        outcome = await self._cluster.commit(join, "more room")
        assert outcome.result.sequence is not None
        killed: list[Listed] = []
        await self._watched(outcome.result.sequence, killed)
        if not killed:
            raise LocalServerError("The join was over before anything could be killed: run again.")
        for item in killed:
            again = await self._cluster.back(item)
            self._show.say(f"{item.name} is back as process {again.pid}.")
        self._serving.append(FIFTH)
        self._show.say(f"{FIFTH} owns its share after {duration(time.monotonic() - began_s)}.")
        return seat.id

    async def _replace(self, five: NodeId) -> None:
        self._show.section(f"{FIFTH} dies for good and is replaced by {SIXTH}")
        began_s = time.monotonic()
        spare = await self._cluster.start_node(SIXTH)
        pid = self._cluster.kill(FIFTH).pid
        self._show.say(f"kill -9 {pid}: {FIFTH} is gone, and nobody starts it again.")
        replace = PrepareReplace(node=spare.id, replaced=five, dead=(five,))
        outcome = await self._cluster.commit(replace, "its machine is lost")
        assert outcome.result.sequence is not None
        await self._watched(outcome.result.sequence)
        self._serving.append(SIXTH)
        self._show.say(
            f"{SIXTH} has all that {FIFTH} had, from the other owners, after "
            f"{duration(time.monotonic() - began_s)}."
        )

    async def _leave(self) -> None:
        self._show.section(f"{LEAVING} leaves, as `ringlog scale` would have it")
        began_s = time.monotonic()
        wish = Wish(id=uuid4(), nodes=NODES_AFTER)
        make_wish(self._cluster.state, wish)
        seat = await self._cluster.seat(LEAVING)
        await self._watched(await self._cluster.sequence_of(seat.id))
        await until(lambda: self._answer(wish) is not None, timeout_s=WISH_TIMEOUT_S)
        answer = self._answer(wish)
        if answer is None or answer.state is not Standing.DONE:
            raise LocalServerError(f"{LEAVING} could not leave: {answer and answer.detail}")
        self._show.say(
            f"{LEAVING} is out and stopped after {duration(time.monotonic() - began_s)}."
        )

    def _answer(self, wish: Wish) -> Answer | None:
        """None while it is worked on."""
        found = read_answer(self._cluster.state)
        is_final = found is not None and found.id == wish.id and found.state != Standing.WORKING
        return found if is_final else None

    async def _watched(self, sequence: int, killed: list[Listed] | None = None) -> None:
        """Until it is over. With a list for them, a source and the driver are killed meanwhile."""
        names = await self._cluster.roster()
        with self._show.watching(names) as tell:

            def told(view: View) -> None:
                tell(view)
                if killed == [] and _is_midway(view):
                    for name in (names.label(min(losing(view))), DRIVER_NAME):
                        killed.append(self._cluster.kill(name))
                    dead = " and ".join(f"{item.name} ({item.pid})" for item in killed)
                    self._show.say(f"kill -9 while the rows move: {dead}.", style="bold")

            await self._cluster.over(sequence, told)

    async def prove(self) -> Findings:
        self._show.section("Every row, every receipt and every node is checked")
        await complete(self._rows, self._live)
        return await findings_of(self._cluster, self._rows, self._show)


def losing(view: View) -> set[int]:
    """Who gives ranges away, and so is read from."""
    changes = (change for plan in view["plans"] for change in plan["changes"])
    return {node for item in changes for node in set(item["before"]) - set(item["after"])}


def _is_midway(view: View) -> bool:
    """Rows are on their way; at the latest when reads have moved."""
    moving = view.get("progress") or {}
    return moving.get("phase") == "copying" or any(item["step"] == "mid" for item in view["taken"])
