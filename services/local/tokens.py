"""The tokens of a local cluster: made once, readable by its owner alone."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path

import msgspec

from services.http.roles import Role

TOKEN_BYTES = 32


def make_tokens(path: Path) -> bool:
    """Write `{role: token}` for all roles, unless the file is there. True if it was made.

    Of several processes that do so at once, one makes it and all find the same.
    """
    if path.exists():
        return False
    tokens = {role.name.lower(): secrets.token_urlsafe(TOKEN_BYTES) for role in Role}
    # Only its owner may read what mkstemp makes, from the first byte on.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(tokens)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        # A link fails where the name is taken; a rename would replace what others have read.
        os.link(name, path)
    except FileExistsError:
        return False
    else:
        return True
    finally:
        Path(name).unlink()
