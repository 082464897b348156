"""What every service says in its log alike."""

from __future__ import annotations

import structlog

logger = structlog.get_logger()


def notify_turned(error: Exception | None) -> None:
    """NOTIFY tells nothing any more, or tells again; the log is looked at meanwhile."""
    if error is None:
        logger.info("notify_back")
    else:
        logger.warning("notify_away", error=repr(error))
