"""Asking nodes directly. Keys go out exactly as written: nothing on the way may decode them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ringlog.commands.naming import HTTP, Member

TIMEOUT_S = 15.0
ANSWER_BYTES_MAX = 64 * 1024 * 1024
NODES_TRIED_MAX = 5


class NotReachedError(Exception):
    """The text is a sentence."""


class _NotConnectedError(Exception):
    """Nothing was sent. The text says why."""


class DoubtError(Exception):
    """A write may have been done. The text says why nobody knows."""


def coordinators(members: Iterable[Member]) -> list[Member]:
    """Who may be asked for rows, best first: those that are up, and own ranges."""
    found = [item for item in members if item.liveness == "up" and HTTP in item.addresses]
    return sorted(found, key=lambda item: (item.state != "joined", item.id))


def asked(
    members: Sequence[Member],
    method: str,
    path: str,
    body: dict[str, Any] | None,
    *,
    token: str | None,
) -> tuple[int, dict[str, Any]]:
    """Status and answer of the first that takes a connection.

    Once a node has taken a write, no other is asked: it may have been done.
    """
    complaint = ""
    for member in members[:NODES_TRIED_MAX]:
        try:
            return _ask(member.addresses[HTTP], method, path, body, token)
        except _NotConnectedError as error:
            complaint = f"{member.label} takes no connection at {member.addresses[HTTP]}: {error}"
        except OSError as error:
            complaint = f"{member.label} broke off: {error}"
            if method != "GET":
                raise DoubtError(complaint) from None
    raise NotReachedError(f"No node answered: {complaint}.")


def _ask(
    address: str, method: str, path: str, body: dict[str, Any] | None, token: str | None
) -> tuple[int, dict[str, Any]]:
    from http.client import HTTPConnection, HTTPException

    host, _, port = address.rpartition(":")
    headers = {"Accept": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    data = None
    if body is not None:
        headers["Content-Type"] = "application/json"
        data = msgspec.json.encode(body)
    connection = HTTPConnection(host.strip("[]"), int(port), timeout=TIMEOUT_S)
    try:
        connection.connect()
    except OSError as error:
        raise _NotConnectedError(error.strerror or str(error)) from error
    try:
        connection.request(method, path, body=data, headers=headers)
        response = connection.getresponse()
        text = response.read(ANSWER_BYTES_MAX)
        return response.status, msgspec.json.decode(text, type=dict[str, Any])
    except (HTTPException, ValueError, RecursionError) as error:
        raise OSError(f"its answer cannot be read ({error})") from error
    finally:
        connection.close()
