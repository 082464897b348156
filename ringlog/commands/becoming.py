"""Turning this process into one of the cluster's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

PREFIX = "RINGLOG_"


def become(module: str, settings: Mapping[str, str | None]) -> NoReturn:
    """Run `module` in place of this process, so that whoever started it signals the service.

    Settings without a value are left as the environment has them.
    """
    import os
    import sys

    given = {PREFIX + name: value for name, value in settings.items() if value is not None}
    command = [sys.executable, "-m", module]
    os.execve(sys.executable, command, {**os.environ, **given})  # noqa: S606 ours
