"""What to do about a commit of which nobody knows whether it was made."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any
from uuid import UUID


def remedy(
    transformation: Mapping[str, Any], entry_id: UUID, actor: str | None, reason: str | None
) -> str:
    """How to look, and the command that makes the commit once at most, however often it is run.

    The verb itself would not do: run again it chooses tokens anew, which is another commit.
    """
    import msgspec

    said = {"--entry-id": str(entry_id), "--actor": actor, "--reason": reason}
    options = [word for name, value in said.items() if value for word in (name, value)]
    words = ["ringlog", "commit", msgspec.json.encode(transformation).decode(), *options]
    return (
        "`ringlog log` shows it if it was. This makes it once, whether or not it was:\n"
        f"{shlex.join(words)}"
    )
