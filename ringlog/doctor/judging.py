"""All checks, in the order in which one cause explains the next. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ringlog.doctor import changing, following, reaching, supervising
from ringlog.doctor.finding import Check, Diagnosis, Finding, Limits, State
from ringlog.doctor.picture import Picture

Rule = Callable[[Picture, Limits], Iterator[Finding] | None]
"""None: there is nothing to judge by."""

CHECKS: dict[str, Rule] = {
    "connection": reaching.connection,
    "postgres": reaching.postgres,
    "processes": supervising.processes,
    "divergence": following.divergence,
    "versions": following.versions,
    "lag": following.lag,
    "fanout": following.fanout,
    "sequences": changing.sequences,
    "sessions": changing.sessions,
    "replication": changing.replication,
    "snapshots": following.snapshots,
    "clocks": supervising.clocks,
    "disk": supervising.disks,
    "secrets": supervising.secrets,
}


def diagnosis(picture: Picture, limits: Limits) -> Diagnosis:
    return Diagnosis(
        checks=tuple(_check(name, rule(picture, limits)) for name, rule in CHECKS.items())
    )


def _check(name: str, findings: Iterator[Finding] | None) -> Check:
    if findings is None:
        return Check(name=name, state=State.NOT_ASKED)
    found = tuple(findings)
    return Check(name=name, state=State.FOUND if found else State.WELL, findings=found)
