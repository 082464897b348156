"""One item of a difference in one line that a person reads: what it is, and only what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LISTED_MAX = 6
"""Longer lists are counted; `--json` has all of them."""

Item = Mapping[Any, object]


def changed_line(item: Item) -> str:
    """An item as `/v1/diff` gives it: whole where it came or went, before and after otherwise."""
    match item:
        case {"before": dict(before), "after": dict(after), **rest} if not rest:
            return _between(before, after)
        case {"left": left, "right": right, **rest}:
            return _group({"range": _range(left, right), **rest})
        case {"before": _, "after": _, **rest}:
            return f"{_fields(rest)}: {_arrow(item)}".removeprefix(": ")
        case _:
            return _fields(item)


def _between(before: Item, after: Item) -> str:
    """The first field names a thing; it is shown also where it stays."""
    named, *_ = after
    names = [*before, *(name for name in after if name not in before)]
    differs = [name for name in names if before.get(name) != after.get(name)]
    said = "; ".join(
        f"{name} {_value(before.get(name))} → {_value(after.get(name))}" for name in differs
    )
    return f"{named} {_value(after[named])}: {said}"


def _group(item: Item) -> str:
    """A range of a placement, and those of its fields that differ."""
    pairs = {name: value for name, value in item.items() if _is_pair(value)}
    plain = " ".join(_value(value) for name, value in item.items() if name not in pairs)
    said = "; ".join(
        f"{name} {_arrow(value)}"
        for name, value in pairs.items()
        if isinstance(value, dict) and value["before"] != value["after"]
    )
    return f"{plain}: {said}" if said else plain


def _is_pair(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == {"before", "after"}


def _arrow(pair: Item) -> str:
    return f"{_value(pair['before'])} → {_value(pair['after'])}"


def _fields(item: Item) -> str:
    """Those that say something."""
    return ", ".join(_field(name, value) for name, value in item.items() if _speaks(value))


def _speaks(value: object) -> bool:
    return bool(value) or (value == 0 and value is not False)


def _field(name: str, value: object) -> str:
    match value:
        case True:
            return name
        case list() if not _is_listed(value):
            return f"{len(value)} {name}"
        case _:
            return f"{name} {_value(value)}"


def _value(value: object) -> str:
    match value:
        case None | [] | "":
            return "–"
        case bool():
            return "yes" if value else "no"
        case {"left": left, "right": right, **rest}:
            return " ".join([_range(left, right), *([_fields(rest)] if rest else [])])
        case dict():
            return f"({_fields(value)})"
        case list():
            return ", ".join(map(_value, value)) if _is_listed(value) else f"{len(value)}"
        case _:
            return str(value)


def _is_listed(items: Sequence[object]) -> bool:
    is_plain = not any(isinstance(item, dict | list) for item in items)
    return len(items) <= (LISTED_MAX if is_plain else 1)


def _range(left: object, right: object) -> str:
    return f"({left}, {right}]"
