"""A small language of questions about the metadata.

`count(n for n in nodes if n.state == "joined") > 2` is one of them. What is not there is None; it
has no fields but None, and is neither less nor more than anything.

The text is parsed into a tree of which a few kinds of branches are understood, and those are
worked out here, one by one, over plain data. Nothing is ever compiled or run: an expression can
reach the roots and functions that are listed in `audit.roots`, and nothing else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from audit.grammar import COMPARED, COMPUTED, ExpressionError, FaultError, named
from audit.roots import FUNCTIONS, ROOTS, Look
from metadata.cluster import ClusterMetadata

TEXT_CHARACTERS_MAX = 2_000
WORK_MAX = 1_000_000
"""Branches worked out, and items compared, for one version of the metadata."""


class Expression(msgspec.Struct, frozen=True):
    """A question that has been checked. `components` is all of the metadata that it looks at.

    `looks_at_epoch` is true if its answer may differ although no component does.
    """

    text: str
    tree: ast.expr
    components: frozenset[str]
    looks_at_epoch: bool

    def holds(self, metadata: ClusterMetadata) -> bool:
        try:
            answer = _Evaluation(metadata).value(self.tree, {})
        except FaultError as fault:
            raise fault.in_text(self.text) from fault
        if not isinstance(answer, bool):
            raise ExpressionError("the whole is neither true nor false; compare it", 1)
        return answer


def parse(text: str) -> Expression:
    if len(text) > TEXT_CHARACTERS_MAX:
        raise ExpressionError(f"more than {TEXT_CHARACTERS_MAX} characters", TEXT_CHARACTERS_MAX)
    line = " ".join(text.split("\n")).strip()
    try:
        tree = ast.parse(line, mode="eval").body
        names = set(named(tree, frozenset(), 0))
    except SyntaxError as error:
        raise ExpressionError(error.msg, error.offset or len(line) + 1) from error
    except FaultError as fault:
        raise fault.in_text(line) from fault
    except (ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError("the text cannot be read", 1) from error
    components = {part for name in names for part in _LOOKS_AT[name]}
    return Expression(line, tree, frozenset(components), "epoch" in names)


_LOOKS_AT: Mapping[str, tuple[str, ...]] = {
    **{name: root.components for name, root in ROOTS.items()},
    **{name: function.components for name, function in FUNCTIONS.items()},
}


Names = dict[str, Any]


class _Evaluation:
    """Counts what it works out, so that no question takes for ever."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        self._look = Look(metadata)
        self._work = 0

    def value(self, node: ast.expr, names: Names) -> Any:  # noqa: ANN401 plain data
        self._work += 1
        if self._work > WORK_MAX:
            raise FaultError("it takes too long on this metadata", node)
        try:
            return self._branch(node, names)
        except FaultError:
            raise
        except (TypeError, ValueError, LookupError, ArithmeticError) as error:
            raise FaultError(f"{error}", node) from error

    def _branch(self, node: ast.expr, names: Names) -> Any:  # noqa: ANN401 plain data
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return names[name] if name in names else self._look.root(name)
            case ast.Attribute(value=inner, attr=name):
                return _field(self.value(inner, names), name)
            case ast.Subscript(value=inner, slice=key):
                return _item(self.value(inner, names), self.value(key, names))
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self.value(item, names) for item in items]
            case ast.Call(func=ast.Name(id=name), args=args):
                given = [self.value(argument, names) for argument in args]
                return FUNCTIONS[name].work(self._look, *given)
            case ast.GeneratorExp(elt=element, generators=[loop]):
                return list(self._loop(element, loop, names))
            case ast.ListComp(elt=element, generators=[loop]):
                return list(self._loop(element, loop, names))
            case _:
                return self._operation(node, names)

    def _operation(self, node: ast.expr, names: Names) -> Any:  # noqa: ANN401 plain data
        match node:
            case ast.BoolOp(op=ast.And(), values=values):
                return all(self._truth(item, names) for item in values)
            case ast.BoolOp(values=values):
                return any(self._truth(item, names) for item in values)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self._truth(operand, names)
            case ast.UnaryOp(operand=operand):
                return -_number(self.value(operand, names))
            case ast.BinOp(left=left, op=op, right=right):
                sides = _number(self.value(left, names)), _number(self.value(right, names))
                return COMPUTED[type(op)](*sides)
            case ast.Compare():
                return self._comparison(node, names)
            case _:
                raise AssertionError(node)

    def _comparison(self, node: ast.Compare, names: Names) -> bool:
        left = self.value(node.left, names)
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.value(comparator, names)
            self._work += len(right) if isinstance(right, list | dict) else 0
            if not COMPARED[type(op)](left, right):
                return False
            left = right
        return True

    def _loop(self, element: ast.expr, loop: ast.comprehension, names: Names) -> Iterator[Any]:
        assert isinstance(loop.target, ast.Name), "checked when it was parsed"
        for item in self.value(loop.iter, names):
            inner = {**names, loop.target.id: item}
            if all(self._truth(condition, inner) for condition in loop.ifs):
                yield self.value(element, inner)

    def _truth(self, node: ast.expr, names: Names) -> bool:
        found = self.value(node, names)
        if isinstance(found, bool):
            return found
        raise FaultError(f"{found!r} is neither true nor false", node)


def _item(value: Any, key: Any) -> Any:  # noqa: ANN401 plain data
    """A text or number that is no key of a dictionary, or a place behind the end, is None."""
    if value is None or isinstance(value, dict):
        return None if value is None else value.get(key)
    return value[key] if -len(value) <= _number(key) < len(value) else None


def _field(value: object, name: str) -> Any:  # noqa: ANN401 plain data
    if value is None:
        return None
    if isinstance(value, dict) and name in value:
        return value[name]
    known = ", ".join(value) if isinstance(value, dict) else "no fields"
    raise LookupError(f"there is no {name!r} here; there is {known}")


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a number")
    return value
