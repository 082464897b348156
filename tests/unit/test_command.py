"""The command line answers without a cluster."""

import subprocess
import sys

from tests.command import run


def test_says_its_version():
    result = run("--version")

    assert result.exit_code == 0
    assert result.output.startswith("ringlog ")


def test_wrong_use_is_exit_code_2():
    assert run("no-such-verb").exit_code == 2


def test_help_imports_nothing_heavy():
    """Verbs import what they need when they run, so that help is there at once."""
    probe = "import sys, ringlog.main; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", probe], text=True).split()

    assert not {"aiohttp", "asyncpg", "numpy", "pyarrow", "pyspark"} & set(loaded)
