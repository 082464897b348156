"""A supervisor in the background: `python -m services.local STATE_DIR WANTED`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from services.local.failure import LocalServerError
from services.local.lifecycle import Word, log_to, say, supervise
from services.local.settling import Wanted
from services.local.state import state_dir
from services.local.supervision import AlreadyRunningError
from services.local.supervisor import Ready


def main() -> int:
    state = state_dir(Path(sys.argv[1]))
    wanted = msgspec.json.decode(sys.argv[2], type=Wanted)
    dsn = os.environ.get("RINGLOG_POSTGRES_DSN") or None
    log_to(state.log_of("supervisor"))
    try:
        asyncio.run(supervise(state, wanted, dsn=dsn, on_ready=_say_ready))
    except LocalServerError as error:
        say(Word(failure=str(error), running=isinstance(error, AlreadyRunningError)))
        return 1
    return 0


def _say_ready(ready: Ready) -> None:
    say(
        Word(
            url=ready.url,
            waiting=ready.waiting,
            driven=ready.driven,
            unrepaired=ready.unrepaired,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
