"""What there is to say of a sequence: why it waits, for whom, since when, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ringlog.commands.figures import count, duration, plural, size
from ringlog.commands.naming import Roster

SILENT_AFTER_S = 6.0
"""A driver that says nothing for so long does not drive."""
LAGGARDS_SHOWN_MAX = 5
STALLED_AFTER_S = 60.0
"""Of a movement that comes no further this is said, and not when it would be done."""

View = Mapping[str, Any]
"""A sequence as a CMS shows it."""


def title(view: View, names: Roster) -> str:
    node = names.label(view["node"])
    if view.get("replaced") is not None:
        return f"replace of {names.label(view['replaced'])} by {node}"
    return f"{view['kind']} of {node}"


def steps(view: View) -> str:
    taken = [f"{item['step']} at epoch {item['epoch']}" for item in view["taken"]]
    return ", ".join([*taken, f"{view['due']} is due"])


def is_driven(view: View) -> bool:
    driver = view.get("driver")
    return driver is not None and driver["age_s"] < SILENT_AFTER_S


def now(view: View, names: Roster) -> str:
    """What is being done about it, or why nothing is, in one line."""
    if not is_driven(view):
        return _undriven(view, names)
    driver = view["driver"]
    if driver["step"] != view["due"]:
        # It has not come to this step yet, and what it said of another one misleads.
        return f"{view['due']} {_waits(view, names)}"
    since = f"for {duration(driver['for_s'])}"
    if driver["doing"] == "stuck":
        return _stuck(view)
    if driver["doing"] == "waiting":
        return f"waits {since} for {waited_for(view, names)}"
    if driver["doing"] == "moving":
        moving = view.get("progress")
        return f"moves rows {since}" if moving is None else moved(moving)
    detail = f": {driver['detail']}" if driver["detail"] else ""
    return f"{driver['doing']} {since}{detail}"


def session_now(view: View, names: Roster) -> str:
    """What is being done under a session for cleanup or repair, or why nothing is."""
    if not is_driven(view):
        return "no driver reports about it: start one with `ringlog driver`"
    driver = view["driver"]
    detail = f": {driver['detail']}" if driver["detail"] else ""
    whom = f" on {names.labels(driver['nodes'])}" if driver["nodes"] else ""
    tries = f" ({plural(driver['failures'], 'failure')})" if driver["failures"] else ""
    return f"{driver['doing']}{whom} for {duration(driver['for_s'])}{detail}{tries}"


def waited_for(view: View, names: Roster) -> str:
    """By name, with how far behind each is."""
    lagging = [item for item in view.get("laggards") or () if item["blocking"]]
    if lagging:
        shown = [_laggard(item, names) for item in lagging[:LAGGARDS_SHOWN_MAX]]
        more = len(lagging) - len(shown)
        shown += [f"{more} more"] if more > 0 else []
        return f"{', '.join(shown)} to apply epoch {view['barrier']['epoch']}"
    driver = view.get("driver")
    if driver is not None and driver["waiting"]:
        # They told the CMS that they are there; only the driver cannot hear them.
        return f"{names.labels(driver['waiting'])} to answer {driver['name']}"
    return "nobody any more"


def moved(moving: Mapping[str, Any]) -> str:
    done, total = count(moving["rows_done"]), count(moving["rows_total"])
    text = f"{moving['phase']}: {done} of {total} rows"
    # A CMS of the release before does not say it.
    if moving.get("detail"):
        text = f"{moving['detail'].rstrip('.')}; {text}"
    if moving["bytes_total"]:
        text += f", {size(moving['bytes_done'])} of {size(moving['bytes_total'])}"
    if moving["rows_per_s"]:
        text += f", {count(moving['rows_per_s'])} rows/s"
    if _stalled_s(moving) > STALLED_AFTER_S:
        return f"{text}, no further for {duration(_stalled_s(moving))}"
    return text if moving["eta_s"] is None else f"{text}, {duration(moving['eta_s'])} left"


def stalled_s(view: View) -> float:
    """How long ago its movement last came further; 0 where none runs."""
    moving = view.get("progress")
    return 0.0 if moving is None else _stalled_s(moving)


def consequences(view: View, names: Roster) -> str:
    """What a cancel would mean, by how far the sequence is."""
    taken = {item["step"] for item in view["taken"]}
    gained = names.labels(gaining(view))
    if "mid" in taken:
        return (
            f"Reads move back to the owners before; {gained} drops what it gained, once a barrier "
            "has passed. Nothing that was acknowledged is lost."
        )
    if "start" in taken:
        return (
            f"The movement is cancelled and {gained} drops the rows that it has got; the owners "
            "stay who they are. Nothing that was acknowledged is lost."
        )
    return "Nothing has moved yet: the ranges are released and the owners stay who they are."


def gaining(view: View) -> list[int]:
    changes = (change for plan in view["plans"] for change in plan["changes"])
    found = {node for change in changes for node in _new(change["before"], change["after"])}
    return sorted(found) or [view["node"]]


def _new(before: Iterable[int], after: Iterable[int]) -> set[int]:
    return set(after) - set(before)


def _stalled_s(moving: Mapping[str, Any]) -> float:
    # A CMS of the release before does not say it.
    return float(moving.get("stalled_s", 0.0))


def _stuck(view: View) -> str:
    """Since the step before, because each try begins anew with the driver."""
    driver = view["driver"]
    since_s = driver["for_s"] if view.get("since_s") is None else view["since_s"]
    tries = f" ({plural(driver['failures'], 'failure')})" if driver["failures"] else ""
    why = driver["detail"] or "no reason is given"
    return f"{view['due']} is due for {duration(since_s)}, but stuck: {why}{tries}"


def _waits(view: View, names: Roster) -> str:
    barrier = view.get("barrier")
    if barrier is None or barrier["passed"]:
        return "is due"
    return f"waits for {waited_for(view, names)}"


def _undriven(view: View, names: Roster) -> str:
    driver, since_s = view.get("driver"), view.get("since_s")
    waits = f"{view['due']} {_waits(view, names)}"
    if driver is None and since_s is not None and since_s < SILENT_AFTER_S:
        # A driver tells what it does once a second, so it may just not have come to it.
        return waits
    since = "" if since_s is None else f" for {duration(since_s)}"
    who = (
        "no driver reports about it: start one with `ringlog driver`"
        if driver is None
        else f"{driver['name']} has said nothing for {duration(driver['age_s'])}"
    )
    return f"{waits}{since}, but {who}"


def _laggard(item: Mapping[str, Any], names: Roster) -> str:
    if item["behind"] is None:
        return f"{names.label(item['node'])} ({item['liveness']})"
    behind = plural(item["behind"], "epoch")
    return f"{names.label(item['node'])} ({item['liveness']}, {behind} behind)"
