"""Only `make test-compose` runs what is here: it finds an engine first."""

import os
import subprocess

import pytest

from tests.compose.stack import BUILD_TIMEOUT_S, Stack

WANTED = "RINGLOG_TEST_COMPOSE"

collect_ignore_glob = [] if os.environ.get(WANTED) else ["test_*.py"]


@pytest.fixture(scope="session")
def stack():
    """Up as from a fresh clone: no image, no volumes. Whatever happens, nothing of it is left."""
    found = Stack()
    try:
        found.clear()
        _started(found)
        yield found
    finally:
        found.clear()


def _started(found):
    try:
        found.up(build_timeout_s=BUILD_TIMEOUT_S)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        # Asked before it is cleared away.
        pytest.fail(f"{error}\n{found.described()}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """What the containers said, beside the failure."""
    report = yield
    if report.failed:
        report.sections.append(("docker compose", Stack().described()))
    return report
