"""Settings from the environment."""

from __future__ import annotations

import pytest

from services.settings import Listen, SettingsError, cms_settings

DSN = "postgresql://someone:secret@db/ringlog"


def test_variables_become_values():
    found = cms_settings(
        {"RINGLOG_POSTGRES_DSN": DSN, "RINGLOG_LISTEN": "10.0.0.1:81", "HOME": "x"}
    )
    assert (found.dsn, found.tokens_file, found.ssl_context()) == (DSN, None, None)
    assert found.listen == Listen(host="10.0.0.1", port=81, is_shared=True)
    assert not found.own_listen.is_shared


@pytest.mark.parametrize(
    ("text", "url"),
    [("127.0.0.1:80", "http://127.0.0.1:80"), ("[::1]:80", "http://[::1]:80")],
)
def test_each_process_has_an_address_of_its_own(text, url):
    assert cms_settings({"RINGLOG_POSTGRES_DSN": DSN, "RINGLOG_OWN_LISTEN": text}).own_url == url


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({}, "RINGLOG_POSTGRES_DSN"),
        ({"RINGLOG_POSTGRES_DSN": ""}, "RINGLOG_POSTGRES_DSN"),
        ({"RINGLOG_POSTGRES_DSN": DSN, "RINGLOG_LISTEN": "http"}, "RINGLOG_LISTEN"),
        ({"RINGLOG_POSTGRES_DSN": DSN, "RINGLOG_LISTEN": "a:70000"}, "RINGLOG_LISTEN"),
        ({"RINGLOG_POSTGRES_DSN": DSN, "RINGLOG_OWN_LISTEN": ":80"}, "RINGLOG_OWN_LISTEN"),
    ],
)
def test_a_wrong_variable_is_named_and_no_secret_told(environment, named):
    with pytest.raises(SettingsError) as refused:
        cms_settings(environment)
    assert named in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("missing", ["RINGLOG_TLS_KEY", "RINGLOG_TLS_CERTIFICATE"])
def test_tls_needs_both_files(missing):
    both = {"RINGLOG_TLS_KEY": "none.key", "RINGLOG_TLS_CERTIFICATE": "none.pem"}
    with pytest.raises(SettingsError, match="cannot be used"):
        cms_settings({"RINGLOG_POSTGRES_DSN": DSN, **both}).ssl_context()
    del both[missing]
    with pytest.raises(SettingsError, match="belong together"):
        cms_settings({"RINGLOG_POSTGRES_DSN": DSN, **both}).ssl_context()
