"""From what a person asks for to the transformation that prepares it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from client.choosing import chosen
from ringlog.commands.choosing import TokensError, parsed
from ringlog.commands.ending import Exit, end
from ringlog.commands.naming import NamingError, Roster

if TYPE_CHECKING:
    # At run time it comes when a verb runs, so that --help stays quick.
    from ringlog.commands.asking import Talk

Plain = dict[str, Any]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A change of ownership as it was typed: nodes by any name, tokens as text."""

    kind: str
    node: str
    replaced: str | None = None
    tokens: str | None = None
    dead: tuple[str, ...] = ()
    accept_loss: str | None = None
    force: bool = False


def proposed(talk: Talk, asked: Asked, names: Roster) -> Plain:
    """What to commit, or the verb ends here with a sentence."""
    try:
        return _proposed(talk, asked, names)
    except (NamingError, TokensError) as error:
        raise end(str(error), Exit.WRONG_USE) from None


def _proposed(talk: Talk, asked: Asked, names: Roster) -> Plain:
    node = names.find(asked.node).id
    found: Plain = {"kind": asked.kind, "node": node}
    if asked.replaced is not None:
        found["replaced"] = names.find(asked.replaced).id
    if asked.kind in ("PrepareJoin", "PrepareMove"):
        tokens = parsed(asked.tokens)
        if not isinstance(tokens, list):
            tokens = chosen(talk.get("/v1/metadata"), node, tokens)
        found["tokens"] = tokens
    if asked.dead:
        found["dead"] = names.numbers(asked.dead)
    if asked.accept_loss:
        found["accept_loss"] = asked.accept_loss
    if asked.force:
        found["force"] = True
    return found
