"""Tokens that a node might take, for people who do not care which."""

from __future__ import annotations

import asyncio

from aiohttp import web

from client.choosing import chosen
from encoding.views import component_view
from metadata.directory import NodeId
from services.cms.api import Api
from services.cms.bodies import TokensAnswer, TokensFor
from services.http.api import Call
from services.http.problems import Code, ProblemError

COMPONENTS = ("directory", "schema", "ring", "sequences")


async def tokens(api: Api, call: Call[TokensFor]) -> web.StreamResponse:
    """Nothing is reserved: the same question later may have another answer."""
    query = call.query
    found = (await api.engine.latest()).metadata
    if found.directory.find(NodeId(query.node)) is None:
        raise ProblemError(
            Code.NOT_FOUND, f"There is no node {query.node} at epoch {found.epoch}.", field="node"
        )
    views = {name: component_view(found, name) for name in COMPONENTS}
    # With many nodes it takes a while, in which others want answers.
    proposed = await asyncio.to_thread(chosen, views, query.node, query.count)
    answer = TokensAnswer(epoch=found.epoch, node=query.node, tokens=proposed)
    return await api.json(call.request, answer, Cache_Control="no-store")
