"""What the demo found, for people who see ringlog for the first time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from metadata.directory import NodeId
from ringlog.commands.figures import count, duration
from ringlog.demo_proof import Findings
from ringlog.demo_show import Show

VIOLATIONS_SHOWN_MAX = 10
RECEIPT_COLUMNS = ("receipts in the log", "ranges", "rows moved", "from", "to", "figures")
NODE_COLUMNS = ("node", "ranges", "rows it owns", "rows it has", "rows of others", "exact")


def tabulate(show: Show, found: Findings) -> None:
    def listed(nodes: Iterable[NodeId]) -> str:
        return ", ".join(found.names.get(node, f"node-{node}") for node in sorted(nodes))

    show.table(
        RECEIPT_COLUMNS,
        [
            (
                f"{item.kind} {item.sequence}",
                str(item.ranges),
                count(item.rows),
                listed(item.sources),
                listed(item.targets),
                "equal" if item.is_proved else "DIFFER",
            )
            for item in found.moved
        ],
    )
    show.table(
        NODE_COLUMNS,
        [
            (
                item.name,
                str(item.ranges),
                count(item.owned),
                count(item.found),
                count(item.outside),
                "yes" if item.is_exact else "NO",
            )
            for item in found.held
        ],
    )
    for violation in found.violations[:VIOLATIONS_SHOWN_MAX]:
        show.say(f"BROKEN: {violation}", style="red")


def summarise(
    show: Show, found: Findings, counts: Mapping[str, int], *, loaded: int, seconds: float
) -> None:
    show.section("What you saw")
    moved = sum(item.rows for item in found.moved)
    show.say(
        f"In {duration(seconds)} a cluster of four nodes took {count(loaded)} rows, was joined by "
        "a fifth, lost it, replaced it and let another go; Spark moved "
        f"{count(moved)} rows for that. A node and the driver were killed in the middle, and "
        "others went on from where the log said."
    )
    show.say(
        f"All the while programs went on: {count(counts['written'])} writes were acknowledged, "
        f"{count(counts['read'])} reads were answered, {count(counts['retried'])} writes had to be "
        f"sent again. {len(found.violations)} times something else was read than acknowledged."
    )
    proved, exact = (
        sum(item.is_proved for item in found.moved),
        sum(item.is_exact for item in found.held),
    )
    show.say(
        f"At the end each of {count(found.rows)} acknowledged rows was read at quorum, "
        f"{found.entries} entries of the log were replayed from nothing with the same digests, "
        f"{proved} of {len(found.moved)} movements are proved by receipts in the log, and {exact} "
        f"of {len(found.held)} nodes hold exactly the rows that they own."
    )
    if found.have_held:
        show.say("Every promise was kept.", style="bold green")
    else:
        show.say("A promise was BROKEN: that must never happen.", style="bold red")
    show.say(
        "Run one yourself: ringlog up --nodes 4 --detach, then ringlog scale --nodes 5, "
        "ringlog sequences --watch, ringlog down."
    )
