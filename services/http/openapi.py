"""The OpenAPI document, made from the table of routes and the types that decode and encode."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import msgspec
from aiohttp import web

from services.http.api import Api, Call, E, M, encode
from services.http.bodies import Entry, Nothing
from services.http.problems import MEDIA_TYPE, STATUSES, Code, Problem
from services.http.routing import CLUSTER_HEADER, JSON, NODE_HEADER, Route
from transformations.kinds import KINDS, AnyTransformation

Document = dict[str, Any]

_REFERENCE = "#/components/schemas/{name}"
_TEXT = {"type": "string"}
_TRANSFORMATION = {"$ref": _REFERENCE.format(name="Transformation")}
_ENTRIES = {"type": "array", "items": {"$ref": _REFERENCE.format(name="Entry")}}
_OUTCOMES = ("CommitAnswer", "Problem")
_RAW = {
    ("Commit", "transformation"): _TRANSFORMATION,
    ("Plan", "transformation"): _TRANSFORMATION,
    ("CommitAnswer", "entries"): _ENTRIES,
    ("LogState", "entries"): _ENTRIES,
    ("RowsAnswer", "outcomes"): {"type": "array", "items": {"type": "object"}},
    ("BatchAnswer", "outcomes"): {
        "type": "array",
        "items": {"anyOf": [{"$ref": _REFERENCE.format(name=name)} for name in _OUTCOMES]},
    },
}
"""What stands in the fields that are decoded later or were encoded before."""

_ANYWHERE = (
    Code.MALFORMED,
    Code.WRONG_CLUSTER,
    Code.WRONG_HOST,
    Code.INTERNAL,
    Code.UNAVAILABLE,
    Code.STOPPING,
)
_GUARDED = (Code.UNAUTHORIZED, Code.FORBIDDEN)
_CACHED = (
    "/v1/metadata",
    "/v1/modified",
    "/v1/log/{",
    "/v1/diff",
    "/v1/sequences",
    "/v1/nodes",
    "/v1/owners",
)


def described(routes: Iterable[Route], title: str) -> Route:
    """The route that answers with the document about all the others."""
    listed = tuple(routes)
    made: list[bytes] = []

    async def openapi(api: Api[E, M], call: Call[Nothing]) -> web.StreamResponse:
        if not made:
            made.append(encode(document(listed, title, version("ringlog"))))
        return await api.answer(call.request, made[0])

    return Route(
        method="GET", path="/openapi.json", run=openapi, summary="This document", role=None
    )


def document(routes: Iterable[Route], title: str, release: str) -> Document:
    listed = tuple(routes)
    types = {route.answer for route in listed if route.answer is not str}
    bodies = {route.body for route in listed if route.body is not None}
    wanted = [*sorted(bodies | types, key=str), Problem, Entry, AnyTransformation]
    schemas, components = msgspec.json.schema_components(wanted, ref_template=_REFERENCE)
    by_type = dict(zip(map(str, wanted), schemas, strict=True))
    components["Transformation"] = _transformation(schemas[-1])
    for (name, field), schema in _RAW.items():
        if name in components:
            components[name]["properties"][field] = schema
    paths: Document = {}
    for route in listed:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "version": release,
            "description": "Cluster metadata as a log. Errors are problems (RFC 9457).",
        },
        "paths": paths,
        "components": {
            "schemas": {name: _lenient(found) for name, found in components.items()},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, by_type: dict[str, Document]) -> Document:
    found: Document = {
        "operationId": re.sub(r"[^a-z0-9]+", "_", f"{route.method} {route.path}".lower()).strip(
            "_"
        ),
        "summary": route.summary,
        "parameters": [*_parameters(route), *_headers(route)],
        "responses": _responses(route, by_type),
        "security": [] if route.role is None else [{"bearer": []}],
    }
    if route.role is not None:
        found["description"] = f"Needs the role {route.role.name.lower()}."
    if route.body is not None:
        schema = by_type[str(route.body)]
        found["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    return found


def _parameters(route: Route) -> list[Document]:
    schema, components = msgspec.json.schema_components([route.query], ref_template=_REFERENCE)
    del schema
    described = components[route.query.__name__]
    required = described.get("required", ())
    return [
        {
            "name": name,
            "in": "path" if f"{{{name}}}" in route.path else "query",
            "required": name in required,
            "schema": _without_null(found),
        }
        for name, found in described["properties"].items()
    ]


def _headers(route: Route) -> list[Document]:
    named = [(CLUSTER_HEADER, "The cluster the client means; another one's is refused.")]
    if route.path.startswith("/v1/commit"):
        named.append((NODE_HEADER, "Which node commits; needed where the role is node."))
    if route.path.endswith("/stream"):
        named.append(("Last-Event-ID", "Go on behind this event: its epoch, or epoch and hash."))
    if route.path.startswith(_CACHED):
        named.append(("If-None-Match", "The version the client has."))
    return [
        {
            "name": name,
            "in": "header",
            "required": route.is_internal and name == CLUSTER_HEADER,
            "schema": _TEXT,
            "description": text,
        }
        for name, text in named
    ]


def _responses(route: Route, by_type: dict[str, Document]) -> Document:
    content: Document = {}
    for media_type in route.media_types:
        is_json = media_type == JSON
        content[media_type] = {"schema": by_type[str(route.answer)]} if is_json else {}
    found: Document = {"200": {"description": route.summary, "content": content}}
    if route.path.startswith(_CACHED):
        found["304"] = {"description": "The client has this version."}
    codes = {*_ANYWHERE, *route.problems, *(() if route.role is None else _GUARDED)}
    for code in sorted(codes, key=lambda item: (STATUSES[item], item)):
        status = str(STATUSES[code].value)
        known = found.get(status)
        text = code.value if known is None else f"{known['description']}, {code.value}"
        schema = {"$ref": _REFERENCE.format(name="Problem")}
        found[status] = {"description": text, "content": {MEDIA_TYPE: {"schema": schema}}}
    if "409" in found and route.body is not None:
        found["409"]["description"] += ", or the reason of a rejection"
    return found


def _transformation(union: Document) -> Document:
    mapping = {name: _REFERENCE.format(name=name) for name in KINDS}
    assert "anyOf" in union, union
    return {"oneOf": union["anyOf"], "discriminator": {"propertyName": "kind", "mapping": mapping}}


def _without_null(schema: Document) -> Document:
    """A parameter is there or not; the value null means nothing in a query."""
    options = [item for item in schema.get("anyOf", ()) if item != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name not in ("anyOf", "default")}
    if len(options) == 1:
        rest |= options[0]
    if schema.get("default") is not None:
        rest["default"] = schema["default"]
    return rest


def _lenient(schema: Any) -> Any:  # noqa: ANN401 - any part of a schema
    """Tokens may be text as well as numbers, everywhere."""
    if isinstance(schema, list):
        return [_lenient(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _lenient(item) for name, item in schema.items()}
    if found.get("type") == "integer" and found.get("minimum") == -(2**63):
        return {"anyOf": [found, {"type": "string", "pattern": r"^-?[0-9]{1,19}$"}]}
    return found
