"""Settings from the environment."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from metadata.barriers import Level
from services.settings import (
    Listen,
    SettingsError,
    cms_settings,
    driver_settings,
    node_settings,
)

DSN = "postgresql://someone:secret@db/ringlog"
A_NODE = {"RINGLOG_SEEDS": "http://cms", "RINGLOG_STATE_DIR": "state"}


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


def test_others_may_reach_it_by_another_name_than_it_listens_at():
    told = {"RINGLOG_OWN_LISTEN": "0.0.0.0:7401", "RINGLOG_ADVERTISE": "cms-1:7401"}

    assert cms_settings({"RINGLOG_POSTGRES_DSN": DSN, **told}).own_url == "http://cms-1:7401"


def test_spark_is_told_more_line_by_line():
    text = "spark.driver.host=driver\n spark.jars.packages=a:b,c:d ; spark.x = y=z \n"
    found = driver_settings({"RINGLOG_SEEDS": "http://cms", "RINGLOG_SPARK_CONF": text})

    assert found.spark_conf == {
        "spark.driver.host": "driver",
        "spark.jars.packages": "a:b,c:d",
        "spark.x": "y=z",
    }


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("", Level.EACH_QUORUM),
        ("each_quorum", Level.EACH_QUORUM),
        ("each-quorum", Level.EACH_QUORUM),
        ("quorum", Level.QUORUM),
        ("all", Level.ALL),
    ],
)
def test_the_level_of_barriers_is_the_operators_choice(text, level):
    told = {"RINGLOG_SEEDS": "http://cms", "RINGLOG_BARRIER_LEVEL": text}
    assert driver_settings(told).barrier_level is level


def test_a_level_that_does_not_exist_is_refused():
    told = {"RINGLOG_SEEDS": "http://cms", "RINGLOG_BARRIER_LEVEL": "one"}
    with pytest.raises(SettingsError, match="LEVEL must be one of each_quorum, quorum, all"):
        driver_settings(told)


@pytest.mark.parametrize("text", ["spark.driver.host", "driver.host=secret", "=secret"])
def test_what_spark_would_not_understand_is_refused(text):
    with pytest.raises(SettingsError, match="RINGLOG_SPARK_CONF") as refused:
        driver_settings({"RINGLOG_SEEDS": "http://cms", "RINGLOG_SPARK_CONF": text})
    assert "secret" not in str(refused.value)


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


@pytest.mark.parametrize(
    ("text", "brokers"),
    [
        ("kafka", "kafka"),
        ("kafka-1:9092, kafka-2:9092 ,", "kafka-1:9092,kafka-2:9092"),
        ("[::1]:9092", "[::1]:9092"),
    ],
)
def test_brokers_are_named_by_host_and_port(text, brokers):
    told = {"RINGLOG_KAFKA": text}

    assert cms_settings({"RINGLOG_POSTGRES_DSN": DSN, **told}).kafka == brokers
    assert node_settings({**A_NODE, **told}).kafka == brokers


@pytest.mark.parametrize(
    "text",
    [
        "kafka:abc",
        "kafka:",
        ":9092",
        "kafka:0",
        "kafka:70000",
        "kafka:" + "9" * 5000,
        "::1:9092",
        "[::1:9092",
        "[kafka]:9092",
        "kafka://kafka:9092",
        "ka fka:9092",
        "good:9092,bad:x",
        ",",
    ],
)
def test_what_is_no_broker_is_refused_at_the_start(text):
    """Later it would end whoever connects."""
    told = {"RINGLOG_KAFKA": text}
    with pytest.raises(SettingsError, match="RINGLOG_KAFKA must be HOST:PORT"):
        cms_settings({"RINGLOG_POSTGRES_DSN": DSN, **told})
    with pytest.raises(SettingsError, match="RINGLOG_KAFKA must be HOST:PORT"):
        node_settings({**A_NODE, **told})


@pytest.mark.parametrize("missing", ["RINGLOG_TLS_KEY", "RINGLOG_TLS_CERTIFICATE"])
def test_tls_needs_both_files(missing):
    both = {"RINGLOG_TLS_KEY": "none.key", "RINGLOG_TLS_CERTIFICATE": "none.pem"}
    with pytest.raises(SettingsError, match="cannot be used"):
        cms_settings({"RINGLOG_POSTGRES_DSN": DSN, **both}).ssl_context()
    del both[missing]
    with pytest.raises(SettingsError, match="belong together"):
        cms_settings({"RINGLOG_POSTGRES_DSN": DSN, **both}).ssl_context()


def test_retention_and_proofs_are_told_by_variables():
    told = {
        "RINGLOG_ARCHIVE": "s3://old/log, /archives/log",
        "RINGLOG_PARTITION_EPOCHS": "5000",
        "RINGLOG_LOG_KEY": "/keys/log.key",
    }
    found = cms_settings({"RINGLOG_POSTGRES_DSN": DSN, **told})

    assert found.archives == ("s3://old/log", "/archives/log")
    assert found.partition_epochs == 5000
    assert found.log_keys == (Path("/keys/log.key"),)


@pytest.mark.parametrize("text", ["999", "100000001", "-1", "many", "1e6", "1" * 5000])
def test_partitions_of_a_senseless_size_are_refused(text):
    told = {"RINGLOG_POSTGRES_DSN": DSN, "RINGLOG_PARTITION_EPOCHS": text}
    with pytest.raises(SettingsError, match="RINGLOG_PARTITION_EPOCHS must be 1000 to"):
        cms_settings(told)


SASL = {
    "RINGLOG_KAFKA": "kafka:9092",
    "RINGLOG_KAFKA_SECURITY": "sasl_ssl",
    "RINGLOG_KAFKA_SASL": "scram-sha-512",
    "RINGLOG_KAFKA_USER": "ringlog",
}


def test_a_user_of_kafka_is_told_by_variables(tmp_path):
    file = tmp_path / "password"
    file.write_text("secret words\n", encoding="utf-8")
    told = {**SASL, "RINGLOG_KAFKA_PASSWORD_FILE": str(file)}

    for found in (
        cms_settings({"RINGLOG_POSTGRES_DSN": DSN, **told}),
        node_settings({**A_NODE, **told}),
    ):
        options = found.kafka_access.options()
        assert isinstance(options.pop("ssl_context"), ssl.SSLContext)
        assert options == {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": "ringlog",
            "sasl_plain_password": "secret words",
        }
        assert "secret" not in repr(found.kafka_access)


@pytest.mark.parametrize(
    ("told", "named"),
    [
        ({"KAFKA_SECURITY": "tls"}, "KAFKA_SECURITY must be one of plaintext, ssl"),
        ({"KAFKA_SECURITY": "ssl", "KAFKA": ""}, "KAFKA_SECURITY means nothing without"),
        ({"KAFKA_CA": "ca.pem"}, "KAFKA_CA means nothing with plaintext"),
        ({"KAFKA_SECURITY": "ssl", "KAFKA_CA": "/none.pem"}, "KAFKA_CA cannot be used"),
        ({"KAFKA_USER": "ringlog"}, "KAFKA_USER means nothing with plaintext"),
        ({"KAFKA_SECURITY": "ssl", "KAFKA_SASL": "plain"}, "KAFKA_SASL means nothing with ssl"),
        ({"KAFKA_PASSWORD_FILE": "secret"}, "KAFKA_PASSWORD_FILE means nothing"),
        ({"KAFKA_SECURITY": "sasl_plaintext"}, "SASL needs RINGLOG_KAFKA_USER"),
        (
            {
                "KAFKA_SECURITY": "sasl_plaintext",
                "KAFKA_USER": "ringlog",
                "KAFKA_PASSWORD_FILE": "/none/secret",
            },
            "KAFKA_PASSWORD_FILE cannot be read",
        ),
    ],
)
def test_what_does_not_fit_together_for_kafka_is_refused(told, named):
    environment = {
        "RINGLOG_POSTGRES_DSN": DSN,
        "RINGLOG_KAFKA": "kafka:9092",
        **{f"RINGLOG_{name}": value for name, value in told.items()},
    }
    with pytest.raises(SettingsError, match=named) as refused:
        cms_settings(environment)
    assert "secret" not in str(refused.value)
