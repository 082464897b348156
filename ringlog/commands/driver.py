"""`ringlog driver`: one driver."""

from __future__ import annotations

from ringlog.commands.becoming import become
from ringlog.commands.ending import Exit, end
from ringlog.commands.options import JsonOption
from ringlog.commands.process_options import (
    ListenOption,
    NameOption,
    SeedsOption,
    SparkMasterOption,
    TokensFileOption,
)


def driver(
    *,
    seeds: SeedsOption = None,
    listen: ListenOption = "127.0.0.1:7600",
    name: NameOption = "driver-1",
    spark_master: SparkMasterOption = "local[2]",
    tokens: TokensFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run one driver until SIGTERM; it logs JSON lines, with or without --json.

    It takes the sequences of its cluster to their end. Any number of drivers may run.

    Example: ringlog driver --seeds http://127.0.0.1:7400 --name driver-2
    """
    del as_json
    if not seeds:
        raise end(
            "A driver needs a CMS to ask: give --seeds, or run all with `ringlog up --nodes 3`.",
            Exit.WRONG_USE,
        )
    given = {
        "SEEDS": seeds,
        "LISTEN": listen,
        "NAME": name,
        "SPARK_MASTER": spark_master,
        "TOKENS_FILE": None if tokens is None else str(tokens.absolute()),
    }
    become("services.driver", given)
