"""`ringlog node`: one node."""

from __future__ import annotations

from ringlog.commands.becoming import become
from ringlog.commands.ending import Exit, end
from ringlog.commands.options import JsonOption
from ringlog.commands.process_options import (
    AdvertiseOption,
    DatacenterOption,
    KafkaOption,
    KafkaTopicOption,
    ListenOption,
    NameOption,
    NodeStateOption,
    NotifyDsnOption,
    RackOption,
    SeedsOption,
    TokensFileOption,
)


def node(  # noqa: PLR0913 one parameter per setting
    *,
    state_dir: NodeStateOption = None,
    seeds: SeedsOption = None,
    listen: ListenOption = "127.0.0.1:7500",
    advertise: AdvertiseOption = None,
    name: NameOption = "node-1",
    datacenter: DatacenterOption = "dc1",
    rack: RackOption = "r1",
    kafka: KafkaOption = None,
    topic: KafkaTopicOption = None,
    dsn: NotifyDsnOption = None,
    tokens: TokensFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run one node until SIGTERM; it logs JSON lines, with or without --json.

    Without Kafka and without Postgres it asks the CMS by long poll.

    Example: ringlog node --state-dir node-4 --seeds http://127.0.0.1:7400 --name node-4
    """
    del as_json
    if state_dir is None or not seeds:
        raise end(
            "A node needs a folder of its own and a CMS to ask: give --state-dir and --seeds, or "
            "run all with `ringlog up --nodes 3`.",
            Exit.WRONG_USE,
        )
    given = {
        "STATE_DIR": str(state_dir.absolute()),
        "SEEDS": seeds,
        "LISTEN": listen,
        "ADVERTISE": advertise,
        "NAME": name,
        "DATACENTER": datacenter,
        "RACK": rack,
        "KAFKA": kafka,
        "KAFKA_TOPIC": topic,
        "POSTGRES_DSN": dsn,
        "TOKENS_FILE": None if tokens is None else str(tokens.absolute()),
    }
    become("services.node", given)
