"""What the founding of a cluster is told by its environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from metadata.partitioners import Partitioner
from services.local.state import CLUSTER_NAME
from services.settings import PREFIX, SettingsError


class FoundingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`cms` has the address of each CMS by its name, `nodes` where the first nodes answer.

    `state_dir` keeps the tokens, and what a second founding has to know of the first.
    """

    state_dir: Path
    cms: dict[str, str]
    nodes: tuple[str, ...]
    name: str
    partitioner: Partitioner


def founding_settings(environment: Mapping[str, str]) -> FoundingSettings:
    for name in ("STATE_DIR", "CMS"):
        if not environment.get(PREFIX + name):
            raise SettingsError(f"{PREFIX}{name} is not set")
    partitioner = environment.get(f"{PREFIX}PARTITIONER") or Partitioner.XXHASH64.value
    if partitioner not in {item.value for item in Partitioner}:
        known = ", ".join(item.value for item in Partitioner)
        raise SettingsError(f"{PREFIX}PARTITIONER is {partitioner!r}: choose one of {known}")
    return FoundingSettings(
        state_dir=Path(environment[f"{PREFIX}STATE_DIR"]),
        cms=dict(map(_member, _listed(environment[f"{PREFIX}CMS"]))),
        nodes=tuple(f"http://{address}" for address in _listed(environment.get(f"{PREFIX}NODES"))),
        name=environment.get(f"{PREFIX}CLUSTER_NAME") or CLUSTER_NAME,
        partitioner=Partitioner(partitioner),
    )


def _listed(text: str | None) -> list[str]:
    return [item.strip() for item in (text or "").split(",") if item.strip()]


def _member(text: str) -> tuple[str, str]:
    name, _, url = text.partition("=")
    if not name or not url.startswith(("http://", "https://")):
        raise SettingsError(
            f"{PREFIX}CMS must be NAME=http://HOST:PORT with commas between, not {text!r}"
        )
    return name, url
