"""Nodes by whatever people call them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

HTTP = "http"
SHOWN_MAX = 8
ABSENT = ("down", "unknown")


class NamingError(Exception):
    """The text is a sentence: nobody is called that, or several are."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the directory; `name` is what its supervisor calls it, where that is known."""

    id: int
    host_id: str
    addresses: dict[str, str]
    datacenter: str
    rack: str
    state: str
    name: str | None = None
    liveness: str | None = None
    watermark: int | None = None

    @property
    def address(self) -> str | None:
        return self.addresses.get(HTTP) or next(iter(self.addresses.values()), None)

    @property
    def label(self) -> str:
        return self.name or f"node {self.id}"

    @property
    def called(self) -> set[str]:
        """Everything that means this node."""
        texts = {str(self.id), self.host_id, *self.addresses.values()}
        urls = {f"http://{address}" for address in self.addresses.values()}
        return texts | urls | ({self.name} if self.name else set())


class Roster(msgspec.Struct, frozen=True):
    members: tuple[Member, ...]

    def find(self, text: str) -> Member:
        """By number, name, address or host id."""
        found = [item for item in self.members if text in item.called]
        if len(found) == 1:
            return found[0]
        if found:
            numbers = ", ".join(str(item.id) for item in found)
            raise NamingError(f"{text!r} may be any of the nodes {numbers}: give the number.")
        known = ", ".join(f"{item.id} ({item.label})" for item in self.members[:SHOWN_MAX])
        more = " and others" if len(self.members) > SHOWN_MAX else ""
        listed = f"there are {known}{more}" if known else "none is registered"
        raise NamingError(f"There is no node {text!r}: {listed}.")

    def numbers(self, texts: Iterable[str]) -> list[int]:
        """Of several, each of which may be a list with commas."""
        names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
        return sorted({self.find(name).id for name in names})

    def absent(self, nodes: Iterable[int]) -> list[Member]:
        """Those of them that do not report any more, or never did."""
        wanted = set(nodes)
        return [item for item in self.members if item.id in wanted and item.liveness in ABSENT]

    def present(self, nodes: Iterable[int]) -> list[Member]:
        """Those of them that report."""
        wanted = set(nodes)
        return [item for item in self.members if item.id in wanted and item.liveness == "up"]

    def label(self, node: int) -> str:
        found = next((item for item in self.members if item.id == node), None)
        return f"node {node}" if found is None else found.label

    def labels(self, nodes: Iterable[int]) -> str:
        return ", ".join(map(self.label, nodes))


def roster(rows: Iterable[Mapping[str, Any]], names: Mapping[str, str]) -> Roster:
    """`rows` are nodes as a CMS lists them, `names` are by address."""
    members = []
    for row in rows:
        member = msgspec.convert(row, Member)
        urls = (f"http://{address}" for address in member.addresses.values())
        name = next((names[url] for url in urls if url in names), None)
        members.append(msgspec.structs.replace(member, name=name))
    return Roster(tuple(members))
