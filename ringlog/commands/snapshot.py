"""`ringlog snapshot`: shortcuts through the log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from ringlog.commands.change_options import ActorOption, ReasonOption
from ringlog.commands.ending import Exit, end
from ringlog.commands.grouping import is_for_command
from ringlog.commands.options import JsonOption, StateDirOption, TokenOption, UrlOption
from ringlog.commands.printing import print_json, print_table
from ringlog.commands.saying import say
from ringlog.commands.spinning import spinning

if TYPE_CHECKING:
    # At run time it comes when the verb runs, so that --help stays quick.
    from ringlog.commands.asking import Talk

COLUMNS = ("epoch", "created_at", "created_by", "size_bytes", "digest")
STORE_TIMEOUT_S = 30.0
POLL_S = 0.1

snapshot = typer.Typer(name="snapshot")


@snapshot.callback(invoke_without_command=True)
def list_snapshots(
    context: typer.Context,
    *,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """List snapshots, newest first, or take one.

    Example: ringlog snapshot take
    """
    if is_for_command(context):
        return
    from ringlog.commands.asking import talking

    with talking(state_dir, url, token) as talk:
        answer = talk.get("/v1/snapshots")
    if as_json:
        print_json(answer)
    else:
        rows = answer["snapshots"]
        print_table(COLUMNS, [[row[column] for column in COLUMNS] for row in rows])


@snapshot.command()
def take(
    *,
    actor: ActorOption = None,
    reason: ReasonOption = None,
    state_dir: StateDirOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have a snapshot taken, and wait until it is stored.

    Example: ringlog snapshot take --reason "before the upgrade"
    """
    from ringlog.commands.asking import talking

    with talking(state_dir, url, token) as talk:
        wanted = {"kind": "TriggerSnapshot"}
        outcome = talk.commit(wanted, actor=actor, reason=reason, as_json=as_json)
        with spinning(f"waiting for the snapshot of epoch {outcome.epoch}"):
            found = _stored(talk, outcome.epoch)
    if as_json:
        print_json(found)
    else:
        say(f"stored: snapshot at epoch {found['epoch']}, {found['size_bytes']:,} bytes")


def _stored(talk: Talk, epoch: int) -> dict[str, object]:
    deadline_s = time.monotonic() + STORE_TIMEOUT_S
    while time.monotonic() < deadline_s:
        for row in talk.get("/v1/snapshots")["snapshots"]:
            if row["epoch"] >= epoch:
                return dict(row)
        time.sleep(POLL_S)
    raise end(
        f"The snapshot of epoch {epoch} is not stored yet: the logs of the CMS say why.",
        Exit.REFUSED,
    )
