"""How finely a log may be cut: into partitions, which are trimmed whole."""

from __future__ import annotations

PARTITION_EPOCHS_MIN = 1_000
PARTITION_EPOCHS_MAX = 100_000_000
