"""The numbered files that the schema is made of."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import msgspec

from migrations.failure import MigrationError

FOLDER = Path(__file__).parent

_NAME = re.compile(r"(\d{4})_\w+")


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the schema; its number is its place, from 1 and without gaps."""

    number: int
    name: str
    sql: str
    checksum: bytes


def load(folder: Path = FOLDER) -> list[Migration]:
    migrations = [_read(path) for path in sorted(folder.glob("*.sql"))]
    for place, migration in enumerate(migrations, start=1):
        if migration.number != place:
            raise MigrationError(
                f"Migration {place} is missing or there twice: found {migration.name} in its place."
            )
    return migrations


def _read(path: Path) -> Migration:
    named = _NAME.fullmatch(path.stem)
    if named is None:
        raise MigrationError(f"{path.name} is not named like a migration, 0001_log.sql.")
    content = path.read_bytes()
    return Migration(
        number=int(named[1]),
        name=path.stem,
        sql=content.decode(),
        checksum=hashlib.sha256(content).digest(),
    )
