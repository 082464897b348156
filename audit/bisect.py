"""The first epoch at which an expression is true."""

from __future__ import annotations

from collections.abc import Callable

from audit.expressions import Expression
from audit.history import History, SnapshotUnusableError, check_epoch, metadata_at, metadata_from
from log.replay import Applied, apply
from metadata.cluster import ClusterMetadata
from metadata.epoch import EMPTY, Epoch

PROGRESS_EVERY_ENTRIES = 1_000

Progress = Callable[[Epoch], None]


def first_true(
    history: History,
    expression: Expression,
    *,
    after: Epoch = EMPTY,
    up_to: Epoch,
    progress: Progress = lambda _: None,
) -> Epoch | None:
    """The first epoch behind `after` at which it is true, whatever it is before and later.

    Exact: every version is looked at, except those between two snapshots that show, by the epochs
    that components carry, that nothing the expression looks at has changed.
    """
    check_epoch(history, after)
    check_epoch(history, up_to)
    applied = metadata_at(history, after)
    for stop in [*_snapshots(history, after, up_to), up_to]:
        skipped = _unchanged(history, expression, applied, stop)
        if skipped is not None and not expression.holds(applied.metadata):
            applied = skipped
            progress(stop)
            continue
        found, applied = _scanned(history, expression, applied, stop, progress)
        if found is not None:
            return found
    return None


def first_true_monotonic(
    history: History,
    expression: Expression,
    *,
    after: Epoch = EMPTY,
    up_to: Epoch,
    progress: Progress = lambda _: None,
) -> Epoch | None:
    """The same for an expression that stays true once it is; some twenty versions are looked at.

    Of one that does not stay true, some epoch is found at which it becomes true, or none.
    """
    check_epoch(history, after)
    check_epoch(history, up_to)
    if up_to <= after or not expression.holds(metadata_at(history, up_to).metadata):
        return None
    low, high = metadata_at(history, after), up_to
    while high - low.metadata.epoch > 1:
        applied = metadata_from(history, low, _middle(history, low.metadata.epoch, high))
        progress(applied.metadata.epoch)
        if expression.holds(applied.metadata):
            high = applied.metadata.epoch
        else:
            low = applied
    return high


def _middle(history: History, low: Epoch, high: Epoch) -> Epoch:
    """The snapshot in the middle while there is one: it costs no replay."""
    between = _snapshots(history, low, Epoch(high - 1))
    return between[len(between) // 2] if between else Epoch((low + high) // 2)


def _snapshots(history: History, after: Epoch, up_to: Epoch) -> list[Epoch]:
    return [epoch for epoch in history.snapshots() if after < epoch <= up_to]


def _unchanged(
    history: History, expression: Expression, applied: Applied, stop: Epoch
) -> Applied | None:
    """The snapshot at `stop`, if all versions up to it look the same to the expression."""
    if expression.looks_at_epoch or stop not in history.snapshots():
        return None
    try:
        later = history.restored(stop)
    except SnapshotUnusableError:
        return None
    changed = max(
        (getattr(later.metadata, name).epoch for name in expression.components), default=EMPTY
    )
    return later if changed <= applied.metadata.epoch else None


def _scanned(
    history: History,
    expression: Expression,
    applied: Applied,
    stop: Epoch,
    progress: Progress,
) -> tuple[Epoch | None, Applied]:
    known: bool | None = None
    for sealed in history.entries(applied.metadata.epoch, stop):
        before, applied = applied.metadata, apply(sealed, applied)
        if known is None or _differs(expression, before, applied.metadata):
            known = expression.holds(applied.metadata)
        if known:
            return applied.metadata.epoch, applied
        if applied.metadata.epoch % PROGRESS_EVERY_ENTRIES == 0:
            progress(applied.metadata.epoch)
    return None, applied


def _differs(expression: Expression, before: ClusterMetadata, after: ClusterMetadata) -> bool:
    return expression.looks_at_epoch or any(
        getattr(before, name) is not getattr(after, name) for name in expression.components
    )
