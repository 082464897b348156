"""`python -m migrations`: bring a database's schema up to date."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

import asyncpg

from migrations.apply import apply
from migrations.failure import MigrationError

REFUSED = 1
NOT_REACHABLE = 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m migrations", description=__doc__)
    parser.add_argument(
        "--dsn",
        default=os.environ.get("RINGLOG_POSTGRES_DSN"),
        help="the database, postgresql://…; by default RINGLOG_POSTGRES_DSN",
    )
    dsn = parser.parse_args().dsn
    if dsn is None:
        parser.error("say which database: --dsn or RINGLOG_POSTGRES_DSN")
    try:
        applied = asyncio.run(apply(dsn))
    except (MigrationError, asyncpg.PostgresError) as error:
        sys.stderr.write(f"{error}\n")
        return REFUSED
    except OSError as error:
        sys.stderr.write(f"The database cannot be reached: {error}\n")
        return NOT_REACHABLE
    sys.stdout.write("".join(f"applied {name}\n" for name in applied) or "up to date\n")
    return 0


sys.exit(main())
