"""The tokens of a local cluster."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor

from services.http.roles import Role, load_tokens
from services.local.tokens import make_tokens


def test_every_role_has_a_token_of_its_own(tmp_path):
    path = tmp_path / "tokens.json"

    assert make_tokens(path)
    made = json.loads(path.read_text())
    assert set(made) == {role.name.lower() for role in Role}
    assert len(set(made.values())) == len(Role)
    assert all(len(token) >= 32 for token in made.values())
    tokens = load_tokens(path)
    assert tokens.role_of(f"Bearer {made['operator']}") is Role.OPERATOR


def test_only_the_owner_reads_them(tmp_path):
    path = tmp_path / "tokens.json"
    make_tokens(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [item.name for item in tmp_path.iterdir()] == ["tokens.json"]


def test_what_is_there_stays(tmp_path):
    path = tmp_path / "tokens.json"
    path.write_text('{"admin": "mine"}')

    assert not make_tokens(path)
    assert path.read_text() == '{"admin": "mine"}'


def test_of_many_at_once_one_makes_them(tmp_path):
    path = tmp_path / "tokens.json"
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: make_tokens(path), range(32)))

    assert made.count(True) == 1
    assert [item.name for item in tmp_path.iterdir()] == ["tokens.json"]
