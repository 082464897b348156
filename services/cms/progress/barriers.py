"""How the barrier of a sequence stands by what nodes report; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from metadata.barriers import Evidence, Level, closing_targets, shortfalls, voter_groups
from metadata.cluster import ClusterMetadata
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.sequences import Sequence
from services.cms.progress.bodies import BarrierView, GroupView, Laggard, Voter
from services.cms.reports.liveness import liveness
from services.cms.reports.store import Heard

HTTP = "http"


def applied_by(heard: Heard | None) -> Epoch | None:
    """Up to where a node counts; None if that is not known, or its history is another."""
    if heard is None or heard.fault is not None:
        return None
    return heard.epoch if heard.drained is None else heard.drained


def barrier_now(
    metadata: ClusterMetadata,
    sequence: Sequence,
    heard: Mapping[NodeId, Heard],
    level: Level = Level.EACH_QUORUM,
) -> BarrierView:
    """The barrier before the due step, with everybody whose vote counts."""
    epoch = sequence.last_epoch
    voters = voter_groups(metadata, sequence)
    # Nobody has applied it: so each group falls short, and all of them are listed.
    listed = shortfalls(voters, Evidence(level, ()), metadata.locations())
    groups = [(item.group, item.needed, False) for item in listed]
    closing = closing_targets(sequence) if voters else ()
    if closing:
        groups.append((closing, len(closing), True))
    shown = [
        _group(metadata, members, needed, heard, epoch, all_of=all_of)
        for members, needed, all_of in groups
    ]
    passed = all(len(item.applied) >= item.needed for item in shown)
    return BarrierView(epoch=epoch, level=level, groups=shown, passed=passed)


def laggards_of(barrier: BarrierView) -> list[Laggard]:
    """Each voter that has not applied the epoch, those that are waited for and furthest first."""
    blocking = {
        voter.node
        for item in barrier.groups
        if len(item.applied) < item.needed
        for voter in item.missing
    }
    voters = {voter.node: voter for item in barrier.groups for voter in item.missing}
    found = [
        Laggard(
            node=voter.node,
            address=voter.address,
            liveness=voter.liveness,
            watermark=voter.watermark,
            drained=voter.drained,
            behind=voter.behind,
            blocking=voter.node in blocking,
        )
        for voter in voters.values()
    ]
    return sorted(found, key=_urgency)


def address_of(metadata: ClusterMetadata, node: NodeId) -> str | None:
    known = metadata.directory.find(node)
    if known is None:
        return None
    return known.addresses.get(HTTP) or next(iter(known.addresses.values()), None)


def _group(
    metadata: ClusterMetadata,
    members: Iterable[NodeId],
    needed: int,
    heard: Mapping[NodeId, Heard],
    epoch: Epoch,
    *,
    all_of: bool,
) -> GroupView:
    group = list(members)
    applied = [node for node in group if (applied_by(heard.get(node)) or 0) >= epoch]
    missing = [_voter(metadata, node, heard, epoch) for node in group if node not in applied]
    return GroupView(
        group=[*map(int, group)],
        needed=needed,
        applied=[*map(int, applied)],
        missing=missing,
        all_of=all_of,
    )


def _voter(
    metadata: ClusterMetadata, node: NodeId, heard: Mapping[NodeId, Heard], epoch: Epoch
) -> Voter:
    found = heard.get(node)
    applied = applied_by(found)
    return Voter(
        node=node,
        address=address_of(metadata, node),
        liveness=liveness(None if found is None else found.age_s),
        watermark=None if found is None else found.epoch,
        drained=None if found is None else found.drained,
        behind=None if applied is None else max(0, epoch - applied),
    )


def _urgency(item: Laggard) -> tuple[bool, float, int]:
    """Of whom nothing is known comes before who is far behind."""
    return not item.blocking, -(float("inf") if item.behind is None else item.behind), item.node
