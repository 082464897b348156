"""Putting stretches that were replayed by themselves together into one report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

from audit.entry_checks import ENTRY_ID
from audit.errors import ArchiveError
from audit.findings import Findings, Grade
from audit.parallel import NOTHING_CARRIED, Carried, Found, Plan, Summary, standing_hash
from audit.people import deeds_of
from audit.replay import Report
from audit.tracing import NONE_STANDING
from metadata.epoch import Epoch


class Repeats(msgspec.Struct, frozen=True):
    """Entry ids that were used before: how many in all, and the first of them."""

    total: int
    first: Sequence[Found]


def assumed_wrongly(summaries: Sequence[Summary]) -> dict[int, Carried]:
    """The stretches that have to be replayed again, and with what.

    One look is enough: what leaves a stretch does not depend on what was carried into it.
    """
    again = {}
    carried, standing = NOTHING_CARRIED, standing_hash(NONE_STANDING)
    for summary in summaries:
        earliest = summary.committed_at_min
        went_back = earliest is not None and earliest < carried.committed_at
        if summary.number and (went_back or summary.standing_before != standing):
            again[summary.number] = carried
        if summary.checked_at is not None:
            standing = summary.standing_after
        carried = Carried(
            carried.checked_at if summary.checked_at is None else summary.checked_at,
            max(carried.committed_at, summary.committed_at_max),
        )
    return again


def check_seams(plan: Plan, summaries: Sequence[Summary], name: str) -> None:
    """From one end of the plan to the other each stretch ends where the next begins.

    That is at the same epoch, hash of the chain and digest. A stretch has no summary, and so leaves
    a hole, where the one before could read its snapshot and it could not.
    """
    for before, following in pairwise(summaries):
        if before.is_broken_off:
            fits = before.unchecked[-1].last == following.began.epoch
        else:
            fits = (before.ended, before.ended_digest) == (following.began, following.began_digest)
        if not fits:
            raise ArchiveError(
                name,
                "what was read before and behind it is not of one history: see that nobody "
                "changes it, and audit it again",
                epoch=following.began.epoch,
            )
    _check_ends(plan, summaries, name)


def _check_ends(plan: Plan, summaries: Sequence[Summary], name: str) -> None:
    reached, is_last = plan.stretches[0].after, False
    if summaries and summaries[0].began.epoch == reached:
        last = summaries[-1]
        reached = last.unchecked[-1].last if last.is_broken_off else last.ended.epoch
        is_last = not last.is_handed_on
    if reached != plan.end or not is_last:
        raise ArchiveError(
            name,
            "nothing behind it was replayed, because a snapshot could be read once and not again: "
            "see that it can be read, and audit it again",
            epoch=reached,
        )


def merged(
    summaries: Sequence[Summary],
    found: Iterable[Found],
    repeats: Repeats,
    deeds: Mapping[str | None, Mapping[str, int]],
    *,
    end: Epoch,
) -> Report:
    """What one replay of everything would have said. `found` has the first of each rule."""
    findings = Findings()
    ordered = sorted([*found, *repeats.first], key=lambda item: (item.at, item.rank, item.place))
    findings.take(item.finding for item in ordered)
    counts, grades = _totals(summaries, repeats)
    last = summaries[-1]
    return Report(
        cluster=last.cluster,
        after=summaries[0].began.epoch,
        up_to=end,
        entries=sum(summary.entries for summary in summaries),
        digest=last.ended_digest.hex(),
        findings=tuple(findings.kept),
        counts=dict(sorted(counts.items())),
        dropped=counts.total() - len(findings.kept),
        errors=grades[Grade.ERROR],
        unchecked=tuple(part for summary in summaries for part in summary.unchecked),
        people=deeds_of(deeds),
    )


def _totals(summaries: Sequence[Summary], repeats: Repeats) -> tuple[Counter[str], Counter[Grade]]:
    counts: Counter[str] = Counter()
    grades: Counter[Grade] = Counter()
    for summary in summaries:
        counts.update(summary.counts)
        grades.update(summary.grades)
    if repeats.total:
        counts[ENTRY_ID] += repeats.total
        grades[Grade.ERROR] += repeats.total
    return counts, grades
