"""What an expression may be made of, and where one that is made of something else is wrong."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from audit.roots import FUNCTIONS, ROOTS

DEPTH_MAX = 40
NUMBER_MAX = 2**64


class ExpressionError(ValueError):
    """The expression cannot be understood or worked out; `column` counts from 1."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(f"Column {column}: {message}.")
        self.column = column


class FaultError(Exception):
    """A fault at a branch, before it is known what the text around it is."""

    def __init__(self, message: str, node: ast.expr) -> None:
        super().__init__(message)
        self._node = node

    def in_text(self, text: str) -> ExpressionError:
        # The tree counts bytes, people count characters.
        before = text.encode()[: self._node.col_offset].decode(errors="ignore")
        return ExpressionError(str(self), len(before) + 1)


COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: lambda left, right: bool(left == right),
    ast.NotEq: lambda left, right: bool(left != right),
    ast.Lt: lambda left, right: None not in (left, right) and bool(left < right),
    ast.LtE: lambda left, right: None not in (left, right) and bool(left <= right),
    ast.Gt: lambda left, right: None not in (left, right) and bool(left > right),
    ast.GtE: lambda left, right: None not in (left, right) and bool(left >= right),
    ast.In: lambda left, right: right is not None and left in right,
    ast.NotIn: lambda left, right: right is None or left not in right,
    ast.Is: lambda left, right: left is right,
    ast.IsNot: lambda left, right: left is not right,
}
COMPUTED: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: lambda left, right: left % right,
}


def named(node: ast.expr, bound: frozenset[str], depth: int) -> Iterator[str]:
    """The roots and functions that are named, if all of the tree is of the language."""
    if depth > DEPTH_MAX:
        raise FaultError("too deeply nested", node)
    match node:
        case ast.Constant(value=value):
            _check_constant(node, value)
        case ast.Name(id=name):
            if name not in bound and name not in ROOTS:
                raise FaultError(_unknown(name), node)
            if name not in bound:
                yield name
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            if len(args) != (takes := FUNCTIONS[name].takes):
                raise FaultError(f"{name} takes {_SPELLED[takes]}", node)
            yield name
            for argument in args:
                yield from named(argument, bound, depth + 1)
        case ast.GeneratorExp(generators=[loop]) | ast.ListComp(generators=[loop]):
            yield from _named_in_loop(node, loop, bound, depth)
        case _:
            _check_branch(node)
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    yield from named(child, bound, depth + 1)


def _named_in_loop(
    node: ast.GeneratorExp | ast.ListComp,
    loop: ast.comprehension,
    bound: frozenset[str],
    depth: int,
) -> Iterator[str]:
    if not isinstance(loop.target, ast.Name) or loop.is_async:
        raise FaultError("a loop has one plain name", node)
    yield from named(loop.iter, bound, depth + 1)
    inner = bound | {loop.target.id}
    for part in (node.elt, *loop.ifs):
        yield from named(part, inner, depth + 1)


def _check_constant(node: ast.Constant, value: object) -> None:
    plain = value is None or isinstance(value, str | bool | int)
    if not plain or (isinstance(value, int) and abs(value) > NUMBER_MAX):
        raise FaultError("only texts, whole numbers, True, False, None", node)


def _check_branch(node: ast.expr) -> None:
    match node:
        case ast.Attribute(attr=name) if not name.startswith("_"):
            return
        case ast.Subscript(slice=ast.Slice()):
            pass
        case ast.BoolOp() | ast.Subscript() | ast.List() | ast.Tuple():
            return
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            return
        case ast.BinOp(op=op) if type(op) in COMPUTED:
            return
        case ast.Compare(ops=ops) if all(type(op) in COMPARED for op in ops):
            _check_comparison(node)
            return
        case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
            raise FaultError(f"{name} takes plain arguments", node)
        case ast.Call(func=ast.Name(id=name)):
            raise FaultError(_unknown(name), node)
        case _:
            pass
    what = type(node).__name__
    raise FaultError(f"this is not part of the language ({what})", node)


def _check_comparison(node: ast.Compare) -> None:
    """Equal numbers and texts need not be one object, so `is` asks only for what there is once."""
    sides = pairwise((node.left, *node.comparators))
    for op, (left, right) in zip(node.ops, sides, strict=True):
        if isinstance(op, ast.Is | ast.IsNot) and not (_is_single(left) or _is_single(right)):
            equal = "==" if isinstance(op, ast.Is) else "!="
            raise FaultError(f"`is` is for None, True and False; compare by {equal}", right)


def _is_single(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))


_SPELLED = {1: "one argument", 2: "two arguments"}


def _unknown(name: str) -> str:
    roots, functions = ", ".join(ROOTS), ", ".join(FUNCTIONS)
    return f"there is no {name}; there are {roots} and the functions {functions}"
