"""Reading what older releases wrote as today's types."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from encoding.avro import Content

Upcast = Callable[[Content], Content]

UPCASTS: Mapping[tuple[str, int], Upcast] = {}
"""From kind and version to what makes the next version of it; versions follow one another.

A version that only added fields with defaults needs no line here.
"""


def upcasts_from(
    name: str,
    version: int,
    newest: int,
    upcasts: Mapping[tuple[str, int], Upcast] = UPCASTS,
) -> tuple[Upcast, ...]:
    """What leads content of one version through all later ones to the newest, in order."""
    steps = ((name, step) for step in range(version, newest))
    return tuple(upcasts[step] for step in steps if step in upcasts)
