"""Which ranges a repair covers and who has to take part, and waiting for its end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import typer

from metadata.tokens import Range, Token, coalesce, intersections
from ringlog.commands.asking import Talk
from ringlog.commands.changing import Manner
from ringlog.commands.ending import Exit, end
from ringlog.commands.figures import plural
from ringlog.commands.naming import Roster
from ringlog.commands.printing import print_json
from ringlog.commands.saying import say
from ringlog.commands.telling import SILENT_AFTER_S, View, session_now
from ringlog.commands.watching import PAGE_ENTRIES, PAGES_MAX, POLL_S

REPAIR = "repair"
STARTED = "started"
REPAIRED = "repaired"


class Wanted(msgspec.Struct, frozen=True):
    """All owners of these ranges, since a repair needs every one of them."""

    nodes: tuple[int, ...]
    ranges: tuple[Range, ...]

    @property
    def transformation(self) -> dict[str, Any]:
        spans = [{"left": str(span.left), "right": str(span.right)} for span in self.ranges]
        nodes = list(self.nodes)
        return {"kind": "OpenSession", "purpose": REPAIR, "nodes": nodes, "ranges": spans}


def wanted(
    placements: Iterable[Mapping[str, Any]], node: int | None, keyspace: str | None
) -> Wanted | None:
    """What `node` owns, or everybody, of one keyspace or of all; None where that is nothing.

    Ranges are of the ring and not of a keyspace: whoever owns them in any takes part.
    """
    listed = list(placements)
    owned = coalesce(
        _range(item)
        for placement in listed
        if keyspace is None or keyspace in placement["keyspaces"]
        for item in placement["writes"]
        if item["owners"] and (node is None or node in item["owners"])
    )
    nodes = {
        int(owner)
        for placement in listed
        for item in placement["writes"]
        if intersections((_range(item),), owned)
        for owner in item["owners"]
    }
    return Wanted(tuple(sorted(nodes)), owned) if owned else None


def see_repaired(
    talk: Talk, found: Wanted, node: int | None, names: Roster, manner: Manner
) -> None:
    """Open the session and wait until it is closed; given up is exit code 1."""
    committed = talk.commit(
        found.transformation, actor=manner.actor, reason=manner.reason, as_json=manner.as_json
    )
    session = committed.result.session
    assert session is not None, found
    ending: View = {"outcome": STARTED, "epoch": committed.epoch, "actor": manner.actor}
    if manner.wait:
        ending = _wait_for_close(talk, session, names, manner)
    if manner.as_json:
        nodes, ranges = list(found.nodes), len(found.ranges)
        known = {"session": session, "node": node, "nodes": nodes, "ranges": ranges}
        print_json({**known, **ending})
    else:
        what = f"{plural(len(found.ranges), 'range')} on {names.labels(found.nodes)}"
        say(f"{ending['outcome']}: session {session}, {what}")
    if ending["outcome"] not in (STARTED, REPAIRED):
        raise typer.Exit(Exit.REFUSED)


def _wait_for_close(talk: Talk, session: int, names: Roster, manner: Manner) -> View:
    """Who closed it, and at which epoch. Whoever stops waiting leaves it open."""
    timeout_s = manner.timeout_s
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    goes_on = "It goes on without this command: `ringlog sequences` shows it."
    began_s = time.monotonic()
    said = None
    try:
        while (view := _found(talk.get("/v1/sequences")["sessions"], session)) is not None:
            driver = view["driver"] or {}
            news = (driver.get("doing"), driver.get("detail"))
            # A driver tells once a second what it does; before that nobody is missed.
            is_known = bool(driver) or time.monotonic() - began_s > SILENT_AFTER_S
            if not manner.as_json and is_known and news != said:
                say(f"session {session}: {session_now(view, names)}", err=True)
                said = news
            if deadline_s is not None and time.monotonic() > deadline_s:
                raise end(f"Session {session} is not closed yet. {goes_on}", Exit.REFUSED)
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        raise end(f"Not waiting any more. {goes_on}", Exit.REFUSED) from None
    return _closing(talk, session)


def outcome_of(transformation: Mapping[str, Any], reason: str | None, session: int) -> str | None:
    """Of an entry: what it means for the session, if anything. A driver says why it closes it."""
    if transformation["kind"] != "CloseSession" or transformation["session"] != session:
        return None
    return REPAIRED if reason == f"{REPAIR} {session}" else "given up"


def _closing(talk: Talk, session: int) -> View:
    after = session
    for _ in range(PAGES_MAX):
        page = talk.get("/v1/log", {"after": after, "limit": PAGE_ENTRIES})["entries"]
        for entry in page:
            outcome = outcome_of(entry["transformation"], entry["reason"], session)
            if outcome is not None:
                return {"outcome": outcome, "epoch": entry["epoch"], "actor": entry["actor"]}
        if not page:
            break
        after = page[-1]["epoch"]
    return {"outcome": "unknown", "epoch": None, "actor": None}


def _found(sessions: Sequence[View], wanted: int) -> View | None:
    return next((item for item in sessions if item["id"] == wanted), None)


def _range(item: Mapping[str, Any]) -> Range:
    return Range(Token(int(item["left"])), Token(int(item["right"])))
