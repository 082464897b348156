"""The command line answers without a cluster."""

import subprocess
import sys

from typer.testing import CliRunner

from ringlog.main import app


def test_says_its_version():
    result = CliRunner().invoke(app, ["--version"])

    assert result.exit_code == 0
    assert result.output.startswith("ringlog ")


def test_wrong_use_is_exit_code_2():
    assert CliRunner().invoke(app, ["no-such-verb"]).exit_code == 2


def test_help_imports_nothing_heavy():
    """Verbs import what they need when they run, so that help is there at once."""
    probe = "import sys, ringlog.main; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", probe], text=True).split()

    assert not {"aiohttp", "asyncpg", "numpy", "pyarrow", "pyspark"} & set(loaded)
