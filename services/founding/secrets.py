"""The secrets of a cluster, made once: `python -m services.founding.secrets`.

Three folders, because not everybody may read everything:

- `RINGLOG_STATE_DIR`, for the processes of the cluster alone: `tokens.json`, and `pgpass` for
  those that connect to Postgres;
- `RINGLOG_POSTGRES_DIR`, for the server: `password`;
- `RINGLOG_MONITORING_DIR`: `viewer_token`, which lets a program look and nothing more, and
  `grafana_password`.

Files in the last two are readable by whoever gets to the folder: their readers are other users.
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

import msgspec

from services.local.tokens import TOKEN_BYTES, make_tokens

OWNER_ONLY = 0o600
EVERYBODY = 0o444
VIEWER = "viewer"
POSTGRES_USER = "ringlog"


class Folders(msgspec.Struct, frozen=True):
    state: Path
    postgres: Path
    monitoring: Path


def make_secrets(folders: Folders) -> None:
    """Make what is missing; whatever is there stays."""
    make_tokens(folders.state / "tokens.json")
    line = _kept(folders.state / "pgpass", f"*:*:*:{POSTGRES_USER}:{_new()}\n", OWNER_ONLY)
    # Again at every start: both come from what the cluster itself uses.
    _put(folders.postgres / "password", line.strip().rpartition(":")[2], EVERYBODY)
    tokens = msgspec.json.decode((folders.state / "tokens.json").read_bytes(), type=dict[str, str])
    if VIEWER in tokens:
        _put(folders.monitoring / "viewer_token", tokens[VIEWER], EVERYBODY)
    _kept(folders.monitoring / "grafana_password", _new(), EVERYBODY)


def _new() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


def _kept(path: Path, text: str, mode: int) -> str:
    """What the file holds, which is `text` if there was none."""
    if not path.exists():
        _put(path, text, mode)
    return path.read_text(encoding="ascii")


def _put(path: Path, text: str, mode: int) -> None:
    """Whole or not at all, and never readable by more than are meant to."""
    draft = path.with_name(f".{path.name}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    # The umask may have taken something away.
    draft.chmod(mode)
    draft.replace(path)


def main() -> None:
    names = [f"RINGLOG_{name}_DIR" for name in ("STATE", "POSTGRES", "MONITORING")]
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        sys.exit(f"secrets: {missing[0]} is not set: give the folder")
    try:
        make_secrets(Folders(*(Path(os.environ[name]) for name in names)))
    except OSError as error:
        sys.exit(f"secrets: {error.filename} cannot be written ({error.strerror}): who owns it?")


if __name__ == "__main__":
    main()
