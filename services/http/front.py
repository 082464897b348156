"""From any request to an answer: who asks, for what, and what goes wrong."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from typing import Generic

import structlog
from aiohttp import web

from services.http.api import Api, Call, E, M
from services.http.hosts import is_meant
from services.http.problems import Code, ProblemError, expected, problem
from services.http.roles import Role, Tokens
from services.http.routing import MethodNotAllowedError, Route, Router

logger = structlog.get_logger()


class Front(Generic[E, M]):
    """Finds the route, asks who it is, and turns whatever goes wrong into a problem."""

    def __init__(
        self,
        api: Api[E, M],
        routes: Iterable[Route],
        tokens: Tokens | None,
        advertised: str | None = None,
    ) -> None:
        self._api = api
        self._tokens = tokens
        self._advertised = advertised
        self._router = Router(routes)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = "unknown"
        response: web.StreamResponse
        try:
            found = self._router.find(request.method, request.raw_path)
            path = found.route.path
            role = self._role(request, found.route)
            if "Ringlog-Cluster" in request.headers or found.route.is_internal:
                await self._check_cluster(request.headers.get("Ringlog-Cluster"))
            call = Call(request, found.query, role, self._tokens)
            response = await found.route.run(self._api, call)
        except ConnectionError:
            # Nobody is left to be told.
            raise
        except Exception as error:  # noqa: BLE001 - the one place that reports bugs
            response = self._failed(request, error)
        self._api.metrics.http.requests[request.method, path, response.status] += 1
        return response

    def _role(self, request: web.BaseRequest, route: Route) -> Role:
        if self._tokens is None:
            self._check_host(request.headers.get("Host"))
            return Role.ADMIN
        if route.role is None:
            return Role.VIEWER
        role = self._tokens.role_of(request.headers.get("Authorization"))
        if role is None:
            raise ProblemError(
                Code.UNAUTHORIZED, "A valid bearer token is needed.", field="Authorization"
            )
        if role < route.role:
            needed, given = route.role.name.lower(), role.name.lower()
            raise ProblemError(
                Code.FORBIDDEN,
                f"This needs the role {needed}; the token has {given}.",
                field="Authorization",
            )
        return role

    def _check_host(self, meant: str | None) -> None:
        # Every browser says it; who does not is none.
        if meant is not None and not is_meant(meant, self._advertised):
            raise ProblemError(
                Code.WRONG_HOST,
                f"Without tokens this service answers as localhost, by an address or by the name "
                f"that it advertises, not as {meant[:100]!r}.",
                field="Host",
            )

    async def _check_cluster(self, meant: str | None) -> None:
        ours = self._api.engine.applied.metadata.cluster.id
        if meant != ours and not ours:
            ours = (await self._api.engine.latest()).metadata.cluster.id
        if meant != ours:
            raise ProblemError(
                Code.WRONG_CLUSTER,
                f"This is cluster {ours or '(not founded yet)'}, not the one that is meant.",
                field="Ringlog-Cluster",
            )

    def _failed(self, request: web.BaseRequest, error: Exception) -> web.Response:
        found = expected(error)
        if found is None:
            # As text: a traceback with the values of variables would show tokens.
            trace = "".join(traceback.format_exception(error))
            logger.error("request_failed", method=request.method, traceback=trace)
            found = problem(
                Code.INTERNAL, "Something is wrong with this service; its log says what."
            )
        response = self._api.problem(found)
        if isinstance(error, MethodNotAllowedError):
            response.headers["Allow"] = error.allow
        return response
