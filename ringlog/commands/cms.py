"""`ringlog cms`: one CMS process."""

from __future__ import annotations

from ringlog.commands.becoming import become
from ringlog.commands.ending import Exit, end
from ringlog.commands.options import JsonOption
from ringlog.commands.process_options import (
    KafkaOption,
    KafkaTopicOption,
    LogDsnOption,
    NameOption,
    OwnListenOption,
    SharedListenOption,
    TokensFileOption,
)


def cms(  # noqa: PLR0913 one parameter per setting
    *,
    dsn: LogDsnOption = None,
    listen: SharedListenOption = "127.0.0.1:7400",
    own_listen: OwnListenOption = "127.0.0.1:7401",
    name: NameOption = "cms-1",
    kafka: KafkaOption = None,
    topic: KafkaTopicOption = None,
    tokens: TokensFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run one CMS process until SIGTERM; it logs JSON lines, with or without --json.

    Example: RINGLOG_POSTGRES_DSN=postgresql://user@db/ringlog ringlog cms --name cms-2
    """
    del as_json
    if dsn is None:
        raise end(
            "A CMS needs a Postgres: set RINGLOG_POSTGRES_DSN, or run all with `ringlog up`.",
            Exit.WRONG_USE,
        )
    given = {
        "POSTGRES_DSN": dsn,
        "LISTEN": listen,
        "OWN_LISTEN": own_listen,
        "NAME": name,
        "KAFKA": kafka,
        "KAFKA_TOPIC": topic,
        "TOKENS_FILE": None if tokens is None else str(tokens.absolute()),
    }
    become("services.cms", given)
