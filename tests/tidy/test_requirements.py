"""The locks pin everything that is installed, and only that."""

import re

import pytest

from tests.tidy.source import ROOT

_NAME = re.compile(r"^([A-Za-z0-9][\w.-]*)", re.MULTILINE)


def names(file):
    text = (ROOT / "requirements" / file).read_text(encoding="utf-8")
    return {name.lower().replace("_", "-") for name in _NAME.findall(text)}


@pytest.mark.parametrize("lock", ["build", "runtime", "dev"])
def test_what_is_required_is_pinned(lock):
    assert names(f"{lock}.in") <= names(f"{lock}.txt")


def test_what_is_tested_is_what_runs():
    """The development lock has every pin of the others, at the same version."""
    pin = re.compile(r"^\S+==\S+", re.MULTILINE)
    build, runtime, dev = (
        set(pin.findall((ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")))
        for lock in ("build", "runtime", "dev")
    )

    assert build | runtime <= dev


@pytest.mark.parametrize("lock", ["build", "runtime", "dev"])
def test_every_pin_has_a_hash(lock):
    text = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")

    for pin in re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in pin, pin.splitlines()[0]


@pytest.mark.parametrize("path", ["deploy/setup.sh", "deploy/Dockerfile"])
def test_nothing_is_looked_for_beside_the_lock(path):
    """Or a release of somebody else's, made tomorrow, breaks what is installed today."""
    installs = [
        line
        for line in (ROOT / path).read_text(encoding="utf-8").splitlines()
        if "--require-hashes" in line
    ]

    assert installs
    assert not [line for line in installs if "--no-deps" not in line]
