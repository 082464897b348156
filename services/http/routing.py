"""From a request line to a route and its parameters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec
from aiohttp import web

from services.http.api import Call
from services.http.bodies import Nothing
from services.http.problems import Code, ProblemError, malformed
from services.http.roles import Role

PARAMETERS_MAX = 32
JSON = "application/json"
CLUSTER_HEADER = "Ringlog-Cluster"
NODE_HEADER = "Ringlog-Node"
"""The number of the node that sends; the token of the role is the same for all nodes."""

Handler = Callable[[Any, Call[Any]], Awaitable[web.StreamResponse]]
"""Gets the `Api` of its service."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """`role` none: open to everybody. `problems` are those besides what any path may answer.

    Internal ones are for other processes, which must name their cluster.
    """

    method: str
    path: str
    run: Handler
    summary: str
    query: type[msgspec.Struct] = Nothing
    body: type[msgspec.Struct] | None = None
    answer: Any = dict[str, Any]
    media_types: tuple[str, ...] = (JSON,)
    problems: tuple[Code, ...] = ()
    role: Role | None = Role.VIEWER
    is_internal: bool = False


class Found(msgspec.Struct, frozen=True):
    route: Route
    query: msgspec.Struct


class MethodNotAllowedError(ProblemError):
    def __init__(self, method: str, allowed: Iterable[str]) -> None:
        self.allow = ", ".join(sorted(allowed))
        super().__init__(Code.METHOD_NOT_ALLOWED, f"{method} is not possible; {self.allow} is.")


class Router:
    """Paths without parameters are looked up; the few others are compared piece by piece."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._exact: dict[tuple[str, str], Found] = {}
        self._paths: dict[str, dict[str, Route]] = {}
        for route in routes:
            self._paths.setdefault(route.path, {})[route.method] = route
            if not route.query.__struct_fields__:
                self._exact[route.method, route.path] = Found(route, route.query())
        self._patterns = [path for path in self._paths if "{" in path]

    def find(self, method: str, target: str) -> Found:
        """`target` is the path and query as they came."""
        found = self._exact.get((method, target))
        return self._search(method, target) if found is None else found

    def _search(self, method: str, target: str) -> Found:
        path, _, query = target.partition("#")[0].partition("?")
        by_method, values = self._paths.get(path), dict[str, str]()
        if by_method is None:
            by_method, values = self._match(path)
        wanted = "GET" if method == "HEAD" else method
        route = by_method.get(wanted)
        if route is None:
            raise MethodNotAllowedError(method, by_method)
        return Found(route, _converted(route, {**_parameters(query, values), **values}))

    def _match(self, path: str) -> tuple[dict[str, Route], dict[str, str]]:
        pieces = path.split("/")
        for pattern in self._patterns:
            wanted = pattern.split("/")
            pairs = list(zip(wanted, pieces, strict=False))
            if len(wanted) == len(pieces) and all(
                name == piece or (name.startswith("{") and piece) for name, piece in pairs
            ):
                found = {name[1:-1]: piece for name, piece in pairs if name.startswith("{")}
                return self._paths[pattern], {name: _text(found[name], name) for name in found}
        raise ProblemError(Code.NOT_FOUND, "There is nothing at this path.")


def _converted(route: Route, given: dict[str, str]) -> msgspec.Struct:
    try:
        return msgspec.convert(given, route.query, strict=False)
    except msgspec.ValidationError as error:
        raise malformed(error) from error


def _parameters(query: str, taken: dict[str, str]) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, errors="strict", max_num_fields=PARAMETERS_MAX
        )
    except ValueError as error:
        raise ProblemError(
            Code.MALFORMED, "The query is not UTF-8, or has too many parameters.", field="query"
        ) from error
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found or name in taken:
            raise ProblemError(Code.MALFORMED, f"{name} is given twice.", field=name)
        found[name] = value
    return found


def _text(piece: str, name: str) -> str:
    try:
        return unquote(piece, errors="strict")
    except UnicodeDecodeError as error:
        raise ProblemError(Code.MALFORMED, f"{name} is not UTF-8.", field=name) from error
