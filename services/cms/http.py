"""The HTTP face of the CMS."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from services.cms.console import console_routes
from services.cms.engine import Engine
from services.cms.metrics import Metrics
from services.cms.routes import ROUTES
from services.http.api import Api
from services.http.front import Front
from services.http.internal import Internal, internal_routes
from services.http.limits import DEFAULT_LIMITS, HttpLimits
from services.http.openapi import described
from services.http.roles import Tokens
from services.http.routing import Route
from services.http.serving import Address, Handle, serving

TITLE = "ringlog CMS"


def handler(engine: Engine, *, tokens: Tokens | None) -> Handle:
    """For a server of one's own; `serve` is the way to stop gracefully."""
    return Front(Api(engine, DEFAULT_LIMITS, Metrics()), _routes({}), tokens).answer


def serve(
    engine: Engine,
    *,
    tokens: Tokens | None,
    where: Address,
    limits: HttpLimits = DEFAULT_LIMITS,
    metrics: Metrics | None = None,
    internal: Internal | None = None,
) -> AbstractAsyncContextManager[str]:
    """Serve until the block ends, then answer what was accepted. Gives the URL."""
    api = Api(engine, limits, Metrics() if metrics is None else metrics)
    return serving(api, _routes(internal or {}), tokens=tokens, where=where)


def _routes(internal: Internal) -> tuple[Route, ...]:
    described_too = described(ROUTES, TITLE)
    return (*ROUTES, described_too, *console_routes(), *internal_routes(internal))
