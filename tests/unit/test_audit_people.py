"""The roles of an audit are those that a CMS asks for."""

from __future__ import annotations

from uuid import UUID

from audit.entry_ids import EntryIds
from audit.people import role_needed
from encoding.entries import EntryId
from services.cms.rights import NEEDED
from transformations.kinds import KINDS


def test_roles_are_those_of_a_cms():
    asked = {name: NEEDED[kind].name.lower() for name, kind in KINDS.items()}

    assert {name: role_needed(name) for name in KINDS} == asked


def test_an_id_is_new_once():
    known = EntryIds(b"key")
    ids = [EntryId(UUID(int=number << 64)) for number in range(5_000)]

    assert all(known.is_new(item) for item in ids)
    assert not any(known.is_new(item) for item in ids)
    assert known.is_new(EntryId(UUID(int=3)))
