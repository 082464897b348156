"""How large a file, a function and a constructor may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.source import Source

MODULE_LINES_MAX = 350
TEST_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
CONSTRUCTOR_LINES_MAX = 15

Function = ast.FunctionDef | ast.AsyncFunctionDef


def module_size_faults(source: Source) -> list[str]:
    limit = TEST_LINES_MAX if source.package == "tests" else MODULE_LINES_MAX
    size = len(source.lines)
    return [f"{source.path} has {size} lines, more than {limit}"] if size > limit else []


def function_size_faults(source: Source) -> list[str]:
    faults = []
    for function in _functions(source.tree):
        limit = CONSTRUCTOR_LINES_MAX if function.name == "__init__" else FUNCTION_LINES_MAX
        size = _lines_without_docstring(function)
        if size > limit:
            faults.append(
                f"{source.path}:{function.lineno} {function.name} has {size} lines, "
                f"more than {limit}"
            )
    return faults


def _functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def _lines_without_docstring(function: Function) -> int:
    size = _lines(function)
    match function.body[0]:
        case ast.Expr(value=ast.Constant(value=str())) as docstring:
            return size - _lines(docstring)
        case _:
            return size


def _lines(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1
