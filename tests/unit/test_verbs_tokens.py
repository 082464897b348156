"""Inside a container of the cluster nobody has to copy a token."""

import pytest
import typer

from ringlog.commands.finding import find

URL = "http://cms-1:7401"


def test_the_token_comes_from_the_file_that_processes_have(tmp_path, monkeypatch):
    path = tmp_path / "tokens.json"
    path.write_text('{"admin": "a", "operator": "o"}')
    monkeypatch.setenv("RINGLOG_TOKENS_FILE", str(path))

    assert find(None, URL).token == "a"
    assert find(None, URL, "given").token == "given"


def test_without_a_file_there_is_none(tmp_path, monkeypatch):
    monkeypatch.delenv("RINGLOG_TOKENS_FILE", raising=False)
    assert find(None, URL).token is None
    monkeypatch.setenv("RINGLOG_TOKENS_FILE", str(tmp_path / "tokens.json"))
    assert find(None, URL).token is None


def test_a_damaged_file_is_told(tmp_path, monkeypatch):
    path = tmp_path / "tokens.json"
    path.write_text("{")
    monkeypatch.setenv("RINGLOG_TOKENS_FILE", str(path))

    with pytest.raises(typer.Exit) as refused:
        find(None, URL)
    assert refused.value.exit_code == 2
