"""Bounds of what a client may send, ask for and wait for."""

from __future__ import annotations

import msgspec

BATCH_COMMITS_MAX = 1000


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How deep JSON may be nested has no figure: no type we decode nests more than a few levels,
    and whatever is skipped ends at the decoder's own recursion limit.
    """

    body_bytes_max: int = 32 * 1024 * 1024
    line_bytes_max: int = 16 * 1024
    header_bytes_max: int = 8 * 1024
    headers_max: int = 64
    page_entries_max: int = 1000
    page_bytes_max: int = 8 * 1024 * 1024
    wait_s_max: float = 60.0
    followers_max: int = 4000
    bookmark_interval_s: float = 10.0
    # How soon a waiting request notices that the service stops.
    slice_s: float = 0.5
    compressed_from_bytes: int = 4096
    # Compressing more than this would hold up everybody else; a thread does it.
    threaded_from_bytes: int = 64 * 1024
    entry_texts_bytes_max: int = 16 * 1024 * 1024
    retry_after_s: int = 1
    shutdown_timeout_s: float = 30.0


DEFAULT_LIMITS = HttpLimits()
