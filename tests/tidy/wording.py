"""Names, comments and addresses that do not belong in the source."""

from __future__ import annotations

import ast
import re
from pathlib import PurePosixPath

from tests.tidy.source import Source

HOMELESS = {"base", "common", "core", "helpers", "utils"}
"""A function without a home is a noun not yet found."""

NAMED_AFTER_ALL = {PurePosixPath("bench/core.py")}
"""Here the core is what is measured: the pure packages, as opposed to the services."""

FRONT_DOOR = PurePosixPath("ringlog/__init__.py")

# The word where it opens a comment or is used as a label; prose may speak of it.
_TODO = re.compile(
    r"(?:^\W+(?:TODO|FIXME|XXX|HACK)\b|\b(?:TODO|FIXME|XXX|HACK)(?=\s*[:(]))(?!\s*\(?#\d+)"
)
_PUT_OFF = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
_COMMENT = re.compile(r"(?:#|//|--|/\*).*")
_IGNORE = re.compile(r"#\s*type:\s*ignore(?!\[[\w, -]+\]\s+#\s*\w)")

_MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(?:work|root|home/\w+)(?=/)")
_REGISTRY = re.compile(
    r"pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|registry\.yarnpkg|proxy\.golang\.org"
    r"|\bcrates\.io|repo1?\.maven\.(?:org|apache)|maven\.apache\.org/maven2|deb\.debian\.org"
    r"|registry-1\.docker|--(?:extra-)?index-url|--find[-]links"
)


def name_faults(path: PurePosixPath) -> list[str]:
    """Folders and modules that are named after nothing."""
    if path in NAMED_AFTER_ALL:
        return []
    return [
        f"{path}: {name!r} says nothing about what it holds"
        for name in (*path.parts[:-1], path.stem)
        if name in HOMELESS
    ]


def init_faults(source: Source) -> list[str]:
    """An `__init__.py` with more than a one-line docstring in it."""
    if source.path.name != "__init__.py" or source.path == FRONT_DOOR:
        return []
    match source.tree.body:
        case [ast.Expr(value=ast.Constant(value=str(text)))] if text and "\n" not in text:
            return []
        case _:
            return [f"{source.path} holds something else than a one-line docstring"]


def todo_faults(source: Source) -> list[str]:
    """Comments that put work off without an issue number."""
    if _PUT_OFF.search(source.text) is None:
        return []
    if source.path.suffix == ".py":
        comments = list(source.comments())
    else:
        found = ((n, _COMMENT.search(line)) for n, line in enumerate(source.lines, start=1))
        comments = [(number, match[0]) for number, match in found if match]
    return [
        f"{source.path}:{number} puts work off without an issue number: TODO(#1)"
        for number, comment in comments
        if _TODO.search(comment)
    ]


def ignore_faults(source: Source) -> list[str]:
    """Types ignored without a code and a reason."""
    if _IGNORE.search(source.text) is None:
        return []
    return [
        f"{source.path}:{number} ignores a type without its code and a reason"
        for number, comment in source.comments()
        if _IGNORE.search(comment)
    ]


def place_faults(source: Source) -> list[str]:
    """Paths of one machine and addresses of package registries."""
    return [
        f"{source.path}:{number} names a {what}: {match[0]}"
        for number, line in enumerate(source.lines, start=1)
        for what, pattern in (("machine's path", _MACHINE_PATH), ("registry", _REGISTRY))
        if (match := pattern.search(line))
    ]
