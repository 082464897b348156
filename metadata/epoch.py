"""Positions in the log."""

from __future__ import annotations

from typing import NewType

Epoch = NewType("Epoch", int)

EMPTY = Epoch(0)
"""The epoch of metadata that no entry has touched."""


def following(epoch: Epoch) -> Epoch:
    return Epoch(epoch + 1)
