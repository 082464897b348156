"""`ringlog up` and `ringlog down`: a whole cluster on this machine."""

from __future__ import annotations

from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ringlog.commands.ending import Exit, end, endless, sentences
from ringlog.commands.finding import folder
from ringlog.commands.options import DEFAULT_STATE_DIR, JsonOption
from ringlog.commands.printing import print_json
from ringlog.commands.saying import say
from ringlog.commands.spinning import spinning

if TYPE_CHECKING:
    # At run time they come when the verb runs, so that --help stays quick.
    from services.local.settling import Wanted
    from services.local.state import StateDir
    from services.local.supervisor import Ready

CMS_MAX = 64
NODES_MAX = 256
PORT_MAX = 65_535


class PartitionerName(StrEnum):
    XXHASH64 = "xxhash64"
    MURMUR3 = "murmur3"


class FanoutName(StrEnum):
    NOTIFY = "notify"
    KAFKA = "kafka"


StateDirOption = Annotated[
    Path, typer.Option("--state-dir", help="Where everything of the cluster is kept.")
]


PortOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=PORT_MAX,
        help="Port of the cluster on 127.0.0.1, 7400 by default; 0 takes a free one.",
        show_default=False,
    ),
]
CmsOption = Annotated[
    int | None,
    typer.Option(
        min=1, max=CMS_MAX, help="CMS processes to run, 1 by default.", show_default=False
    ),
]
PartitionerOption = Annotated[
    PartitionerName | None,
    typer.Option(
        help="How keys become tokens; settled when the cluster is founded, by default as xxhash64.",
        show_default=False,
    ),
]
NodesOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=NODES_MAX,
        help="Nodes to run, none by default; `ringlog scale` changes it while they run.",
        show_default=False,
    ),
]
FanoutOption = Annotated[
    FanoutName | None,
    typer.Option(
        help="How entries reach nodes, by default notify; kafka runs a broker as well.",
        show_default=False,
    ),
]
TokensOption = Annotated[
    bool | None,
    typer.Option(
        "--tokens/--no-tokens",
        help="Ask everybody for a token; they are in tokens.json. Off by default.",
        show_default=False,
    ),
]
DriverOption = Annotated[
    bool | None,
    typer.Option(
        "--driver/--no-driver",
        help="Run a driver, by whom nodes join and leave; with nodes there is one by default.",
        show_default=False,
    ),
]
NameOption = Annotated[
    str | None,
    typer.Option(
        help="Name of the cluster, settled when it is founded; ringlog by default.",
        show_default=False,
    ),
]
DsnOption = Annotated[
    str | None,
    # Hidden: everybody sees the arguments of a process, and this one holds a password.
    typer.Option("--postgres-dsn", envvar="RINGLOG_POSTGRES_DSN", hidden=True),
]


def up(  # noqa: PLR0913 one parameter per option
    *,
    state_dir: StateDirOption = DEFAULT_STATE_DIR,
    port: PortOption = None,
    name: NameOption = None,
    nodes: NodesOption = None,
    cms: CmsOption = None,
    partitioner: PartitionerOption = None,
    fanout: FanoutOption = None,
    tokens: TokensOption = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when the cluster serves; `down` stops it.")
    ] = False,
    driver: DriverOption = None,
    dsn: DsnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a cluster on this machine until Ctrl-C, or in the background with --detach.

    A second start in the same state directory goes on where the first stopped.
    RINGLOG_POSTGRES_DSN names a Postgres to use instead of one in the state directory.

    Example: ringlog up --state-dir .state --cms 2 --nodes 3 --fanout kafka --detach
    """
    from metadata.partitioners import Partitioner
    from services.local.settling import Wanted
    from services.local.state import Fanout

    wanted = Wanted(
        port=port,
        cms=cms,
        partitioner=None if partitioner is None else Partitioner(partitioner),
        name=name,
        nodes=nodes,
        fanout=None if fanout is None else Fanout(fanout),
        tokens=tokens,
        driver=driver,
    )
    state = folder(state_dir)
    with sentences():
        _start(state, wanted, dsn or None, detach=detach, as_json=as_json)


def down(*, state_dir: StateDirOption = DEFAULT_STATE_DIR, as_json: JsonOption = False) -> None:
    """Stop a cluster of this machine and leave no process of it; its state stays.

    Example: ringlog down --state-dir .state
    """
    import asyncio

    from services.local.lifecycle import stop

    state = folder(state_dir)
    with sentences(), spinning("stopping the cluster"):
        was_running = bool(state.read_processes())
        asyncio.run(stop(state))
    if as_json:
        print_json({"state_dir": str(state.path), "running": False})
    elif was_running:
        say(f"stopped: everything that ran in {state.path}; its state stays.")
    else:
        say(f"Nothing ran in {state.path}.")


def _start(
    state: StateDir, wanted: Wanted, dsn: str | None, *, detach: bool, as_json: bool
) -> None:
    import asyncio

    from services.local.lifecycle import log_to, start_detached, supervise
    from services.local.supervision import AlreadyRunningError

    def say_ready(ready: Ready) -> None:
        _say(ready, state, "ready", as_json=as_json)

    try:
        if detach:
            with spinning("starting the cluster"):
                ready = asyncio.run(start_detached(state, wanted, dsn))
            say_ready(ready)
            return
        state.make()
        log_to(state.log_of("supervisor"))
        with endless(), ExitStack() as sign:
            sign.enter_context(spinning("starting the cluster"))

            def on_ready(ready: Ready) -> None:
                sign.close()
                say_ready(ready)

            asyncio.run(supervise(state, wanted, dsn=dsn, on_ready=on_ready))
    except AlreadyRunningError:
        _say_running(state, wanted, as_json=as_json)


def _say_running(state: StateDir, wanted: Wanted, *, as_json: bool) -> None:
    """Say so once it serves; whoever wants another cluster has to stop this one."""
    import asyncio

    from services.local.founding import wait_until
    from services.local.settling import NODES_OPTION, differs
    from services.local.supervisor import Ready

    kept = state.read_kept()
    if kept is None:
        raise end("The cluster is just being started: try again.", Exit.REFUSED)
    if (option := differs(kept, wanted)) is not None:
        remedy = "stop it with `ringlog down` first"
        if option == NODES_OPTION:
            remedy = "change that with `ringlog scale`"
        raise end(
            f"The cluster in {state.path} is running with another {option}: {remedy}.",
            Exit.REFUSED,
        )
    asyncio.run(wait_until("/readyz", [kept.url], give_up=lambda: None))
    _say(Ready(kept.url), state, "running already", as_json=as_json)


def _say(ready: Ready, state: StateDir, what: str, *, as_json: bool) -> None:
    if as_json:
        said = {"url": ready.url, "state_dir": str(state.path), "status": what}
        listed = {"waiting": list(ready.waiting), "unrepaired": list(ready.unrepaired)}
        print_json({**said, **listed})
        return
    say(f"{what}: {ready.url}")
    if ready.waiting:
        joining = "joining now; `ringlog sequences --watch` shows how far they are."
        registered = "registered, owning nothing: joining takes a driver, so start with --driver."
        say(f"{', '.join(ready.waiting)}: {joining if ready.driven else registered}")
    for name in ready.unrepaired:
        say(f"{name}: was set back and serves no data before `ringlog repair {name}`.")
