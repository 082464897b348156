"""How large a file, a function and a constructor may be."""

from __future__ import annotations

from tests.tidy.source import Source

MODULE_LINES_MAX = 350
TEST_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
CONSTRUCTOR_LINES_MAX = 15


def module_size_faults(source: Source) -> list[str]:
    limit = TEST_LINES_MAX if source.package == "tests" else MODULE_LINES_MAX
    size = len(source.lines)
    return [f"{source.path} has {size} lines, more than {limit}"] if size > limit else []


def function_size_faults(source: Source) -> list[str]:
    faults = []
    for line, name, size in source.outline.functions:
        limit = CONSTRUCTOR_LINES_MAX if name == "__init__" else FUNCTION_LINES_MAX
        if size > limit:
            faults.append(f"{source.path}:{line} {name} has {size} lines, more than {limit}")
    return faults
