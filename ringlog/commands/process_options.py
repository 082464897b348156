"""Options of the verbs that run one process; each is also a `RINGLOG_*` variable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

LogDsnOption = Annotated[
    str | None,
    typer.Option(
        "--postgres-dsn",
        envvar="RINGLOG_POSTGRES_DSN",
        help="The Postgres that keeps the log; the variable keeps a password out of sight.",
        show_default=False,
    ),
]
NotifyDsnOption = Annotated[
    str | None,
    typer.Option(
        "--postgres-dsn",
        envvar="RINGLOG_POSTGRES_DSN",
        help="The Postgres that keeps the log, to hear of entries by NOTIFY.",
        show_default=False,
    ),
]
SharedListenOption = Annotated[
    str, typer.Option(envvar="RINGLOG_LISTEN", help="HOST:PORT, shared with other CMS processes.")
]
OwnListenOption = Annotated[
    str, typer.Option(envvar="RINGLOG_OWN_LISTEN", help="HOST:PORT of this process alone.")
]
ListenOption = Annotated[str, typer.Option(envvar="RINGLOG_LISTEN", help="HOST:PORT to answer at.")]
AdvertiseOption = Annotated[
    str | None,
    typer.Option(
        envvar="RINGLOG_ADVERTISE",
        help="HOST:PORT where others reach it; where it listens by default.",
        show_default=False,
    ),
]
NameOption = Annotated[
    str, typer.Option(envvar="RINGLOG_NAME", help="Its name in entries and logs.")
]
NodeStateOption = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        envvar="RINGLOG_STATE_DIR",
        help="Where the node keeps its own copy of the log.",
        show_default=False,
    ),
]
SeedsOption = Annotated[
    str | None,
    typer.Option(
        envvar="RINGLOG_SEEDS",
        help="Addresses of CMS processes, with commas between them.",
        show_default=False,
    ),
]
DatacenterOption = Annotated[
    str, typer.Option(envvar="RINGLOG_DATACENTER", help="Settled when the node is registered.")
]
RackOption = Annotated[
    str, typer.Option(envvar="RINGLOG_RACK", help="Settled when the node is registered.")
]
KafkaOption = Annotated[
    str | None,
    typer.Option(
        envvar="RINGLOG_KAFKA",
        help="Brokers that spread the log, HOST:PORT with commas between them.",
        show_default=False,
    ),
]
KafkaTopicOption = Annotated[
    str | None,
    typer.Option(
        "--kafka-topic",
        envvar="RINGLOG_KAFKA_TOPIC",
        help="The topic of the log; ringlog.log.v1 by default.",
        show_default=False,
    ),
]
TokensFileOption = Annotated[
    Path | None,
    typer.Option(
        "--tokens-file",
        envvar="RINGLOG_TOKENS_FILE",
        help="A token per role, as JSON.",
        show_default=False,
    ),
]
SparkMasterOption = Annotated[
    str, typer.Option(envvar="RINGLOG_SPARK_MASTER", help="Where the jobs that move rows run.")
]
