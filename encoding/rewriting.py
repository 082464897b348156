"""Changing some values of plain data, found by the types that the data is of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

Rewrite = Callable[[Any], Any]
"""Plain data to plain data. What is not of its type comes back as it is: others complain."""

Leaves = Mapping[object, Rewrite]
"""From the types of interest to what becomes of their values."""


def rewriting(hint: Any, leaves: Leaves) -> Rewrite | None:  # noqa: ANN401 - any type hint
    """How to rewrite data of the type `hint`; none if nothing in it is of interest."""
    if hint in leaves:
        return leaves[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return rewriting(arguments[0], leaves)
    if origin in (Union, UnionType):
        return _alternatives(arguments, leaves)
    if origin is tuple:
        return _bound(_listed, rewriting(arguments[0], leaves))
    if origin in (dict, Mapping):
        assert rewriting(arguments[1], leaves) is None, hint  # No map holds one yet.
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _struct(hint, leaves)
    return None


def _struct(struct: type[msgspec.Struct], leaves: Leaves) -> Rewrite | None:
    hints = get_type_hints(struct, include_extras=True)
    found = {name: rewriting(hints[name], leaves) for name in struct.__struct_fields__}
    fields = {name: rewrite for name, rewrite in found.items() if rewrite is not None}
    return partial(_record, fields) if fields else None


def _alternatives(hints: tuple[Any, ...], leaves: Leaves) -> Rewrite | None:
    found = [rewriting(hint, leaves) for hint in hints if hint is not NoneType]
    present = [rewrite for rewrite in found if rewrite is not None]
    assert len(present) <= 1, hints  # Variants would have to be told apart first.
    return _bound(_optional, present[0]) if present else None


def _bound(rewrite: Callable[[Rewrite, Any], Any], inner: Rewrite | None) -> Rewrite | None:
    return None if inner is None else partial(rewrite, inner)


def _optional(rewrite: Rewrite, value: Any) -> Any:  # noqa: ANN401 - plain data
    return None if value is None else rewrite(value)


def _listed(rewrite: Rewrite, value: Any) -> Any:  # noqa: ANN401 - plain data
    return [rewrite(item) for item in value] if isinstance(value, list | tuple) else value


def _record(fields: Mapping[str, Rewrite], value: Any) -> Any:  # noqa: ANN401 - plain data
    if not isinstance(value, dict):
        return value
    return {key: fields[key](item) if key in fields else item for key, item in value.items()}
