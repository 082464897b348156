"""The guide to retention does what it says, in a cluster of its own."""

import pytest

from tests.e2e.guides import walk
from tests.e2e.place import a_place


@pytest.mark.timeout(600)
def test_the_guide_lets_old_entries_go():
    with a_place() as place:
        place.path = place.path.parent / ".state"
        walk("retention", place.path.parent, replaced={"ringlog up": "ringlog up --port 0"})
