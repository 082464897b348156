"""What each role may commit."""

from __future__ import annotations

import msgspec

from metadata.directory import Directory, NodeId
from services.http.problems import Code, ProblemError
from services.http.roles import Role
from services.http.routing import NODE_HEADER
from transformations.directory import Register, Startup, Unregister
from transformations.join import PrepareJoin
from transformations.kinds import KINDS, AnyTransformation
from transformations.leave import PrepareLeave
from transformations.move import PrepareMove
from transformations.replace import PrepareReplace

_DIGITS_MAX = 16

_NODE = frozenset(
    [
        "Register",
        "Startup",
        "Unregister",
        "PrepareJoin",
        "StartJoin",
        "MidJoin",
        "FinishJoin",
        "PrepareLeave",
        "StartLeave",
        "MidLeave",
        "FinishLeave",
        "PrepareMove",
        "StartMove",
        "MidMove",
        "FinishMove",
        "PrepareReplace",
        "StartReplace",
        "MidReplace",
        "FinishReplace",
        "CancelSequence",
        "RetireSequence",
        "OpenSession",
        "CloseSession",
        "AdvanceCmsReconfiguration",
    ]
)
"""What concerns the node itself, and the steps of sequences."""

_ITS_OWN = (Startup, Unregister, PrepareJoin, PrepareLeave, PrepareMove, PrepareReplace)
"""What a node may commit of itself alone. Steps are of sequences, which any driver drives on."""

_ADMIN = frozenset(
    [
        "ForceSnapshot",
        "Assassinate",
        "UnsafeJoin",
        "PrepareCmsReconfiguration",
        "CancelCmsReconfiguration",
    ]
)

NEEDED = {
    kind: Role.NODE if name in _NODE else Role.ADMIN if name in _ADMIN else Role.OPERATOR
    for name, kind in KINDS.items()
}
"""The least role that may commit a kind. A kind that nobody thought of is the operator's."""


class Committer(msgspec.Struct, frozen=True):
    """Who commits. With the role node, `node` is the one that it says it is, if any."""

    role: Role
    node: NodeId | None = None


def committer(role: Role, header: str | None) -> Committer:
    """All nodes share a token, so one says by a header which it is; others need not."""
    if role is not Role.NODE or header is None:
        return Committer(role)
    if not (
        header.isascii() and header.isdigit() and len(header) <= _DIGITS_MAX and int(header) >= 1
    ):
        raise ProblemError(
            Code.MALFORMED, f"{NODE_HEADER} is the number of a node.", field=NODE_HEADER
        )
    return Committer(role, NodeId(int(header)))


def check_may_commit(
    who: Committer, transformation: AnyTransformation, directory: Directory, index: int | None
) -> None:
    needed = NEEDED[type(transformation)]
    if who.role < needed:
        kind = type(transformation).__name__
        raise ProblemError(
            Code.FORBIDDEN,
            f"{kind} needs the role {needed.name.lower()}; this token has {who.role.name.lower()}.",
            field="transformation.kind",
            index=index,
        )
    if who.role is Role.NODE:
        _check_own(who.node, transformation, directory, index)


def _check_own(
    node: NodeId | None, transformation: AnyTransformation, directory: Directory, index: int | None
) -> None:
    """A node commits what concerns itself; whoever commits for others is an operator."""
    kind = type(transformation).__name__
    if isinstance(transformation, Register) and node is not None:
        # It has no number before, so a number can only be that of an earlier try.
        known = directory.find(node)
        if known is None or known.host_id != transformation.host_id:
            raise ProblemError(
                Code.FORBIDDEN,
                f"Node {node} is not {transformation.host_id}; Register needs no {NODE_HEADER}.",
                field=NODE_HEADER,
                index=index,
            )
    if isinstance(transformation, _ITS_OWN) and node != transformation.node:
        said = "names none" if node is None else f"names node {node}"
        raise ProblemError(
            Code.FORBIDDEN,
            f"{kind} of node {transformation.node} needs that number in {NODE_HEADER}, which "
            f"{said}, or the role operator.",
            field=NODE_HEADER,
            index=index,
        )
