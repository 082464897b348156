"""Tokens and what each role may commit."""

from __future__ import annotations

import json

import pytest

from services.cms.roles import NEEDED, Role, TokensError, check_open, load_tokens
from transformations.kinds import KINDS


def test_every_kind_needs_a_role_that_may_commit():
    assert set(NEEDED) == set(KINDS.values())
    assert Role.VIEWER not in NEEDED.values()


def test_only_an_admin_may_do_what_cannot_be_undone():
    admin = {kind.__name__ for kind, role in NEEDED.items() if role is Role.ADMIN}
    unsafe = {name for name in KINDS if name.startswith("Unsafe") or "Cms" in name}
    assert admin == unsafe | {"ForceSnapshot", "Assassinate"}


def test_tokens_come_from_a_file(tmp_path):
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps({"viewer": "see", "admin": "rule"}))
    tokens = load_tokens(path)
    assert tokens.role_of("Bearer see") is Role.VIEWER
    assert tokens.role_of("bearer rule") is Role.ADMIN
    for wrong in (None, "", "Bearer", "Bearer se", "Bearer see2", "Basic see", "Bearer \udcff"):
        assert tokens.role_of(wrong) is None


def test_equal_tokens_prove_the_highest_role(tmp_path):
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps({"operator": "same", "viewer": "same"}))
    assert load_tokens(path).role_of("Bearer same") is Role.OPERATOR


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"viewer": ""}', '{"root": "secret"}', '{"viewer": 7}']
)
def test_a_file_that_is_none_is_refused_without_telling_secrets(tmp_path, content):
    path = tmp_path / "tokens.json"
    path.write_text(content)
    with pytest.raises(TokensError) as refused:
        load_tokens(path)
    assert "secret" not in str(refused.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(TokensError):
        load_tokens(tmp_path / "none.json")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_this_machine_may_go_without_tokens(host):
    check_open(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", ""])
def test_others_may_not(host):
    with pytest.raises(TokensError):
        check_open(host)
