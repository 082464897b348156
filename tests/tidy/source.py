"""The files of the repository, as the rules about them see them."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

import msgspec

ROOT = Path(__file__).resolve().parents[2]

# Mirrors .gitignore: what is not ours to judge.
_SKIPPED = {
    ".git",
    ".hypothesis",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".state",
    ".venv",
    "__pycache__",
    "artifacts",
    "build",
    "dist",
    "htmlcov",
    "metastore_db",
    "spark-warehouse",
}


class Outline(msgspec.Struct):
    """What one walk through a file finds, each with its line.

    Imports are modules; `from a import b` may mean the module a.b. Functions have a name and how
    many lines they take without their docstring.
    """

    imports: list[tuple[int, str]] = []
    functions: list[tuple[int, str, int]] = []


class Source(msgspec.Struct, frozen=True, dict=True):
    """One text file, named by its path from the root of the repository."""

    path: PurePosixPath
    text: str

    @property
    def package(self) -> str:
        """The top-level folder, or nothing for a file at the root."""
        return self.path.parts[0] if len(self.path.parts) > 1 else ""

    @property
    def inner(self) -> str:
        """The path inside the top-level folder."""
        return "/".join(self.path.parts[1:])

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def tree(self) -> ast.Module:
        """Parsed anew each time: trees of all files would burden every collection of garbage."""
        return ast.parse(self.text)

    @cached_property
    def outline(self) -> Outline:
        found = Outline()
        for node in ast.walk(self.tree):
            match node:
                case ast.Import(names=names):
                    found.imports.extend((node.lineno, alias.name) for alias in names)
                case ast.ImportFrom(module=str(module), level=0, names=names):
                    found.imports.extend((node.lineno, f"{module}.{each.name}") for each in names)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    found.functions.append((node.lineno, node.name, _lines_without_docstring(node)))
                case _:
                    pass
        return found

    def comments(self) -> Iterator[tuple[int, str]]:
        """Each comment of a Python source with its line; strings that look like one are not."""
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def source(path: str, text: str) -> Source:
    """A made-up file, for testing the rules themselves."""
    return Source(PurePosixPath(path), text)


def text_files(root: Path = ROOT, *suffixes: str) -> list[Source]:
    """Every text file of the repository, or those with one of the suffixes."""
    return [each for each in _all_files(root) if not suffixes or each.path.suffix in suffixes]


@cache
def _all_files(root: Path) -> tuple[Source, ...]:
    """Read once, and so parsed once, for all rules."""
    found = []
    for path in _walk(root):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found.append(Source(PurePosixPath(path.relative_to(root).as_posix()), text))
    return tuple(found)


def _walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or path.name in _SKIPPED or path.suffix == ".egg-info":
            continue
        if path.is_dir():
            yield from _walk(path)
        else:
            yield path


def _lines_without_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    size = _lines(function)
    match function.body[0]:
        case ast.Expr(value=ast.Constant(value=str())) as docstring:
            return size - _lines(docstring)
        case _:
            return size


def _lines(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1
