"""What any release ever wrote is read for ever, and leads where it led."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from encoding.entries import decode_entry
from encoding.images import decode_image
from encoding.json import decode_transformation
from log.chain import seal_payload
from log.replay import replayed
from tests.golden.recordings import VERSIONS, read_image, read_lines, read_log, sealed_json
from transformations.kinds import KINDS

ROOT = Path(__file__).parents[2]


def test_the_first_release_has_an_entry_of_every_kind():
    assert {line["kind"] for line in read_lines("v1")} == set(KINDS)


@pytest.mark.parametrize("version", VERSIONS)
def test_entries_say_what_they_said(version):
    """Field by field, as the JSON that was recorded beside the bytes."""
    for line, sealed in zip(read_lines(version), read_log(version), strict=True):
        del line["payload"]

        assert sealed_json(sealed) == line
        assert seal_payload(sealed.payload, sealed.previous_hash) == sealed


@pytest.mark.parametrize("version", VERSIONS)
def test_the_log_leads_where_it_led(version):
    lines = read_lines(version)

    digests = [applied.metadata.digest.hex() for applied in replayed(read_log(version))]

    assert digests == [line["digest"] for line in lines]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_image_holds_what_the_log_led_to(version):
    metadata = decode_image(read_image(version))

    assert metadata.digest.hex() == read_lines(version)[-1]["digest"]
    assert metadata.locks.held
    assert metadata.sequences.in_progress
    assert metadata.sessions.open
    assert metadata.cms.reconfiguration


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_json_is_read_as_the_recorded_entry(version):
    for sealed in read_log(version):
        text = sealed_json(sealed)["transformation"]

        assert (
            decode_transformation(msgspec.json.encode(text))
            == decode_entry(sealed.payload).transformation
        )


def test_hash_randomisation_changes_nothing():
    """Two processes that iterate over sets in different orders replay and commit the same."""
    first, second = (run_with_seed(seed) for seed in ("1", "2"))

    assert first == second
    assert len(first.splitlines()) > len(KINDS)


def run_with_seed(seed):
    done = subprocess.run(
        [sys.executable, "-m", "tests.golden"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout
