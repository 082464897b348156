"""`ringlog scale`: more nodes, or fewer, while the cluster of this machine runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ringlog.commands.change_options import TimeoutOption
from ringlog.commands.ending import Exit, end
from ringlog.commands.options import DEFAULT_STATE_DIR, JsonOption
from ringlog.commands.printing import print_json
from ringlog.commands.saying import say
from ringlog.commands.up import NODES_MAX, StateDirOption

if TYPE_CHECKING:
    # At run time they come when the verb runs, so that --help stays quick.
    from services.local.state import StateDir
    from services.local.wishes import Answer


def scale(
    *,
    nodes: Annotated[int, typer.Option(min=1, max=NODES_MAX, help="How many there are to be.")],
    state_dir: StateDirOption = DEFAULT_STATE_DIR,
    timeout_s: TimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let nodes join or leave the cluster that `ringlog up` runs; return when all have.

    Those that came last leave first. The folder of a node that left stays beside the others as
    NAME.left-ID until somebody removes it. Interrupted, it goes on; run again, it waits.

    Example: ringlog scale --state-dir .state --nodes 5
    """
    from ringlog.commands.asking import talking
    from ringlog.commands.wishing import wished
    from services.local.state import state_dir as state_dir_at
    from services.local.wishes import Standing

    state = state_dir_at(state_dir)
    with talking(state.path, None, None) as talk:
        _check(state, nodes)
        answer = wished(state, nodes, talk, timeout_s=timeout_s, as_json=as_json)
    _say(answer, as_json=as_json)
    if answer.state is Standing.REFUSED:
        raise typer.Exit(Exit.REFUSED)


def _check(state: StateDir, nodes: int) -> None:
    """That there is somebody to ask, and somebody to do it."""
    from services.local.supervision import supervisor_of

    if supervisor_of(state.lock) is None:
        raise end(
            f"Nobody supervises the cluster in {state.path}: start it again with `ringlog up`.",
            Exit.NOT_REACHABLE,
        )
    kept = state.read_kept()
    if kept is not None and not kept.driver and nodes != len(kept.node_ports):
        raise end(
            "The cluster runs without a driver, by whom nodes join and leave: stop it with "
            "`ringlog down` and start it with `ringlog up --driver`.",
            Exit.REFUSED,
        )


def _say(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    changes = [
        f"{', '.join(names)} {what}"
        for what, names in (("joined", answer.joined), ("left", answer.left))
        if names
    ]
    if answer.detail:
        before = f"{'; '.join(changes)}; then " if changes else ""
        say(f"{before}refused: {answer.detail}", err=True, fg=typer.colors.RED)
        return
    say(f"{answer.nodes} nodes: {'; '.join(changes) or 'there are as many already'}")
