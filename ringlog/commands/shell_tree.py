"""The metadata at one epoch as a tree of folders and values, with a path to each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import quote

from encoding.views import component_view
from metadata.cluster import COMPONENTS, ClusterMetadata

Path = tuple[str, ...]
Folder = Mapping[str, Any]

LINKS: dict[str, Path] = {"nodes": ("directory", "nodes"), "keyspaces": ("schema", "keyspaces")}
"""Shorter ways to what people look at most."""

_NAMES = ("id", "name", "token", "sequence", "placement", "step")
"""What tells the items of a list apart, where they have it."""


class NoPathError(LookupError):
    """There is nothing at this path. The message is one sentence for people."""


class Tree:
    """Components are viewed when somebody looks into them: placements may be large."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        self.metadata = metadata
        self._components: dict[str, Any] = {}

    @cached_property
    def top(self) -> Path:
        return ("epoch", "digest", *COMPONENTS, *LINKS)

    def at(self, path: Path) -> Any:  # noqa: ANN401 a folder, or a plain value
        """A mapping is a folder, anything else a value."""
        found: Any = self._root()
        for depth, name in enumerate(path):
            if not isinstance(found, Mapping):
                raise NoPathError(f"{text_of(path[:depth])} is a value and holds nothing.")
            if name not in found:
                where = f"at epoch {self.metadata.epoch}"
                raise NoPathError(f"There is no {text_of(path[: depth + 1])} {where}.")
            found = self._entered(name) if depth == 0 else found[name]
        return found

    def walk(self, path: Path, deep_max: int) -> Iterator[tuple[Path, Any]]:
        """All that lies under a path, each folder before what it holds; not through links."""
        found = self.at(path)
        if not isinstance(found, Mapping) or deep_max <= 0:
            return
        for name in found:
            if not path and name in LINKS:
                continue
            inner = (*path, name)
            yield inner, self.at(inner)
            yield from self.walk(inner, deep_max - 1)

    def leaves(self, path: Path, deep_max: int) -> dict[Path, Any]:
        """Every value under a path, or the value there; none where there is no such path."""
        try:
            found = self.at(path)
        except NoPathError:
            return {}
        if not isinstance(found, Mapping):
            return {path: found}
        inner = self.walk(path, deep_max)
        return {name: value for name, value in inner if not isinstance(value, Mapping)}

    def _root(self) -> Folder:
        return dict.fromkeys(self.top)

    def _entered(self, name: str) -> Any:  # noqa: ANN401 a folder, or a plain value
        if name in LINKS:
            return self.at(LINKS[name])
        if name not in self._components:
            self._components[name] = self._made(name)
        return self._components[name]

    def _made(self, name: str) -> Any:  # noqa: ANN401 a folder, or a plain value
        if name == "epoch":
            return self.metadata.epoch
        if name == "digest":
            return self.metadata.digest.hex()
        view = component_view(self.metadata, name)
        del view["epoch"]
        # /sequences/17 rather than /sequences/sequences/17.
        return _folder(view[name] if list(view) == [name] else view)


def resolved(here: Path, text: str) -> Path:
    """A path as people write it, from where they are."""
    path = [] if text.startswith("/") else list(here)
    for name in text.split("/"):
        if name == "..":
            del path[-1:]
        elif name not in ("", "."):
            path.append(name)
    return tuple(path)


def text_of(path: Path) -> str:
    return "/" + "/".join(path)


def _folder(value: Any) -> Any:  # noqa: ANN401 plain data
    match value:
        case dict():
            return {_quoted(name): _folder(item) for name, item in value.items()}
        case list() if all(isinstance(item, dict) for item in value):
            names = [_name(item) for item in value]
            if None in names or len(set(names)) < len(names):
                names = [str(place) for place in range(len(value))]
            return {
                _quoted(str(name)): _folder(item) for name, item in zip(names, value, strict=True)
            }
        case _:
            return value


def _name(item: Mapping[str, Any]) -> str | None:
    for field in _NAMES:
        if field in item:
            return str(item[field])
    if "left" in item and "right" in item:
        return f"{item['left']}..{item['right']}"
    if "replication" in item:
        return _replication_name(item["replication"])
    return None


def _replication_name(replication: Mapping[str, Any]) -> str:
    if "factors" in replication:
        factors = replication["factors"]
        return "network:" + ",".join(f"{name}={factors[name]}" for name in sorted(factors))
    return f"{replication['strategy']}:{replication['factor']}"


def _quoted(name: str) -> str:
    """A name with a slash in it is still one name."""
    return quote(name, safe=" :.,=@+-_~!()[]{}") if "/" in name or "%" in name else name
