"""The rules that every step of a history keeps, each with a stable code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import msgspec

from audit import people, rules_epochs, rules_evidence, rules_owners, rules_sequences
from audit.findings import Finding, Grade
from audit.transition import AT_ONCE, FORCED, STEPS, Transition

CONTRADICTIONS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""What goes wrong where one part of the metadata does not fit another."""

Check = Callable[[Transition], Iterator[str]]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Looked at where a component changed or an entry is of one of the kinds, else skipped.

    `bends` rules do not hold for a ForceSnapshot, which is a finding of its own.
    """

    code: str
    check: Check
    grade: Grade = Grade.ERROR
    components: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    bends: bool = False


_STEPS = frozenset(STEPS)
_PLACEMENTS = frozenset(["placements"])

RULES = (
    Rule(code="component-epochs", check=rules_epochs.component_epochs, kinds=frozenset(["*"])),
    Rule(code="group-epochs", check=rules_epochs.group_epochs, components=_PLACEMENTS),
    Rule(
        code="item-epochs",
        check=rules_epochs.item_epochs,
        components=frozenset(["schema", "extensions"]),
    ),
    Rule(code="ids", check=rules_epochs.ids, components=frozenset(["directory", "schema"])),
    Rule(
        code="step-order",
        check=rules_sequences.step_order,
        components=frozenset(["sequences"]),
        kinds=_STEPS,
        bends=True,
    ),
    Rule(
        code="locks",
        check=rules_sequences.locks,
        components=frozenset(["locks"]),
        bends=True,
    ),
    Rule(
        code="outside-lock",
        check=rules_sequences.outside_lock,
        components=_PLACEMENTS,
        bends=True,
    ),
    Rule(
        code="sessions",
        check=rules_sequences.sessions,
        components=frozenset(["sessions"]),
        kinds=_STEPS,
        bends=True,
    ),
    Rule(
        code="known-owners",
        check=rules_owners.known_owners,
        components=frozenset(["placements", "directory"]),
    ),
    Rule(
        code="readers-write",
        check=rules_owners.readers_write,
        components=_PLACEMENTS,
        bends=True,
    ),
    Rule(code="no-gap", check=rules_owners.no_gap, components=_PLACEMENTS, bends=True),
    Rule(
        code="planned-owners",
        check=rules_owners.planned_owners,
        components=_PLACEMENTS,
        bends=True,
    ),
    Rule(code="copies", check=rules_owners.copies, components=_PLACEMENTS, bends=True),
    Rule(code="quorums", check=rules_owners.quorums, components=_PLACEMENTS, bends=True),
    Rule(
        code="jump",
        check=rules_owners.jumps,
        components=frozenset(["schema"]),
        kinds=frozenset(AT_ONCE),
    ),
    Rule(code="barrier", check=rules_evidence.barrier, kinds=_STEPS),
    Rule(
        code="strange-voters",
        check=rules_evidence.strange_voters,
        grade=Grade.WARNING,
        kinds=_STEPS,
    ),
    Rule(code="receipts", check=rules_evidence.receipts, kinds=_STEPS),
    Rule(code="forced", check=people.forced, grade=Grade.WARNING, kinds=frozenset([FORCED])),
    Rule(
        code="accepted-loss",
        check=people.accepted_loss,
        grade=Grade.NOTE,
        kinds=_STEPS | frozenset(AT_ONCE),
    ),
    Rule(code="nameless", check=people.nameless, grade=Grade.NOTE, kinds=frozenset(["*"])),
)


def broken(found: Transition) -> Iterator[Finding]:
    """Everything that is wrong, or worth a note, with one step of a history."""
    for rule in _relevant(found.kind, found.changed):
        for explanation in _explanations(rule, found):
            yield Finding(
                epoch=found.epoch, rule=rule.code, grade=rule.grade, explanation=explanation
            )


def _explanations(rule: Rule, found: Transition) -> list[str]:
    """Metadata that somebody forged may lack what a rule takes for granted."""
    try:
        return list(rule.check(found))
    except CONTRADICTIONS as error:
        return [f"the metadata contradicts itself: {error!r}"]


@lru_cache(maxsize=1024)
def _relevant(kind: str, changed: frozenset[str]) -> tuple[Rule, ...]:
    return tuple(
        rule
        for rule in RULES
        if ("*" in rule.kinds or kind in rule.kinds or rule.components & changed)
        and not (rule.bends and kind == FORCED)
    )
