"""One stretch of a history, replayed by itself, for audits that run many at once.

A stretch begins at a snapshot and ends at the next one that can be used. It is checked as a
replay of everything would check it, except for what only the entries before it tell:

- *What the metadata holds* is in the snapshot: the numbers of nodes and tables that were given,
  locks, sessions, sequences. The stretch before has to end in the very same metadata.
- *Entry ids* and *who committed what* leave the stretch as facts, to be compared with those of
  all others.
- *What was wrong already*, and *the latest time*, are assumed: that what is wrong at the snapshot
  was told by the stretch before, and that clocks did not go back across it. The summary has what
  is needed to see whether that was so; where it was not, the stretch is replayed again with what
  was `Carried` into it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

import msgspec

from audit.entry_checks import ENTRY_ID, Clock
from audit.findings import FINDINGS_PER_RULE_MAX, Finding, Grade
from audit.history import History, SnapshotUnusableError, metadata_at
from audit.replay import Unchecked, first_usable
from audit.rules import RULES, broken
from audit.tracing import NONE_STANDING, Standing, standing
from audit.transition import Transition
from audit.walking import REPLAY, UNFINISHED, Walk
from log.chain import Tip
from log.replay import Applied
from metadata.epoch import Epoch

STRETCH_ENTRIES_MIN = 5_000
"""Shorter ones would cost more to hand out than to replay."""

STRETCHES_MAX = 4_096
FACTS_MAX = 8_192
"""How many facts a stretch keeps before it gives them away."""

_RULES_FIRST = frozenset([REPLAY, *(rule.code for rule in RULES)])


class Carried(msgspec.Struct, frozen=True):
    """What a stretch must know of those before it.

    The last epoch at which all metadata was checked, if there was one, and the latest time at
    which an entry was committed.
    """

    checked_at: Epoch | None = None
    committed_at: int = 0


NOTHING_CARRIED = Carried()


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """Entries behind `after`; `carried` is None where it is not known yet."""

    number: int
    after: Epoch
    carried: Carried | None = None


class Plan(msgspec.Struct, frozen=True):
    """`stretches[0]` begins where the audit does, each other one at a snapshot.

    Who is `thorough` checks all metadata at every epoch.
    """

    stretches: tuple[Stretch, ...]
    end: Epoch
    thorough: bool = False

    def again(self, carried: dict[int, Carried]) -> tuple[Stretch, ...]:
        return tuple(
            msgspec.structs.replace(self.stretches[number], carried=known)
            for number, known in sorted(carried.items())
        )


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a stretch came to. Findings and other facts are beside it.

    `began` and `ended` are where, with the digests there; `standing_before` and
    `standing_after` are hashes of what was wrong with the metadata at the beginning, and when
    all of it was last checked, which was at `checked_at`. It `is_broken_off` if it ends before an
    entry that cannot be applied; the next one then begins where `unchecked` ends. It `is_handed_on`
    if another one goes on from its end.
    """

    number: int
    cluster: str
    began: Tip
    began_digest: bytes
    ended: Tip
    ended_digest: bytes
    is_broken_off: bool
    is_handed_on: bool
    unchecked: tuple[Unchecked, ...]
    entries: int
    counts: dict[str, int]
    grades: dict[Grade, int]
    standing_before: bytes
    standing_after: bytes
    checked_at: Epoch | None
    committed_at_min: int | None
    committed_at_max: int


class Deed(msgspec.Struct, frozen=True):
    """So many entries of a kind by one actor; `first` is the earliest."""

    actor: str | None
    kind: str
    entries: int
    first: Epoch


class Found(msgspec.Struct, frozen=True):
    """A finding and its place among all: how far the walk was, and what comes first there."""

    at: Epoch
    rank: int
    place: int
    finding: Finding


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    ids: Sequence[tuple[bytes, Epoch]] = ()
    deeds: Sequence[Deed] = ()
    found: Sequence[Found] = ()
    summary: Summary | None = None


def planned(history: History, *, after: Epoch, end: Epoch, thorough: bool = False) -> Plan:
    """Stretches that are neither too short nor too many."""
    least = max(STRETCH_ENTRIES_MIN, (end - after) // STRETCHES_MAX + 1)
    starts = [after]
    for epoch in history.snapshots():
        if starts[-1] + least <= epoch <= end:
            starts.append(epoch)
    stretches = [Stretch(number=number, after=epoch) for number, epoch in enumerate(starts)]
    first = msgspec.structs.replace(stretches[0], carried=NOTHING_CARRIED)
    return Plan((first, *stretches[1:]), end, thorough)


def replayed_stretch(history: History, plan: Plan, stretch: Stretch) -> Iterator[Facts]:
    """Everything that is to be known of it; nothing if its snapshot cannot be used.

    The stretch before then goes on through this one, as a replay of everything would.
    """
    try:
        onto = _beginning(history, stretch)
    except SnapshotUnusableError:
        return
    going = _StretchReplay(history, plan, stretch, onto)
    yield from going.run()


def standing_hash(found: Standing) -> bytes:
    lines = sorted(f"{item.rule} {item.detail}" for item in found)
    return sha256("\n".join(lines).encode()).digest() if lines else bytes(32)


def _beginning(history: History, stretch: Stretch) -> Applied:
    return (
        history.restored(stretch.after) if stretch.number else metadata_at(history, stretch.after)
    )


def _standing_before(history: History, stretch: Stretch, onto: Applied) -> Standing:
    if stretch.carried is None:
        return standing(onto.metadata)
    if stretch.carried.checked_at is None:
        return NONE_STANDING
    return standing(metadata_at(history, stretch.carried.checked_at).metadata)


class _StretchReplay:
    """The ledger of a walk through one stretch."""

    def __init__(self, history: History, plan: Plan, stretch: Stretch, onto: Applied) -> None:
        self._history = history
        self._end = plan.end
        self._later = frozenset(item.after for item in plan.stretches[stretch.number + 1 :])
        self._stretch = stretch
        self._began = onto
        self._standing = _standing_before(history, stretch, onto)
        self._walk = Walk(history, onto, self, standing=self._standing)
        self._walk.whole_checks.thorough = plan.thorough
        self._clock = Clock(stretch.carried.committed_at if stretch.carried else 0)
        self._facts = _Gathered()
        self._unchecked: list[Unchecked] = []
        self._is_handed_on = False

    def run(self) -> Iterator[Facts]:
        if self._stretch.number:
            self._walk.resume(self._began)
        yield from self._walked()
        while self._resumes():
            yield from self._walked()
        if not self._is_handed_on:
            self._walk.finish()
        yield self._facts.given(self._summary())

    def check(self, transition: Transition) -> Iterator[Finding]:
        yield from broken(transition)
        yield from self._clock.check(transition.entry)
        self._facts.note(transition)

    def take(self, at: Epoch, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self._facts.keep(at, finding)

    def _walked(self) -> Iterator[Facts]:
        for epoch in self._walk.to(self._end):
            if self._facts.is_full:
                yield self._facts.given()
            if epoch in self._later and self._walk.snapshot_held:
                self._is_handed_on = True
                return

    def _resumes(self) -> bool:
        """Behind an epoch that could not be applied, unless another stretch does."""
        failed = self._walk.failed
        if failed is None:
            return False
        restored = first_usable(self._history, failed, self._end)
        last = self._end if restored is None else restored.metadata.epoch
        self._unchecked.append(Unchecked(failed, last))
        self._is_handed_on = restored is not None and last in self._later
        if restored is None or self._is_handed_on:
            return False
        self._walk.resume(restored)
        return True

    def _summary(self) -> Summary:
        began, ended, whole = self._began, self._walk.applied, self._walk.whole_checks
        return Summary(
            number=self._stretch.number,
            cluster=ended.metadata.cluster.id,
            began=began.tip,
            began_digest=began.metadata.digest,
            ended=ended.tip,
            ended_digest=ended.metadata.digest,
            is_broken_off=self._walk.failed is not None,
            is_handed_on=self._is_handed_on,
            unchecked=tuple(self._unchecked),
            entries=self._walk.entries,
            counts=dict(self._facts.counts),
            grades=dict(self._facts.grades),
            standing_before=standing_hash(self._standing),
            standing_after=standing_hash(whole.standing),
            checked_at=whole.checked_at,
            committed_at_min=self._clock.earliest,
            committed_at_max=self._clock.latest,
        )


class _Gathered:
    """Facts on their way out; findings stay to the end, because they are few."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.grades: Counter[Grade] = Counter()
        self._ids: list[tuple[bytes, Epoch]] = []
        self._deeds: dict[tuple[str | None, str], tuple[int, Epoch]] = {}
        self._found: list[Found] = []

    @property
    def is_full(self) -> bool:
        return len(self._ids) >= FACTS_MAX

    def note(self, transition: Transition) -> None:
        entry = transition.entry
        self._ids.append((entry.entry_id.bytes, entry.epoch))
        deed = (entry.actor, transition.kind)
        count, first = self._deeds.get(deed, (0, entry.epoch))
        self._deeds[deed] = (count + 1, first)

    def keep(self, at: Epoch, finding: Finding) -> None:
        self.counts[finding.rule] += 1
        self.grades[finding.grade] += 1
        if self.counts[finding.rule] <= FINDINGS_PER_RULE_MAX:
            self._found.append(Found(at, rank_of(finding.rule), len(self._found), finding))

    def given(self, summary: Summary | None = None) -> Facts:
        deeds = [Deed(*who, *what) for who, what in self._deeds.items()]
        found = self._found if summary else []
        facts = Facts(ids=self._ids, deeds=deeds, found=found, summary=summary)
        self._ids, self._deeds = [], {}
        return facts


def rank_of(rule: str) -> int:
    """What a replay finds first at an epoch: broken rules, then a repeated id, then the rest.

    What is unfinished comes last, though it may be said by a stretch that begins there.
    """
    if rule in _RULES_FIRST:
        return 0
    if rule == UNFINISHED:
        return 3
    return 1 if rule == ENTRY_ID else 2
