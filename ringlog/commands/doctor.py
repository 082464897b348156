"""`ringlog doctor`: what is wrong, and the command that mends it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ringlog.commands.ending import Exit, sentences
from ringlog.commands.options import (
    DEFAULT_STATE_DIR,
    JsonOption,
    StateDirOption,
    TokenOption,
    UrlOption,
)
from ringlog.commands.printing import print_json
from ringlog.commands.saying import say
from ringlog.commands.spinning import spinning

if TYPE_CHECKING:
    # At run time they come when the verb runs, so that --help stays quick.
    from ringlog.doctor.finding import Diagnosis
    from ringlog.doctor.gathering import Place
    from ringlog.doctor.picture import Picture

DsnOption = Annotated[
    str | None,
    typer.Option(
        "--postgres-dsn",
        envvar="RINGLOG_POSTGRES_DSN",
        help="The Postgres of a cluster that `ringlog up` does not run; not looked at without.",
        show_default=False,
    ),
]
DriverUrlOption = Annotated[
    str | None,
    typer.Option(
        "--driver-url",
        envvar="RINGLOG_DRIVER_URL",
        help="Address of a driver elsewhere, or several with commas; not asked without.",
        show_default=False,
    ),
]
StartOption = Annotated[
    str | None,
    typer.Option(
        "--start-command",
        envvar="RINGLOG_START_COMMAND",
        help="What starts processes elsewhere again, to be named where one is missing.",
        show_default=False,
    ),
]
LagOption = Annotated[
    int, typer.Option(min=0, help="Epochs that nodes and Kafka may be behind the log.")
]
StuckOption = Annotated[
    float, typer.Option(min=0, help="Seconds that a sequence may wait for a node.")
]
StalledOption = Annotated[
    float, typer.Option(min=0, help="Seconds that a movement may come no further.")
]
SessionOption = Annotated[
    float, typer.Option(min=0, help="Seconds that a cleanup or a repair may stay open.")
]
SnapshotOption = Annotated[
    int, typer.Option(min=0, help="Epochs that the newest snapshot may be behind the log.")
]
SkewOption = Annotated[float, typer.Option(min=0, help="Seconds between two clocks.")]
FreeOption = Annotated[
    float, typer.Option(min=0, max=100, help="Percent of a disk that should be free.")
]


def doctor(  # noqa: PLR0913 one parameter per option
    *,
    lag: LagOption = 100,
    stuck: StuckOption = 60.0,
    stalled: StalledOption = 600.0,
    session: SessionOption = 600.0,
    snapshot: SnapshotOption = 20_000,
    skew: SkewOption = 5.0,
    free: FreeOption = 5.0,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    dsn: DsnOption = None,
    driver_url: DriverUrlOption = None,
    start: StartOption = None,
    as_json: JsonOption = False,
) -> None:
    """Look for what is wrong with a cluster, and name the command that mends it.

    Exit code 0: all is well; 1: something was found; 3: no CMS answers.

    Example: ringlog doctor --state-dir .state
    """
    import asyncio

    from ringlog.doctor.finding import Limits
    from ringlog.doctor.gathering import gathered
    from ringlog.doctor.judging import diagnosis

    limits = Limits(
        lag_epochs=lag,
        stuck_s=stuck,
        stalled_s=stalled,
        session_s=session,
        snapshot_epochs=snapshot,
        skew_s=skew,
        free_percent=free,
    )
    with sentences(), spinning("asking everybody"):
        place = _place(state_dir, url, token, dsn, driver_url, start)
        picture = asyncio.run(gathered(place))
    found = diagnosis(picture, limits)
    if as_json:
        print_json(_view(picture, found))
    else:
        _print(picture, found)
    if not picture.is_reachable:
        raise typer.Exit(Exit.NOT_REACHABLE)
    raise typer.Exit(Exit.DONE if found.is_healthy else Exit.REFUSED)


def _place(
    state_dir: Path | None,
    url: str | None,
    token: str | None,
    dsn: str | None,
    driver_url: str | None,
    start: str | None,
) -> Place:
    """As every verb finds its cluster; but one that does not run is no reason to give up."""
    from ringlog.commands.finding import addresses, find, folder, sendable
    from ringlog.doctor.gathering import Place

    if url is not None and state_dir is None:
        found = find(None, url, token)
        return Place(
            where=f" --url {url}",
            urls=tuple(found.urls),
            driver_urls=tuple(addresses(driver_url, "--driver-url")) if driver_url else (),
            token=found.token,
            dsn=dsn,
            start=start,
        )
    state = folder(state_dir or DEFAULT_STATE_DIR)
    tokens = state.read_tokens()
    return Place(
        where="" if state_dir is None else f" --state-dir {state_dir}",
        state=state,
        token=sendable(token or tokens.get("admin") or tokens.get("operator")),
        dsn=dsn,
    )


def _view(picture: Picture, found: Diagnosis) -> dict[str, Any]:
    import msgspec

    return {
        "healthy": found.is_healthy,
        "reachable": picture.is_reachable,
        "release": picture.release,
        "cluster": None if picture.cluster is None else picture.cluster.get("id") or None,
        "epoch": picture.tip,
        "checks": [{"name": check.name, "state": check.state.value} for check in found.checks],
        "findings": [
            {"check": check.name, **msgspec.structs.asdict(item)}
            for check in found.checks
            for item in check.findings
        ],
    }


def _print(picture: Picture, found: Diagnosis) -> None:
    from ringlog.commands.figures import plural
    from ringlog.doctor.finding import State

    for check in found.checks:
        if check.state is State.NOT_ASKED:
            continue
        if check.state is State.WELL:
            say(f"  {check.name}: well", dim=True)
            continue
        for item in check.findings:
            say(f"! {check.name}: {item.sentence}", fg=typer.colors.YELLOW)
            say(f"      {item.command}")
    skipped = [check.name for check in found.checks if check.state is State.NOT_ASKED]
    if skipped:
        say(f"  not looked at: {', '.join(skipped)}", dim=True)
    if found.is_healthy:
        say(f"Nothing is wrong at epoch {picture.tip}.")
    else:
        say(f"{plural(len(found.findings), 'finding')}; below each, what mends it.")
