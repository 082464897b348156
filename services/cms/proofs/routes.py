"""The paths of proofs; a part of the table of `services.cms.routes`."""

from __future__ import annotations

from services.cms.proofs import handlers
from services.cms.proofs.bodies import (
    ConsistencyAnswer,
    Extended,
    Included,
    InclusionAnswer,
    Tile1,
    Tile2,
    Tile3,
    Tile4,
)
from services.http.problems import Code
from services.http.routing import Route

_PROBLEMS = (Code.UNKNOWN_EPOCH, Code.UNAVAILABLE)

PROOF_ROUTES = (
    Route(
        method="GET",
        path="/v1/proofs/inclusion",
        run=handlers.inclusion,
        summary="That an entry is in the log (RFC 6962)",
        query=Included,
        answer=InclusionAnswer,
        problems=_PROBLEMS,
    ),
    Route(
        method="GET",
        path="/v1/proofs/consistency",
        run=handlers.consistency,
        summary="That the log begins with an earlier one (RFC 6962)",
        query=Extended,
        answer=ConsistencyAnswer,
        problems=_PROBLEMS,
    ),
    Route(
        method="GET",
        path="/v1/checkpoint",
        run=handlers.checkpoint,
        summary="The newest size and root, signed (C2SP tlog-checkpoint)",
        answer=str,
        media_types=("text/plain",),
        problems=(
            Code.NOT_FOUND,
            Code.SIGNED_OTHERWISE,
            Code.DIVERGED_LOG,
            Code.UNAVAILABLE,
        ),
    ),
    *(
        Route(
            method="GET",
            path="/v1/tile/{level}" + "".join(f"/{{{name}}}" for name in names),
            run=handlers.tile,
            summary="A tile of the tree (C2SP tlog-tiles)",
            query=query,
            answer=str,
            media_types=("application/octet-stream",),
            problems=(Code.NOT_FOUND, Code.UNAVAILABLE),
        )
        for names, query in (("a", Tile1), ("ab", Tile2), ("abc", Tile3), ("abcd", Tile4))
    ),
)
